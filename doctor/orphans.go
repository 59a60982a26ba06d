package doctor

import (
	"time"

	"mailroom"
	"mailroom/store"
)

// orphans looks for the rows of runs and tickets that the log names and no page of rows contained.
// Some were created behind the current page. Entries that were purged during the check do not
// count.
func (p *checker) orphans() (cost int, err error) {
	var ids []string
	for id, t := range p.fold.runs {
		if !t.seen && t.begun && (t.pos >= p.t.FirstSeq || p.t.FirstSeq == 1) {
			if ids = append(ids, id); len(ids) == batch {
				break
			}
		}
	}
	if len(ids) == 0 {
		return p.orphanTickets()
	}
	rows, err := p.r.Runs(store.RunQuery{IDs: ids, Thread: p.t.ID})
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if err := p.run(r); err != nil {
			return 0, err
		}
	}
	if err := p.keys(rows); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if t := p.fold.runs[id]; !t.seen {
			t.seen, t.gone = true, true
			p.badRun(Log, id, "the log names run %s, which does not exist", id)
		}
	}
	return len(ids), nil
}

func (p *checker) orphanTickets() (cost int, err error) {
	var ids []string
	for id, k := range p.fold.tickets {
		if t := p.fold.runs[k.run]; !k.seen && t.seen && !t.gone && k.seq >= p.t.FirstSeq {
			if ids = append(ids, id); len(ids) == batch {
				break
			}
		}
	}
	if len(ids) == 0 {
		p.phase = phaseWhole
		return 1, nil
	}
	rows, err := p.r.Tickets(store.TicketQuery{IDs: ids, Thread: p.t.ID})
	if err != nil {
		return 0, err
	}
	if err := p.check(rows); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if k := p.fold.tickets[id]; !k.seen {
			k.seen = true
			p.badTicket(Ticket, k.run, id, "entry %d opens ticket %s of run %s, which does not exist", k.seq, id, k.run)
		}
	}
	return len(ids), nil
}

// sent is a send that an entry records.
type sent struct {
	seq         int64
	at          time.Time
	from        string
	thread, run string
}

// sends checks that the run of each send exists, unless its thread was deleted or purged.
func (p *checker) sends(all []sent) error {
	if len(all) == 0 {
		return nil
	}
	var ids, threads []string
	for _, s := range all {
		ids, threads = append(ids, s.run), append(threads, s.thread)
	}
	runs, err := p.r.Runs(store.RunQuery{IDs: ids})
	if err != nil {
		return err
	}
	in := map[string]string{}
	for _, r := range runs {
		in[r.ID] = r.Thread
	}
	rows, err := p.r.Threads(store.ThreadQuery{IDs: threads})
	if err != nil {
		return err
	}
	whole := map[string]*mailroom.Thread{} // threads with their whole log
	for _, t := range rows {
		if t.FirstSeq == 1 {
			whole[t.ID] = t
		}
	}
	for _, s := range all {
		// A thread that is not older than the send may have been deleted and created again.
		if t := whole[s.thread]; t != nil && in[s.run] != s.thread && t.CreatedAt.Before(s.at) {
			p.badRun(Send, s.from, "entry %d sent run %s to thread %q, where it does not exist", s.seq, s.run, s.thread)
		}
	}
	return nil
}

// steers checks that each unread steered message is in the row of the current run, with the run
// that it becomes.
func (s *fold) steers(current *mailroom.Run) {
	waits := map[string]mailroom.Steer{}
	own := ""
	if current != nil {
		for _, steer := range current.Steers {
			if steer.Own != nil {
				own = steer.Own.ID
			}
			if steer.Read || steer.Retracted {
				continue
			}
			waits[steer.Message] = steer
			if m, ok := s.unread[steer.Message]; !ok || m.holder != current.ID || m.seq != steer.Seq || m.own != own {
				s.badRun(Steer, current.ID, "run %s has the unread steered message %s at entry %d, which differs from the log",
					current.ID, steer.Message, steer.Seq)
			}
		}
	}
	for id, m := range s.unread {
		if _, ok := waits[id]; !ok {
			s.badRun(Steer, m.holder, "message %s was steered to run %s, which never read it, and did not become a run", id, m.holder)
		}
	}
}
