package doctor

import (
	"fmt"
	"time"

	"mailroom"
	"mailroom/internal/check"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// overdue is how long claims may outlive a worker's lease while another worker sweeps. A sweep runs
// at least every minute and frees claims in small transactions.
const overdue = 2 * time.Minute

// row checks the values of the thread's row that need no other row.
func (p *checker) row() {
	t := p.t
	if id, err := check.ThreadID(t.ID); err != nil || id != t.ID {
		p.bad(Limit, "%q is not a valid thread id", t.ID)
	}
	if t.FirstSeq < 1 || t.FirstSeq > t.LastSeq+1 {
		p.bad(Seq, "first_seq is %d, which should be between 1 and last_seq + 1, %d", t.FirstSeq, t.LastSeq+1)
	}
	if t.Owner == "" && t.ID != reserved.AuditLog {
		p.bad(Owner, "it has no owner, so no caller can see it")
	}
	if len(t.Metadata) > mailroom.MaxMetadata {
		p.bad(Limit, "the metadata has %d bytes, the limit is %d", len(t.Metadata), mailroom.MaxMetadata)
	}
	for agent, state := range t.State {
		if len(state) > mailroom.MaxState {
			p.bad(Limit, "the state of agent %q has %d bytes, the limit is %d", agent, len(state), mailroom.MaxState)
		}
	}
	for agent, node := range t.Nodes {
		if node == "" || len(t.State[agent]) == 0 {
			p.bad(Due, "runs of agent %q must start on server %q, but the agent has no session there", agent, node)
		}
	}
	if t.DeliverTo == t.ID {
		p.bad(Send, "it delivers to itself")
	}
}

// whole checks the rules that concern the thread as a whole, in one view.
func (p *checker) whole() error {
	if err := p.edges(); err != nil {
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
	if err := p.blobs(); err != nil {
		return err
	}
	p.bytes()
	var current *mailroom.Run
	if p.t.Current != "" {
		rows, err := p.r.Runs(store.RunQuery{IDs: []string{p.t.Current}, Thread: p.t.ID})
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			current = rows[0]
		}
	}
	p.current(current)
	p.claim()
	p.steers(current)
	if err := checkSchedule(p); err != nil {
		return err
	}
	if err := checkPeriods(p); err != nil {
		return err
	}
	if p.t.Current != "" && current == nil {
		return nil // the checks below need the current run
	}
	return p.due(current)
}

// delivery checks that a thread that receives deliveries does not deliver to another one.
func (p *checker) delivery() error {
	if p.t.DeliverTo == "" {
		return nil
	}
	rows, err := p.r.Threads(store.ThreadQuery{IDs: []string{p.t.DeliverTo}})
	if err == nil && len(rows) > 0 && rows[0].DeliverTo != "" {
		p.bad(Send, "it delivers to thread %q, which itself delivers to %q", p.t.DeliverTo, rows[0].DeliverTo)
	}
	return err
}

// current checks that the thread's row, the log and the runs agree on the run that has started and
// not ended.
func (p *checker) current(r *mailroom.Run) {
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
	if p.log.Current != t.Current {
		p.bad(Current, "the log leaves run %q open, the current run is %q", p.log.Current, t.Current)
	}
}

// claim checks that a live worker holds the claim of the current run. After the lease of a worker has expired, a
// sweeping worker gets some time to free the claims.
func (p *checker) claim() {
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
		p.badRun(Claim, p.t.Current,
			"run %s is held by worker %s, whose lease ended at %s; a live worker should have freed it",
			p.t.Current, id, at(w.LeaseUntil))
	}
}

// due recomputes the scheduling columns with the function that sets them.
func (p *checker) due(current *mailroom.Run) error {
	loaded := thread.NewState(p.t)
	if current != nil {
		loaded.Runs.Add(current)
		if current.Asked > 0 {
			tickets, err := p.r.Tickets(store.TicketQuery{Runs: []string{current.ID}})
			if err != nil {
				return err
			}
			for _, k := range tickets {
				loaded.Tickets.Add(k)
			}
		}
	}
	for _, set := range []store.RunSet{store.RunsQueued, store.RunsScheduled} {
		rows, err := p.r.Runs(store.RunQuery{Thread: p.t.ID, Set: set, Limit: 1})
		if err != nil {
			return err
		}
		loaded.Runs.SetQueue(set, rows, true) // the function reads only the first ones
	}
	want, heldAt := loaded.ExpectedDue(p.now)
	if !p.t.HeldAt.Equal(heldAt) {
		p.bad(Due, "its first scheduled run is due at %s by its row, at %s by the runs", at(p.t.HeldAt), at(heldAt))
	}
	got := p.t.Due
	if got.At.IsZero() != want.At.IsZero() || got.Agent != want.Agent || got.Priority != want.Priority ||
		got.LastAttempt != want.LastAttempt || !got.At.Equal(want.At) {
		p.bad(Due, "its row says %s, its runs say %s", due(got), due(want))
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
		alone = ", on its last attempt"
	}
	agent, node := thread.ParseDueAgent(d.Agent)
	where := ""
	if node != "" {
		where = fmt.Sprintf(" on server %q", node)
	}
	if _, waits := thread.GateAgent(d.Agent); waits {
		where = " at the gate of its key"
	}
	return fmt.Sprintf("a run of agent %q with priority %d%s is due%s at %s", agent, d.Priority, alone, where, at(d.At))
}

// at formats a time for a finding.
func at(t time.Time) string {
	if t.IsZero() {
		return "no time"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
