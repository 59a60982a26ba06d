// Package turn folds the entries and the live text of a thread into the turns of its agents, and each turn into parts:
// text, reasoning, tool calls, questions, children, steps, data, files and errors. Protocols differ only in how they
// write these parts down, so this package is the one place that knows what an entry means for a conversation.
//
// A [State] does no I/O and reads no clock. What it derives from entries depends on the entries alone: live text shows
// a part early, and changes no part of the log. [State.Apply] and [State.ApplyDelta] return what changed as events.
//
// It is a package of its own, and not part of stream, because it needs neither the store nor the bus: programs on the
// other side of the API fold what they read with the same rules.
//
// # Numbers
//
// The number of an event is derived from its place, and not counted, so it is the same after a restart, and a reader
// that names the last one that it has continues there, see [After]. It fits into the integers of JavaScript while seq
// is below 2^32. With b, the bytes that the reader has of the text of the message being written (MaxText is 2^20):
//
//	seq·2^21 + b                    live text, or the last event of the entry seq
//	(seq-1)·2^21 + 2^20 + 1 + i     event i of the entry seq, if others follow
//	(seq-1)·2^21 + 2^20 + 2^19 + i  the same, if the entry ends a message that the reader has in part
//
// So the numbers of a block of 2^21 up to 2^20 are for live text after an entry, and the others are for the first
// events of the next entry, which one number for each entry could not tell apart. In the last form the rest of the text
// comes before the other parts of the message. Then also a reader that stops between two events of an entry has a
// number that says how much of the text it has.
//
// An entry that leaves the message open, such as a step, has one number: its events before the last are no cursor.
//
// Thinking and the arguments of a tool call, as a model writes them, have no place in the log. Their events have the
// number of the event before, and are no cursor: see [Event.Cursor].
package turn
