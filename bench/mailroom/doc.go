// Command mailroom-bench measures the performance of Mailroom on the current machine, with the real
// ledger, engine, streams and server on a real SQLite file. Every acknowledgement is on disk
// before it is sent.
//
// Each part of a measurement uses its own folder and removes it at the end. Times are
// measured by the callers: the submit time from the call to the response; the start and end
// times from the call of the submit until the agent starts, and until the completion is
// durable and published.
package main
