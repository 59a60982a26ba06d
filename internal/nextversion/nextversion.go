// Package nextversion makes a program that knows what this one does not: this one with what a later version may add,
// which is a column and an index, a field at the end of the bodies of threads and runs, and a kind of entry. Only the
// linker makes it, from the same compiled packages:
//
//	go build -ldflags "-X mailroom/internal/nextversion.kind=run.noted" ./cmd/mailroom
//
// Tests run it beside this version on one database.
package nextversion

import "encoding/binary"

// kind is the kind of entry of the next version, which only the linker sets. It is empty in any other program, which
// then has no name to write such an entry with.
//
// archtest: the linker writes it, no code does.
var kind string

// Kind returns the kind of entry, which follows each start of a run. Its body is a [Note]. Kind is "" in this version,
// which then writes nothing of the next one.
func Kind() string { return kind }

// Note is the body of an entry. N numbers the notes of a thread from 1.
type Note struct {
	N int64 `json:"n"`
}

// Noted returns the number of notes, which is the field that the next version adds. tail is the end of a body, which
// this version keeps without reading it. A body without the field has 0 notes.
func Noted(tail string) int64 {
	n, size := binary.Uvarint([]byte(tail))
	if size <= 0 {
		return 0
	}
	return int64(n)
}

// Add returns tail with the number of notes increased by one.
func Add(tail string) string {
	_, size := binary.Uvarint([]byte(tail))
	return string(binary.AppendUvarint(nil, uint64(Noted(tail)+1))) + tail[max(size, 0):]
}
