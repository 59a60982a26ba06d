package doctor

import (
	"fmt"
	"time"

	"mailroom"
)

// overdue is how long after the end of a worker's lease its claims may still be
// there while another worker looks after them. A sweep comes at least every
// minute and frees what it finds in small transactions.
const overdue = 2 * time.Minute

// row: what the row of the thread says by itself.
func (p *patient) row() {
	t := p.t
	if id, err := mailroom.CheckThreadID(t.ID); err != nil || id != t.ID {
		p.bad(Limit, "%q is not an id of a thread", t.ID)
	}
	if t.FirstSeq < 1 || t.FirstSeq > t.LastSeq+1 {
		p.bad(Seq, "first_seq is %d, which should be between 1 and last_seq + 1, %d", t.FirstSeq, t.LastSeq+1)
	}
	if t.Owner == "" {
		p.bad(Owner, "it has no owner, and is shown to nobody")
	}
	if len(t.Metadata) > mailroom.MaxMetadata {
		p.bad(Limit, "the metadata has %d bytes, %d at most are allowed", len(t.Metadata), mailroom.MaxMetadata)
	}
	for agent, state := range t.State {
		if len(state) > mailroom.MaxState {
			p.bad(Limit, "the state of agent %q has %d bytes, %d at most are allowed", agent, len(state), mailroom.MaxState)
		}
	}
	if t.DeliverTo == t.ID {
		p.bad(Send, "it delivers to itself")
	}
}

// whole: what concerns the thread as a whole, in one view.
func (p *patient) whole() error {
	if err := p.story.edges(); err != nil {
		return err
	}
	if err := p.delivery(); err != nil {
		return err
	}
	if err := p.reservations(); err != nil {
		return err
	}
	if err := p.inboxes(); err != nil {
		return err
	}
	p.bytes()
	var current *mailroom.Run
	if p.t.Current != "" {
		rows, err := p.r.Runs(mailroom.RunQuery{IDs: []string{p.t.Current}, Thread: p.t.ID})
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			current = rows[0]
		}
	}
	p.current(current)
	p.claim()
	p.story.steers(current)
	if p.t.Current != "" && current == nil {
		return nil // nothing more can be said
	}
	return p.due(current)
}

// delivery: a thread that others deliver to delivers nowhere.
func (p *patient) delivery() error {
	if p.t.DeliverTo == "" {
		return nil
	}
	rows, err := p.r.Threads(mailroom.ThreadQuery{IDs: []string{p.t.DeliverTo}})
	if err == nil && len(rows) > 0 && rows[0].DeliverTo != "" {
		p.bad(Send, "it delivers to thread %q, which delivers to %q itself", p.t.DeliverTo, rows[0].DeliverTo)
	}
	return err
}

// current: the thread row, the log and the rows agree which run has started and
// is not finished.
func (p *patient) current(r *mailroom.Run) {
	t := p.t
	switch {
	case t.Current == "" && (t.Worker != "" || t.Round != 0):
		p.bad(Current, "worker %q and round %d are set without a current run", t.Worker, t.Round)
	case t.Current == "":
	case r == nil:
		p.badRun(Current, t.Current, "the current run %s does not exist", t.Current)
	case r.Status.Finished():
		p.badRun(Current, r.ID, "the current run %s is %s", r.ID, r.Status)
	case r.NeverStarted():
		p.badRun(Current, r.ID, "the current run %s has not started", r.ID)
	case (t.Worker != "") != (r.Status == mailroom.StatusRunning):
		p.badRun(Current, r.ID, "the worker is %q while the current run %s is %s", t.Worker, r.ID, r.Status)
	}
	if p.story.open != t.Current {
		p.bad(Current, "the log ends in the middle of run %q, the current run is %q", p.story.open, t.Current)
	}
}

// claim: a claim is held by a worker, and goes when that worker's lease is over.
// Whoever looks after the others needs a while for that.
func (p *patient) claim() {
	id := p.t.Worker
	if id == "" {
		return
	}
	w := p.workers[id]
	if w == nil {
		p.badRun(Claim, p.t.Current, "run %s is held by worker %s, which does not exist", p.t.Current, id)
		return
	}
	over := w.LeaseUntil
	if p.swept.After(over) {
		over = p.swept
	}
	if (w.Dead || p.now.After(w.LeaseUntil)) && !p.swept.IsZero() && p.now.Sub(over) > overdue {
		p.badRun(Claim, p.t.Current, "run %s is held by worker %s, whose lease ended at %s; another worker lives and should have freed it",
			p.t.Current, id, at(w.LeaseUntil))
	}
}

// due recomputes the scheduling columns with the function that sets them.
func (p *patient) due(current *mailroom.Run) error {
	loaded := mailroom.NewThreadState(p.t)
	if current != nil {
		loaded.AddRun(current)
		if current.Asked > 0 {
			tickets, err := p.r.Tickets(mailroom.TicketQuery{Runs: []string{current.ID}})
			if err != nil {
				return err
			}
			for _, k := range tickets {
				loaded.AddTicket(k)
			}
		}
	}
	queue := false
	for _, set := range []mailroom.RunSet{mailroom.RunsQueued, mailroom.RunsScheduled} {
		rows, err := p.r.Runs(mailroom.RunQuery{Thread: p.t.ID, Set: set, Limit: 1})
		if err != nil {
			return err
		}
		loaded.SetQueue(set, rows, true) // the function looks at the first ones only
		queue = queue || set == mailroom.RunsQueued && len(rows) > 0
	}
	want, heldAt := loaded.ExpectedDue(p.now)
	if !p.t.HeldAt.Equal(heldAt) {
		p.bad(Due, "the first of its held runs is due at %s by its row, at %s by the runs", at(p.t.HeldAt), at(heldAt))
	}
	got := p.t.Due
	timed := current != nil || !queue // else any time since the queue began is right
	if got.At.IsZero() != want.At.IsZero() || got.Agent != want.Agent || got.Priority != want.Priority ||
		got.LastAttempt != want.LastAttempt || timed && !got.At.Equal(want.At) || got.At.After(p.now) && !timed {
		p.bad(Due, "by its row %s, by the runs %s", due(got), due(want))
	}
	return nil
}

func due(d mailroom.Due) string {
	if d.At.IsZero() && d.Agent == "" {
		return "nothing is due"
	}
	if d.Agent == "" {
		return fmt.Sprintf("the claim ends at %s", at(d.At))
	}
	alone := ""
	if d.LastAttempt {
		alone = ", on its last chance"
	}
	return fmt.Sprintf("a run of agent %q with priority %d%s is due at %s", d.Agent, d.Priority, alone, at(d.At))
}

// at is a time in a sentence.
func at(t time.Time) string {
	if t.IsZero() {
		return "no time"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
