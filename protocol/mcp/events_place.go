package mcp

import (
	"fmt"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/agent/inbox"
	"mailroom/api"
	"mailroom/entry"
	"mailroom/internal/display"
)

// place is a place in the log of an inbox: the durable position from which a client goes on, which is the sequence
// number of an entry. The zero place is now. Its text is the opaque cursor of a client.
type place struct {
	made int64 // when the thread was made, in Unix microseconds: a later thread of the same id has another log
	seq  int64 // the last entry that was looked at
	// run is the run of the last event up to there: an answer of the reader brings the same message to the head again.
	run string
}

// placeForm is the first field of the text of a place.
const placeForm = "1"

func (p place) isNow() bool { return p == place{} }

func (p place) String() string {
	return strings.Join([]string{placeForm, strconv.FormatInt(p.made, 36), strconv.FormatInt(p.seq, 10), p.run}, ".")
}

// parsePlace reads the text of a place.
func parsePlace(text string) (place, error) {
	const most = 200
	fields := strings.SplitN(text, ".", 4)
	if len(text) > most || len(fields) != 4 || fields[0] != placeForm {
		return place{}, errCursor(text)
	}
	made, err := strconv.ParseInt(fields[1], 36, 64)
	if err != nil || made <= 0 {
		return place{}, errCursor(text)
	}
	seq, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || seq < 0 {
		return place{}, errCursor(text)
	}
	return place{made, seq, fields[3]}, nil
}

func errCursor(text string) error {
	return errParams("cursor: %q is not a cursor of %s: use one that a result had, or null for now on",
		display.Cut(text, maxQuoted), EventWaiting)
}

// within returns the place in the log of th from which a client at p goes on. It is another one if p is now, if the
// thread was made again, if its log begins later by now, or if it ends before p, because an older copy of the store was
// restored.
func (p place) within(th api.Thread) place {
	made := th.CreatedAt.UnixMicro()
	switch {
	case p.isNow(), p.made == made && p.seq > th.LastSeq:
		return place{made: made, seq: th.LastSeq}
	case p.made != made: // all events of the new log are new
		return place{made: made, seq: max(th.OldestSeq-1, 0)}
	case p.seq < th.OldestSeq-1:
		p.seq = th.OldestSeq - 1
	}
	return p
}

// headKinds are the kinds of entries that can be an event.
func headKinds() []string { return []string{entry.KindTicketOpened} }

// after returns the place after an entry. isNew reports that the entry is an event: another message came to the head.
func (p place) after(e *mailroom.Entry) (next place, isNew bool) {
	next = p
	next.seq = e.Seq
	if e.Kind != entry.KindTicketOpened {
		return next, false
	}
	var k mailroom.Ticket
	if err := e.Decode(&k); err != nil || k.Action != inbox.Action || e.Run == p.run {
		return next, false
	}
	next.run = e.Run
	return next, true
}

// position is the place as the id of an event in the stream of a thread.
func (p place) position() string { return fmt.Sprint(p.seq) }
