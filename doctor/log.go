package doctor

import (
	"mailroom"
	"mailroom/doctor/fold"
	"mailroom/store"
)

// readLog folds the next page of the log.
func (p *checker) readLog() (cost int, err error) {
	page, err := p.r.Entries(store.EntryQuery{Thread: p.t.ID, After: p.log.Last, Before: p.t.LastSeq + 1, Limit: batch})
	if err != nil {
		return 0, err
	}
	began := p.log.Last
	for _, e := range page {
		for _, v := range p.log.Add(e) {
			p.report.Add(Finding{Invariant: Invariant(v.Rule), Thread: p.t.ID, Run: v.Run, Ticket: v.Ticket, Text: v.Text})
		}
	}
	p.report.Entries += len(page)
	if p.log.Last < p.t.LastSeq && (len(page) < batch || p.log.Last == began) {
		p.bad(Seq, "the log ends at entry %d, the thread's row says %d", p.log.Last, p.t.LastSeq)
		p.log.Last = p.t.LastSeq
	}
	err = p.sends(p.log.Sends)
	p.log.Sends = nil
	return len(page) + 1, err
}

// edges checks that no entry has a number below first_seq or above last_seq.
func (p *checker) edges() error {
	for _, q := range []store.EntryQuery{
		{Thread: p.t.ID, After: p.t.LastSeq, Limit: 1},
		{Thread: p.t.ID, Before: p.t.FirstSeq, Limit: 1},
	} {
		if q.After == 0 && q.Before == 1 {
			continue
		}
		page, err := p.r.Entries(q)
		if err != nil {
			return err
		}
		for _, e := range page {
			p.bad(Seq, "entry %d is not between first_seq, %d, and last_seq, %d", e.Seq, p.t.FirstSeq, p.t.LastSeq)
		}
	}
	return nil
}

// steers checks that each unread steered message is in the row of the current run, together with the run that the
// message becomes if it stays unread.
func (p *checker) steers(current *mailroom.Run) {
	waits := map[string]bool{}
	own := ""
	if current != nil {
		for _, steer := range current.Steers {
			if steer.Own != nil {
				own = steer.Own.ID
			}
			if steer.Read || steer.Retracted {
				continue
			}
			waits[steer.Message] = true
			if m := p.log.Unread[steer.Message]; m == nil || m.Run.ID != current.ID || m.Content != steer.Seq || m.Own != own {
				p.badRun(Steer, current.ID, "run %s has the unread steered message %s at entry %d, which differs from the log",
					current.ID, steer.Message, steer.Seq)
			}
		}
	}
	for id, m := range p.log.Unread {
		if !waits[id] {
			p.badRun(Steer, m.Run.ID, "message %s was steered to run %s, which never read it, and did not become a run",
				id, m.Run.ID)
		}
	}
}

// input checks that a run names the entry that has the latest content of its message.
func (p *checker) input(r *mailroom.Run, in mailroom.Input) {
	if in.Seq < p.t.FirstSeq {
		return
	}
	if m := p.log.Message(in.Message); m == nil || m.Content != in.Seq {
		p.badRun(Message, r.ID, "run %s has message %s at entry %d, which has a different message", r.ID, in.Message, in.Seq)
	}
}

// allows reports whether the row r is possible for a run that has the state s in the log.
func allows(s fold.State, r *mailroom.Run) bool {
	switch s {
	case fold.StateQueued:
		return r.NeverStarted()
	case fold.StateRunning:
		return r.Status == mailroom.StatusRunning
	case fold.StateRescheduled:
		return r.Status == mailroom.StatusQueued && !r.StartedAt.IsZero() && !r.Resumes
	case fold.StateWaiting:
		return r.Status == mailroom.StatusWaiting || r.Status == mailroom.StatusQueued && r.Resumes
	case fold.StateCompleted, fold.StateFailed, fold.StateCancelled:
		return string(r.Status) == s.String()
	}
	return false // only messages of the run were logged
}
