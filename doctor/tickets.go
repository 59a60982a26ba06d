package doctor

import "mailroom"

// tickets compares the next rows with their runs and with the log.
func (p *patient) tickets() (cost int, err error) {
	rows, err := p.r.Tickets(mailroom.TicketQuery{Thread: p.t.ID, From: p.from, Limit: batch})
	if err != nil {
		return 0, err
	}
	if err := p.check(rows); err != nil {
		return 0, err
	}
	for _, k := range rows {
		p.from = k.Key
	}
	return p.next(len(rows), phaseStrays)
}

func (p *patient) check(tickets []*mailroom.Ticket) error {
	if len(tickets) == 0 {
		return nil
	}
	var ids []string
	for _, k := range tickets {
		ids = append(ids, k.Run)
	}
	rows, err := p.r.Runs(mailroom.RunQuery{IDs: ids, Thread: p.t.ID})
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

// ticket: it belongs to its run, says what was asked, and stands where the log
// leaves it.
func (p *patient) ticket(k *mailroom.Ticket, r *mailroom.Run) {
	p.report.Tickets++
	told := p.story.asks[k.ID]
	if told != nil {
		told.seen = true
	}
	bad := func(format string, args ...any) { p.badTicket(Ticket, k.Run, k.ID, format, args...) }
	switch {
	case r == nil:
		bad("ticket %s names run %s, which does not exist", k.ID, k.Run)
		return
	case k.ID != mailroom.TicketID(k.Run, k.Name):
		bad("ticket %s is not the one that run %s asked as %q", k.ID, k.Run, k.Name)
	case k.State == mailroom.TicketOpen && r.Status.Finished():
		bad("ticket %s is open and its run %s is %s", k.ID, k.Run, r.Status)
	case told == nil:
		bad("no entry opens ticket %s of run %s", k.ID, k.Run)
	case told.state != k.State || k.State == mailroom.TicketDecided && told.verdict != k.Decision:
		bad("ticket %s of run %s is %s, the log leaves it %s", k.ID, k.Run, standing(k.State, k.Decision), standing(told.state, told.verdict))
	}
	asked := mailroom.Ask{Kind: k.Kind, Prompt: k.Prompt, Action: k.Action, Arguments: k.Arguments, Answers: k.Answers}
	if k.Digest != asked.Digest() {
		bad("ticket %s has the digest %s, what it asks has %s", k.ID, k.Digest, asked.Digest())
	}
	if k.Kind == mailroom.TicketTimer && k.ExpiresAt == nil {
		bad("ticket %s is a timer without a time", k.ID)
	}
	p.decision(k, bad)
}

func standing(s mailroom.TicketState, v mailroom.Verdict) string {
	if s == mailroom.TicketDecided {
		return "decided, " + string(v)
	}
	return string(s)
}

// decision: it has its time, which is before the expiry, and it fits.
func (p *patient) decision(k *mailroom.Ticket, bad func(format string, args ...any)) {
	switch {
	case k.State == mailroom.TicketOpen && k.DecidedAt != nil:
		bad("ticket %s is open, and was decided at %s", k.ID, at(*k.DecidedAt))
	case k.State != mailroom.TicketDecided:
	case k.DecidedAt == nil:
		bad("ticket %s is decided, at no time", k.ID)
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

// waits: a parked run says what for, and something of it is still open; a run
// that is not parked waits for nothing, but for one that is about to go on.
func (p *patient) waits(r *mailroom.Run) error {
	if r.Resumes && r.Status != mailroom.StatusQueued {
		p.badRun(Wait, r.ID, "run %s is %s and about to go on after a wait", r.ID, r.Status)
	}
	if r.Wait != nil && r.Status != mailroom.StatusWaiting && !r.Resumes {
		p.badRun(Wait, r.ID, "run %s is %s and waits for %q", r.ID, r.Status, r.Wait.Names)
	}
	if r.Wait == nil && r.Status == mailroom.StatusWaiting {
		p.badRun(Wait, r.ID, "run %s is waiting for nothing", r.ID)
	}
	if r.Status.Finished() || r.Asked == 0 && r.Wait == nil {
		return nil
	}
	tickets, err := p.r.Tickets(mailroom.TicketQuery{Runs: []string{r.ID}})
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

func (p *patient) parked(r *mailroom.Run, states map[string]mailroom.TicketState) {
	for _, name := range r.Wait.Names {
		if s := states[name]; s == "" || s == mailroom.TicketVoid {
			p.badRun(Wait, r.ID, "run %s is waiting for %q, which it does not ask", r.ID, name)
			return
		}
	}
	if r.Wait.Ended(func(name string) bool { return states[name] == mailroom.TicketOpen }) {
		p.badRun(Wait, r.ID, "run %s is waiting for %q, which has come", r.ID, r.Wait.Names)
	}
}

// children: what a run waits for as a child is a run that has not ended.
func (p *patient) children(r *mailroom.Run, open []string) error {
	if len(open) == 0 {
		return nil
	}
	rows, err := p.r.Runs(mailroom.RunQuery{
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
			id := mailroom.TicketID(r.ID, name)
			p.badTicket(Child, r.ID, id, "ticket %s waits for the child %q of run %s, and there is none that goes on", id, name, r.ID)
		}
	}
	return nil
}

// caller: a child that somebody waits for has its ticket, as long as the run
// that waits is there and goes on.
func (p *patient) caller(r *mailroom.Run) error {
	if r.Caller == nil || r.Caller.Answer != mailroom.AnswerWait || r.Status.Finished() {
		return nil
	}
	found, err := p.r.Runs(mailroom.RunQuery{IDs: []string{r.Caller.Run}})
	if err != nil || len(found) == 0 || found[0].Status.Finished() {
		return err
	}
	tickets, err := p.r.Tickets(mailroom.TicketQuery{IDs: []string{mailroom.TicketID(r.Caller.Run, r.Caller.Name)}})
	if err == nil && len(tickets) == 0 {
		p.badRun(Child, r.ID, "run %s is the child %q of run %s, which has no ticket for it", r.ID, r.Caller.Name, r.Caller.Run)
	}
	return err
}
