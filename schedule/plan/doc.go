// Package plan decides when a schedule sends its message, and what becomes of each occurrence: it is sent once, or its
// skip has a reason. The package has no clock and no store. A schedule is a thread: package schedule keeps the [State]
// there, and commits each change of it in the transaction of what the change sends.
package plan
