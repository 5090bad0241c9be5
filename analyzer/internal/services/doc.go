// Package services is the folder of tests that are clients of a long-running program, a service.
//
// The service runs under the tracer while its tests run. The functions that it enters during a test (package interval)
// select the tests that a change of the service can affect. Rooms for ordinary tests don't import this folder.
package services
