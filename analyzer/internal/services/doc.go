// Package services is the folder of tests that are clients of a long-running program, a service.
//
// The service runs under the tracer while its tests do. What it entered during a test (package interval) selects the
// tests that a change of the service concerns. The way of an ordinary test doesn't import this folder.
package services
