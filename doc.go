// Package mailroom gives every agent a durable mailbox.
//
// A [Thread] is an address, an append-only log of entries, at most one current
// [Run], and a queue of runs. Everything that happens in a thread is an [Entry]
// with a gapless sequence number. A state change, its entries and the messages
// it sends to other threads commit together or not at all, and every write of a
// run carries its [Claim], so a worker that lost its claim can commit nothing.
//
// This package holds the nouns, the seams ([Store], [Agent], [Session]) and one
// pure transition per rule, as methods of a [ThreadState] thread. It does no I/O,
// reads no clock and makes no ids: they come in. Package ledger runs the
// transitions in transactions; package engine runs agents on what is due.
package mailroom
