package doctor

import (
	"slices"

	"mailroom"
	"mailroom/doctor/fold"
	"mailroom/store"
	"mailroom/thread"
)

// tickets compares the next page of ticket rows with their runs and with the log.
func (p *checker) tickets() (cost int, err error) {
	rows, err := p.r.Tickets(store.TicketQuery{Thread: p.t.ID, From: p.from, Limit: batch})
	if err != nil {
		return 0, err
	}
	if err := p.check(rows); err != nil {
		return 0, err
	}
	for _, k := range rows {
		p.from = k.Key
	}
	return p.next(len(rows), phaseOrphans)
}

func (p *checker) check(tickets []*mailroom.Ticket) error {
	if len(tickets) == 0 {
		return nil
	}
	var ids []string
	for _, k := range tickets {
		ids = append(ids, k.Run)
	}
	rows, err := p.r.Runs(store.RunQuery{IDs: ids, Thread: p.t.ID})
	if err != nil {
		return err
	}
	runs := map[string]*mailroom.Run{}
	for _, r := range rows {
		runs[r.ID] = r
	}
	for _, k := range tickets {
		p.ticket(k, runs[k.Run])
	}
	return nil
}

// ticket checks that a ticket belongs to its run, has the digest of its question, and is in the
// state that the log says.
func (p *checker) ticket(k *mailroom.Ticket, r *mailroom.Run) {
	p.report.Tickets++
	logged := p.log.Tickets[k.ID]
	if logged != nil {
		logged.Seen = true
	}
	bad := func(format string, args ...any) { p.badTicket(Ticket, k.Run, k.ID, format, args...) }
	switch {
	case r == nil:
		bad("ticket %s names run %s, which does not exist", k.ID, k.Run)
		return
	case k.ID != thread.TicketID(k.Run, k.Name):
		bad("ticket %s does not have the id of ticket %[3]q of run %[2]s", k.ID, k.Run, k.Name)
	case k.State == mailroom.TicketOpen && r.Status.Finished():
		bad("ticket %s is open but its run %s is %s", k.ID, k.Run, r.Status)
	case logged == nil:
		bad("no entry opens ticket %s of run %s", k.ID, k.Run)
	case logged.State != k.State || k.State == mailroom.TicketDecided && logged.Verdict != k.Decision:
		bad("ticket %s of run %s is %s, by the log %s", k.ID, k.Run, describeTicket(k.State, k.Decision),
			describeTicket(logged.State, logged.Verdict))
	}
	// an older version sets no time of opening
	if opened := fold.Micros(k.OpenedAt); opened != 0 && logged != nil && !slices.Contains(logged.Opened, opened) {
		bad("ticket %s was opened at %s, the log differs", k.ID, at(k.OpenedAt))
	}
	asked := mailroom.Ask{Kind: k.Kind, Prompt: k.Prompt, Action: k.Action, Arguments: k.Arguments, Answers: k.Answers}
	if k.Digest != thread.AskDigest(&asked) {
		bad("ticket %s has the digest %s, its content has %s", k.ID, k.Digest, thread.AskDigest(&asked))
	}
	if k.Kind == mailroom.TicketTimer && k.ExpiresAt == nil {
		bad("ticket %s is a timer without an expiry", k.ID)
	}
	p.decision(k, bad)
}

func describeTicket(s mailroom.TicketState, v mailroom.Verdict) string {
	if s == mailroom.TicketDecided {
		return "decided, " + string(v)
	}
	return string(s)
}

// decision checks that a decision has a time, was made before the ticket expired, and fits the kind of the ticket.
func (p *checker) decision(k *mailroom.Ticket, bad func(format string, args ...any)) {
	switch {
	case k.State == mailroom.TicketOpen && k.DecidedAt != nil:
		bad("ticket %s is open but was decided at %s", k.ID, at(*k.DecidedAt))
	case k.State != mailroom.TicketDecided:
	case k.DecidedAt == nil:
		bad("ticket %s is decided but has no time of decision", k.ID)
	case k.ExpiresAt != nil && !k.DecidedAt.Before(*k.ExpiresAt):
		bad("ticket %s was decided at %s, after it expired at %s", k.ID, at(*k.DecidedAt), at(*k.ExpiresAt))
	}
	if k.State == mailroom.TicketDecided && !fits(k) {
		bad("ticket %s of kind %s has the decision %q, which does not fit", k.ID, k.Kind, k.Decision)
	}
}

func fits(k *mailroom.Ticket) bool {
	switch k.Decision {
	case mailroom.VerdictApprove, mailroom.VerdictDeny:
		return k.Kind == mailroom.TicketApproval
	case mailroom.VerdictAnswer:
		return k.Kind != mailroom.TicketTimer && (k.Kind != mailroom.TicketApproval || k.Answers)
	}
	return false
}

// waits checks that a parked run has a wait with an open ticket, and that a run has no wait if it is neither parked
// nor about to resume.
func (p *checker) waits(r *mailroom.Run) error {
	if r.Resumes && r.Status != mailroom.StatusQueued {
		p.badRun(Wait, r.ID, "run %s is %s but marked to resume after a wait", r.ID, r.Status)
	}
	if r.Wait != nil && r.Status != mailroom.StatusWaiting && !r.Resumes {
		p.badRun(Wait, r.ID, "run %s is %s but waits for %q", r.ID, r.Status, r.Wait.Names)
	}
	if r.Wait == nil && r.Status == mailroom.StatusWaiting {
		p.badRun(Wait, r.ID, "run %s is waiting for nothing", r.ID)
	}
	if r.Status.Finished() || r.Asked == 0 && r.Wait == nil {
		return nil
	}
	tickets, err := p.r.Tickets(store.TicketQuery{Runs: []string{r.ID}})
	if err != nil {
		return err
	}
	states := map[string]mailroom.TicketState{}
	var children []string
	for _, k := range tickets {
		states[k.Name] = k.State
		if k.State == mailroom.TicketOpen && k.Kind == mailroom.TicketChildren {
			children = append(children, k.Name)
		}
	}
	if r.Status == mailroom.StatusWaiting && r.Wait != nil {
		p.parked(r, states)
	}
	return p.children(r, children)
}

func (p *checker) parked(r *mailroom.Run, states map[string]mailroom.TicketState) {
	for _, name := range r.Wait.Names {
		if s := states[name]; s == "" || s == mailroom.TicketVoid {
			p.badRun(Wait, r.ID, "run %s is waiting for %q, which is not a ticket of it", r.ID, name)
			return
		}
	}
	if r.Wait.Ended(func(name string) bool { return states[name] == mailroom.TicketOpen }) {
		p.badRun(Wait, r.ID, "run %s is waiting for %q, which is over", r.ID, r.Wait.Names)
	}
}

// children checks that each open ticket for a child has an unfinished child run.
func (p *checker) children(r *mailroom.Run, open []string) error {
	if len(open) == 0 {
		return nil
	}
	rows, err := p.r.Runs(store.RunQuery{
		Parent: r.ID, Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting},
	})
	if err != nil {
		return err
	}
	going := map[string]bool{}
	for _, child := range rows {
		if c := child.Caller; c != nil && c.Run == r.ID && c.Answer == mailroom.AnswerWait {
			going[c.Name] = true
		}
	}
	for _, name := range open {
		if !going[name] {
			id := thread.TicketID(r.ID, name)
			p.badTicket(Child, r.ID, id, "ticket %s waits for the child %q of run %s, which has no unfinished run", id,
				name, r.ID)
		}
	}
	return nil
}

// caller checks that an unfinished child has its ticket while the run that waits for it is
// unfinished.
func (p *checker) caller(r *mailroom.Run) error {
	if r.Caller == nil || r.Caller.Answer != mailroom.AnswerWait || r.Status.Finished() {
		return nil
	}
	found, err := p.r.Runs(store.RunQuery{IDs: []string{r.Caller.Run}})
	if err != nil || len(found) == 0 || found[0].Status.Finished() {
		return err
	}
	tickets, err := p.r.Tickets(store.TicketQuery{IDs: []string{thread.TicketID(r.Caller.Run, r.Caller.Name)}})
	if err == nil && len(tickets) == 0 {
		p.badRun(Child, r.ID, "run %s is the child %q of run %s, which has no ticket for it", r.ID, r.Caller.Name,
			r.Caller.Run)
	}
	return err
}
