package doctor

import (
	"mailroom"
	"mailroom/doctor/fold"
	"mailroom/store"
)

// orphans looks up the runs and tickets that the log names and that were in no page of rows. Some of them have a row,
// because it was created before the current position of the scan. Entries that were purged during the check do not
// count.
func (p *checker) orphans() (cost int, err error) {
	var ids []string
	for id, t := range p.log.Runs {
		if !t.Seen && t.Whole && (t.Pos >= p.t.FirstSeq || p.t.FirstSeq == 1) {
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
	if err := p.runRows(rows); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if t := p.log.Runs[id]; !t.Seen {
			t.Seen, t.Gone = true, true
			p.badRun(Log, id, "the log names run %s, which does not exist", id)
		}
	}
	return len(ids), nil
}

func (p *checker) orphanTickets() (cost int, err error) {
	var ids []string
	for id, k := range p.log.Tickets {
		if t := p.log.Runs[k.Run]; !k.Seen && t.Seen && !t.Gone && k.Seq >= p.t.FirstSeq {
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
		if k := p.log.Tickets[id]; !k.Seen {
			k.Seen = true
			p.badTicket(Ticket, k.Run, id, "entry %d opens ticket %s of run %s, which does not exist", k.Seq, id, k.Run)
		}
	}
	return len(ids), nil
}

// sends checks that the run of each send exists, unless its thread was deleted or purged.
func (p *checker) sends(all []fold.Send) error {
	if len(all) == 0 {
		return nil
	}
	var ids, threads []string
	for _, s := range all {
		ids, threads = append(ids, s.Run), append(threads, s.Thread)
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
		// A thread that is younger than the send is not checked, because it may have been created after the thread
		// that received the message was deleted.
		if t := whole[s.Thread]; t != nil && in[s.Run] != s.Thread && t.CreatedAt.Before(s.Entry.At) {
			p.badRun(Send, s.Entry.Run, "entry %d sent run %s to thread %q, where it does not exist", s.Entry.Seq,
				s.Run, s.Thread)
		}
	}
	return nil
}
