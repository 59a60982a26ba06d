// Command peers runs the same work on Mailroom and on other durable queues, in
// turn on one machine and one disk, and prints how they compare.
//
// The work: 64 producers hand in one small piece of work at a time and wait for
// the answer; a handler that does nothing gets it; its end is recorded. Every
// queue is set so that what it acknowledges has been synced to the disk. Bulk
// inserts, which some peers offer, are not used: agents' messages come singly.
//
// The folder bench is a module of its own, so that what the peers need stays out of
// Mailroom's. This command imports nothing of Mailroom.
package main
