package doctor

import "mailroom"

// tickets: what is asked belongs to a run that goes on, and what a run waits for
// can come.
func (c *checker) tickets(t *mailroom.Thread, runs map[string]*mailroom.Run) ([]*mailroom.Ticket, error) {
	all, err := c.r.Tickets(mailroom.TicketQuery{Thread: t.ID})
	if err != nil {
		return nil, err
	}
	open := map[string]bool{}
	children := map[string][]*mailroom.Ticket{} // open ones, by run
	for _, k := range all {
		c.ticket(t, k, runs[k.Run])
		if k.State == mailroom.TicketOpen {
			open[k.ID] = true
			if k.Kind == mailroom.Child {
				children[k.Run] = append(children[k.Run], k)
			}
		}
	}
	for _, r := range runs {
		c.wait(t, r, open)
		if err := c.children(t, r, children[r.ID]); err != nil {
			return nil, err
		}
		if err := c.caller(t, r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (c *checker) ticket(t *mailroom.Thread, k *mailroom.Ticket, r *mailroom.Run) {
	switch {
	case r == nil:
		c.bad(t, "ticket %s names run %s, which does not exist", k.ID, k.Run)
	case k.ID != mailroom.TicketID(k.Run, k.Name):
		c.bad(t, "ticket %s is not the one that run %s asked as %q", k.ID, k.Run, k.Name)
	case r.Asked == 0:
		c.bad(t, "ticket %s was asked by run %s, which says that it asked nothing", k.ID, k.Run)
	case k.State == mailroom.TicketOpen && r.Status.Finished():
		c.bad(t, "ticket %s is open and its run %s is %s", k.ID, k.Run, r.Status)
	case k.State == mailroom.TicketDecided && k.DecidedAt == nil, k.State == mailroom.TicketOpen && k.DecidedAt != nil:
		c.bad(t, "ticket %s is %s, decided at %v", k.ID, k.State, k.DecidedAt)
	}
}

// wait: a parked run says what for, and something of it is still open; a run
// that is not parked waits for nothing, but for one that is about to go on.
func (c *checker) wait(t *mailroom.Thread, r *mailroom.Run, open map[string]bool) {
	over := r.Wait != nil && r.Wait.Over(func(name string) bool { return open[mailroom.TicketID(r.ID, name)] })
	switch {
	case r.Status == mailroom.Waiting && r.Wait == nil:
		c.bad(t, "run %s is waiting for nothing", r.ID)
	case r.Status == mailroom.Waiting && over:
		c.bad(t, "run %s is waiting for %q, which has come", r.ID, r.Wait.Names)
	case r.Status == mailroom.Waiting:
	case r.Resumes && r.Status != mailroom.Queued:
		c.bad(t, "run %s is %s and about to go on after a wait", r.ID, r.Status)
	case r.Wait != nil && !r.Resumes:
		c.bad(t, "run %s is %s and waits for %q", r.ID, r.Status, r.Wait.Names)
	}
}

// children: what a run waits for as a child is a run that has not ended.
func (c *checker) children(t *mailroom.Thread, r *mailroom.Run, tickets []*mailroom.Ticket) error {
	if len(tickets) == 0 {
		return nil
	}
	runs, err := c.r.Runs(mailroom.RunQuery{
		Parent: r.ID, Statuses: []mailroom.Status{mailroom.Queued, mailroom.Running, mailroom.Waiting},
	})
	if err != nil {
		return err
	}
	going := map[string]bool{}
	for _, child := range runs {
		if answers := child.Caller; answers != nil && answers.Run == r.ID && answers.Answer == mailroom.AnswerWait {
			going[answers.Name] = true
		}
	}
	for _, k := range tickets {
		if !going[k.Name] {
			c.bad(t, "ticket %s waits for the child %q of run %s, and there is none that goes on", k.ID, k.Name, r.ID)
		}
	}
	return nil
}

// caller: a child that somebody waits for has its ticket, as long as the run
// that waits is there and goes on.
func (c *checker) caller(t *mailroom.Thread, r *mailroom.Run) error {
	if r.Caller == nil || r.Caller.Answer != mailroom.AnswerWait || r.Status.Finished() {
		return nil
	}
	found, err := c.r.Runs(mailroom.RunQuery{IDs: []string{r.Caller.Run}})
	if err != nil || len(found) == 0 || found[0].Status.Finished() {
		return err
	}
	tickets, err := c.r.Tickets(mailroom.TicketQuery{IDs: []string{mailroom.TicketID(r.Caller.Run, r.Caller.Name)}})
	if err == nil && len(tickets) == 0 {
		c.bad(t, "run %s is the child %q of run %s, which has no ticket for it", r.ID, r.Caller.Name, r.Caller.Run)
	}
	return err
}
