// Package traces is the folder of executions that are watched.
//
// A test that was executed under the tracer (package trace) has a second key: functions that the execution didn't
// enter are stubs in it. Package frontier keeps the names of these functions next to the result, so that a later version
// of the test can compute the same key.
package traces
