package turn

import (
	"slices"

	"mailroom"
	"mailroom/entry"
)

// State is the turns of a thread as far as entries and deltas were applied. Its zero value is the state before the
// first one, and also of a reader that begins in the middle of a log. It is not for concurrent use.
type State struct {
	turns []*Turn // turns in the order of their first entries
	byRun map[string]*Turn
	bytes int // bytes of all turns

	seq  int64 // seq of the last entry that was applied
	live live

	// Numbers.
	after   int64 // number of the last event that the reader has
	resumed bool  // live.shown is set from after
	at      int64 // number of the last event

	// Events of the entry or the delta that is being applied.
	out       []Event
	slot      int
	began     *Turn // the turn whose first entry is being applied
	textFirst bool  // the text of the message comes first, see number
}

// After returns the state of a reader that has the events up to this number. Apply the entries of its turn from the
// first one, or from any later one up to the one that the number names; it returns only events after the number, and
// cuts text that the reader has. A part that was live only begins again under the same key. A number within the events
// of an entry is exact if the turn is applied from its first entry.
func After(number int64) *State { return &State{after: number, at: number} }

// Turns returns the turns in the order of their first entries. They must not be changed, and are valid until the next
// call that applies something.
func (s *State) Turns() []*Turn { return s.turns }

// Turn returns the turn of a run, or nil if no entry of it was applied or it was dropped.
func (s *State) Turn(run string) *Turn {
	if t := s.byRun[run]; t != nil && !t.assumed {
		return t
	}
	return nil
}

// Apply applies the next entry of the log and returns what it changes. An entry that was applied before changes
// nothing. Entries of unknown kinds, and bodies that cannot be read, are passed over.
func (s *State) Apply(e mailroom.Entry) []Event {
	if e.Seq <= s.seq {
		return nil
	}
	if seq, _ := Split(s.after); e.Seq > seq {
		s.resume()
	}
	s.out, s.slot, s.began, s.textFirst = nil, 1, nil, false
	s.seq = e.Seq
	if e.Run != "" {
		s.fold(e)
	}
	if t := s.began; t != nil {
		s.out = slices.Insert(s.out, 0, Event{Type: TurnBegan, Run: t.Run, Status: t.Status})
	}
	s.bound(s.byRun[e.Run])
	return append(s.number(e.Seq), s.takeEarly()...)
}

// ApplyGap applies the loss of the entries before oldest: they are no longer kept. Retention keeps the entries of a run
// until it has ended, so the turns that were going on have ended.
func (s *State) ApplyGap(oldest int64) []Event {
	if oldest-1 <= s.seq {
		return nil
	}
	s.resume()
	s.out, s.slot, s.began, s.textFirst = nil, 1, nil, false
	s.seq = oldest - 1
	s.dropLive()
	for _, t := range s.turns {
		if !t.Status.Finished() {
			s.end(t, StatusLost)
		}
	}
	return s.number(s.seq)
}

// resume takes over what the reader has of the message being written, once the place of its number is reached. The
// turn that runs there writes the message, if its start was applied.
func (s *State) resume() {
	if s.resumed {
		return
	}
	s.resumed, s.live.shown = true, shownAt(s.after)
	for _, t := range s.turns {
		if t.Status == StatusRunning {
			s.live.run, s.live.attempt = t.Run, t.Attempt
		}
	}
}

func (s *State) fold(e mailroom.Entry) {
	switch e.Kind {
	case entry.KindMessage:
		s.message(e)
	case entry.KindQueued, entry.KindStarted, entry.KindResumed, entry.KindRescheduled, entry.KindStop,
		entry.KindCompleted, entry.KindFailed, entry.KindCancelled, entry.KindRetried, entry.KindWaiting:
		s.ran(e)
	case entry.KindStep:
		s.step(e)
	case entry.KindToolStarted:
		s.toolStarted(e)
	case entry.KindToolDone:
		s.toolDone(e)
	case entry.KindSend:
		s.send(e)
	case entry.KindTicketOpened:
		s.opened(e)
	case entry.KindTicketDecided, entry.KindTicketExpired:
		s.decided(e)
	}
}

// turn returns the turn of e's run, which begins if e is its first entry.
func (s *State) turn(e mailroom.Entry) *Turn {
	t := s.byRun[e.Run]
	if t == nil {
		t = s.newTurn(e.Run)
		s.began = t
	}
	if t.First == 0 {
		t.assumed, t.First = false, e.Seq
		t.Status = StatusQueued
		if e.Attempt > 0 {
			t.Status = StatusRunning
		}
		s.turns = append(s.turns, t)
	}
	t.Last, t.Attempt = e.Seq, max(t.Attempt, e.Attempt)
	return t
}

func (s *State) newTurn(run string) *Turn {
	if s.byRun == nil {
		s.byRun = map[string]*Turn{}
	}
	t := &Turn{Run: run, calls: map[string]*Part{}, keys: map[string]int{}, tickets: map[string]*Part{}}
	s.byRun[run] = t
	return t
}
