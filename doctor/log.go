package doctor

import "mailroom"

// story is what a thread's log tells, entry by entry, to be compared with its rows.
type story struct {
	*checker
	t        *mailroom.Thread
	runs     map[string]*mailroom.Run
	attempts map[string]int    // of each run, so far
	last     map[string]string // the kind of each run's last transition
	open     string            // the run that has started and not ended
	content  map[int64]string  // the message whose text an entry has
}

// log reads the whole log: no hole, attempts that never go back, one run at a
// time, and an end that agrees with the rows.
func (c *checker) log(t *mailroom.Thread, runs map[string]*mailroom.Run) error {
	s := story{
		checker: c, t: t, runs: runs,
		attempts: map[string]int{}, last: map[string]string{}, content: map[int64]string{},
	}
	after := t.FirstSeq - 1
	for {
		page, err := c.r.Entries(mailroom.EntryQuery{Thread: t.ID, After: after, Limit: 500})
		if err != nil {
			return err
		}
		for _, e := range page {
			if e.Seq != after+1 {
				c.bad(t, "entry %d follows entry %d", e.Seq, after)
			}
			after = e.Seq
			if err := s.entry(e); err != nil {
				return err
			}
		}
		if len(page) < 500 {
			break
		}
	}
	if after != t.LastSeq {
		c.bad(t, "the log ends at %d, the thread says %d", after, t.LastSeq)
	}
	s.end()
	return nil
}

func (s *story) entry(e mailroom.Entry) error {
	switch e.Kind {
	case mailroom.KindMessage:
		var m mailroom.Message
		err := e.Decode(&m)
		s.content[e.Seq] = m.ID
		return err
	case mailroom.KindEdited:
		var edit mailroom.Edited
		err := e.Decode(&edit)
		s.content[e.Seq] = edit.Message
		return err
	case mailroom.KindRetracted:
		return nil // it may come before or after the run's attempts
	}
	if e.Attempt < s.attempts[e.Run] {
		s.bad(s.t, "entry %d of run %s has attempt %d after %d", e.Seq, e.Run, e.Attempt, s.attempts[e.Run])
	}
	s.attempts[e.Run] = e.Attempt
	if r := s.runs[e.Run]; r == nil && s.t.FirstSeq > 1 {
		return nil // it began before the first entry kept, and went with that
	} else if r == nil {
		s.bad(s.t, "entry %d names run %s, which does not exist", e.Seq, e.Run)
	} else if e.Attempt > r.Attempt {
		s.bad(s.t, "entry %d of run %s has attempt %d, the run says %d", e.Seq, e.Run, e.Attempt, r.Attempt)
	}
	s.transition(e)
	return nil
}

// transition: a run that started ends before another one starts.
func (s *story) transition(e mailroom.Entry) {
	switch e.Kind {
	case mailroom.KindStarted, mailroom.KindResumed:
		if s.open != "" && s.open != e.Run {
			s.bad(s.t, "entry %d starts run %s before the end of run %s", e.Seq, e.Run, s.open)
		}
		s.open = e.Run
	case mailroom.KindCompleted, mailroom.KindFailed, mailroom.KindCancelled:
		if s.open == e.Run {
			s.open = ""
		}
	case mailroom.KindQueued, mailroom.KindRescheduled, mailroom.KindWaiting, mailroom.KindRetried:
	default:
		return
	}
	s.last[e.Run] = e.Kind
}

// end compares where the log ends with the rows.
func (s *story) end() {
	if s.open != s.t.Current && (s.open != "" || s.last[s.t.Current] != "") {
		s.bad(s.t, "the log ends in run %q, the current run is %q", s.open, s.t.Current)
	}
	places := map[int64]string{}
	for _, r := range s.runs {
		if kind, told := s.last[r.ID]; told && !agrees(kind, r.Status) {
			s.bad(s.t, "run %s is %s, the log ends it with %q", r.ID, r.Status, s.last[r.ID])
		}
		if r.Place >= s.t.NextPlace {
			s.bad(s.t, "run %s has place %d, the next one is %d", r.ID, r.Place, s.t.NextPlace)
		}
		if r.NeverStarted() {
			if other := places[r.Place]; other != "" {
				s.bad(s.t, "runs %s and %s have the same place %d", r.ID, other, r.Place)
			}
			places[r.Place] = r.ID
		}
		for _, in := range r.Inputs {
			s.input(r, in)
		}
		for _, steer := range r.Steers {
			s.input(r, steer.Input)
		}
	}
}

// input: a run names the entries that have the text of its messages.
func (s *story) input(r *mailroom.Run, in mailroom.Input) {
	if in.Seq >= s.t.FirstSeq && s.content[in.Seq] != in.Message {
		s.bad(s.t, "run %s has message %s at entry %d, which is message %q", r.ID, in.Message, in.Seq, s.content[in.Seq])
	}
}

// agrees tells whether a run whose last transition is of that kind can have that
// status. A wait ends with the entry of a ticket, or of a message.
func agrees(kind string, s mailroom.Status) bool {
	switch kind {
	case mailroom.KindStarted, mailroom.KindResumed:
		return s == mailroom.Running
	case mailroom.KindCompleted:
		return s == mailroom.Completed
	case mailroom.KindFailed:
		return s == mailroom.Failed
	case mailroom.KindCancelled:
		return s == mailroom.Cancelled
	case mailroom.KindWaiting:
		return s == mailroom.Waiting || s == mailroom.Queued
	case mailroom.KindQueued, mailroom.KindRescheduled, mailroom.KindRetried:
		return s == mailroom.Queued
	}
	return false
}
