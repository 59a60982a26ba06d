// Package bench measures what the parts of Mailroom can do on the machine it
// runs on: the real ledger, engine, streams and server over a real SQLite file,
// with every acknowledgement on disk before it is given.
//
// Each part of a measurement has a folder of its own, which is removed when it
// ends. Times are taken by the callers' clock: a submit's from the call to the
// answer, a start's and an end's from the call of the submit to the moment at
// which the agent is entered and the completion is durable and told.
package bench
