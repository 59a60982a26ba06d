// Command peers compares Mailroom with other durable queues under the same load, in
// turn on one machine and one disk.
//
// The load: 64 producers each submit one small job at a time and wait for the
// acknowledgement; a handler that does nothing receives it; its completion is recorded.
// Every queue is configured to sync a job to disk before it acknowledges it. Bulk inserts
// are not used, because agents' messages arrive one at a time.
//
// It is a separate module, so Mailroom's own module does not depend on the peers. This command imports nothing of
// Mailroom.
package main
