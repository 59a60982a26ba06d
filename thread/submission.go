package thread

import (
	"cmp"
	"fmt"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/store"
)

// submission is the transition of a submit. It is checked as a whole before it is applied, and its
// route decides how it is applied.
type submission struct {
	t     *State
	in    *Submit
	found Resolved
	now   time.Time
}

// check returns an error if a decision does not fit its ticket, if the queue or the current run is
// full, or if the thread cannot deliver or is busy.
func (s *submission) check() error {
	if err := s.checkDecisions(); err != nil {
		return err
	}
	if err := s.checkReplaces(); err != nil {
		return err
	}
	if _, err := s.deadline(); err != nil {
		return err
	}
	if _, err := s.budget(); err != nil {
		return err
	}
	t := s.t
	if n := s.found.Queued + unreadSteers(t.current()); s.found.MaxQueued > 0 && n >= s.found.MaxQueued && s.growsQueue() {
		return errRateLimited("queue of thread %q is full with %d runs", t.ID, n)
	}
	if s.in.Mode == mailroom.ModeSteer {
		if to, c := s.route(); to == routeSteer {
			if err := checkSteer(c, s.in); err != nil {
				return err
			}
		}
	}
	if s.in.DeliverTo != "" {
		if err := s.checkMustDeliver(); err != nil {
			return err
		}
		p := Patch{By: s.in.By, ByServer: s.in.ByServer, DeliverTo: &s.in.DeliverTo, Target: s.found.DeliverTo}
		if err := p.checkDelivery(&t.Thread, cmp.Or(t.Owner, s.in.Owner)); err != nil {
			return err
		}
	}
	if s.in.Mode == mailroom.ModeReject && !isIdle(&t.Thread) {
		if to, _ := s.route(); to == routeQueue {
			return mailroom.Errorf(mailroom.CodeBusy, "thread %q is busy; submit without mode reject to queue behind it", t.ID)
		}
	}
	return nil
}

// checkReplaces refuses a run's message that would drop the work of a thread that the run's own thread has not
// created. The run acts for the owner of its thread, who may do so; but a message that the run has read may have led
// it there. Letting the run interrupt every thread of its owner would let a stranger's text do so too.
func (s *submission) checkReplaces() error {
	in, t := s.in, s.t
	replaces := in.Mode == mailroom.ModeInterrupt || in.Mode == mailroom.ModeLatest
	if in.From == nil || !replaces || !t.Exists() || t.Parent == in.From.Thread {
		return nil
	}
	return mailroom.Errorf(mailroom.CodeForbidden, "thread %q was not created by thread %q: a run sends with mode %s "+
		"only to threads that its own thread has created; use mode queue or steer", t.ID, in.From.Thread, in.Mode)
}

// checkMustDeliver refuses a submit whose caller asks for a delivery that the thread would not make: it
// delivers elsewhere, or its runs do not reach the target of another owner.
func (s *submission) checkMustDeliver() error {
	t := s.t
	why := ""
	switch {
	case !s.in.MustDeliver:
	case t.DeliverTo != "" && t.DeliverTo != s.in.DeliverTo:
		why = fmt.Sprintf("thread %q already delivers to thread %q: "+
			"set its deliver_to to an empty text first, or use another thread", t.ID, t.DeliverTo)
	case t.Exists() && t.Owner != s.in.Owner:
		why = fmt.Sprintf("thread %q has another owner, and only the owner's submit makes it deliver to a target", t.ID)
	}
	if why == "" {
		return nil
	}
	e := check.Invalid("notify", why, s.in.DeliverTo)
	e.Code = mailroom.CodeConflict
	return e
}

func (s *submission) checkDecisions() error {
	first := map[string]string{} // verdicts by ticket
	for i := range s.in.Decisions {
		d, verdict := &s.in.Decisions[i], s.in.verdicts[i]
		if _, _, err := s.t.checkDecision(d, s.now); err != nil {
			return err
		}
		if before, repeat := first[d.Ticket]; repeat && before != verdict {
			return mailroom.Errorf(mailroom.CodeConflict, "ticket %s is decided twice with different decisions", d.Ticket)
		}
		first[d.Ticket] = verdict
	}
	return nil
}

func errRateLimited(format string, args ...any) error {
	return &mailroom.Error{Code: mailroom.CodeRateLimited, RetryAfter: time.Second, Message: fmt.Sprintf(format, args...)}
}

// growsQueue reports whether the submit adds a run to the queue, or an unread steer that becomes
// one if the current run ends. A submit that clears the queue or resumes a run does not.
func (s *submission) growsQueue() bool {
	if s.in.Mode == mailroom.ModeInterrupt || s.in.Mode == mailroom.ModeLatest || len(s.in.Messages) == 0 {
		return false
	}
	to, _ := s.route()
	return to == routeQueue || to == routeSteer
}

// ensureThread creates the thread if it is new, and sets the requested agent.
func (s *submission) ensureThread() {
	t, in := s.t, s.in
	if !t.Exists() {
		t.Open(s.found.Agent, in.Owner, s.now)
		if in.From != nil {
			t.Parent = in.From.Thread
		}
	}
	if in.Agent != "" {
		t.Agent = s.found.Agent
	}
	if t.DeliverTo == "" {
		t.DeliverTo = in.DeliverTo
	}
}

// apply makes the decisions, which may change the route of the messages, and delivers the messages.
func (s *submission) apply() store.Submitted {
	if len(s.in.Decisions) > 0 {
		r := s.decideAll()
		if len(s.in.Messages) == 0 {
			return submittedTo(r, mailroom.Input{}, store.DispositionResumed)
		}
	}
	to, r := s.route()
	disposition := store.DispositionQueued
	switch to {
	case routeAnswer, routeResume:
		return s.resume(r, to)
	case routeSteer:
		endJoin(s.t, s.now)
		return s.steer(r)
	case routeCollect:
		return s.collect(r)
	case routeJoin:
		s.join(r)
		disposition = store.DispositionCollected
	default:
		endJoin(s.t, s.now)
		r = s.enqueue()
	}
	out := submittedTo(r, r.Inputs[len(r.Inputs)-1], disposition)
	others := func(o *mailroom.Run) bool { return o != r && s.replaces(o) }
	switch s.in.Mode {
	case mailroom.ModeInterrupt:
		out.Superseded = append(s.t.supersede(others, s.in.Sender, s.now), s.t.supersedeSteers(others, s.in.Sender, s.now)...)
		out.Stopping = s.t.stopCurrent(mailroom.ReasonInterrupted, s.in.Sender, s.now)
	case mailroom.ModeLatest:
		out.Superseded = s.t.supersede(others, s.in.Sender, s.now)
	}
	return out
}

// replaces reports whether the submit's mode may replace o. A run replaces what its own thread has sent, and not the
// messages of people; see isSent for the other way round.
func (s *submission) replaces(o *mailroom.Run) bool {
	if s.in.From == nil {
		return !isSent(o)
	}
	return isSent(o) && len(o.Lineage) > 0 && o.Lineage[len(o.Lineage)-1] == s.in.From.Thread
}

// submittedTo returns the result of a submit whose messages went to r. last is the last one of them.
func submittedTo(r *mailroom.Run, last mailroom.Input, d store.Disposition) store.Submitted {
	return store.Submitted{
		Message: last.Message, Seq: last.Seq, Run: r.ID, Thread: r.Thread, Place: r.Place,
		Status: r.Status, Disposition: d, Superseded: []string{},
	}
}

// decideAll makes the decisions that are new and returns the run of the last ticket.
func (s *submission) decideAll() *mailroom.Run {
	var last *mailroom.Run
	for _, d := range s.in.Decisions {
		k, repeat, err := s.t.checkDecision(&d, s.now)
		if err == nil && !repeat {
			s.t.decide(k, d, s.now)
		}
		if k != nil {
			last = s.t.Run(k.Run)
		}
	}
	return last
}

// enqueue creates a run for the messages.
func (s *submission) enqueue() *mailroom.Run {
	r := s.newRun()
	if s.in.Join > 0 {
		r.Joins = true
		setJoinUntil(r, s.in)
		hold(s.t, r, s.now.Add(s.in.Join))
	}
	s.appendMessages(r, r.ID)
	r.InputText = s.in.inputText()
	s.t.touchRun(r)
	s.t.append(entry.KindQueued, r, s.now, queuedBody(r))
	return r
}

func (s *submission) newRun() *mailroom.Run {
	t, in := s.t, s.in
	own, delays := cmp.Or(in.MaxAttempts, in.Retry.Attempts), in.Retry
	delays.Attempts = 0
	r := &mailroom.Run{
		ID: in.Run, Thread: t.ID, Agent: s.found.Agent, AgentVersion: s.found.AgentVersion,
		Mode: in.Mode, Priority: in.priority(), Place: takePlace(&t.Thread), SubmitKey: in.Key,
		Parent: in.Parent, Origin: in.Origin, Options: in.Options, Metadata: in.Metadata,
		MaxAttempts: cmp.Or(own, s.found.MaxAttempts, mailroom.DefaultAttempts), NoRetry: in.NoRetry,
		CrashLimit: in.MaxCrashes, AgentAttempts: own == 0, SubmitRetry: delays.String(),
		Status: mailroom.StatusQueued, AvailableAt: s.now, CreatedAt: s.now, FirstSeq: t.LastSeq + 1,
	}
	if r.LimitKey = in.LimitKey; r.LimitKey == "" && s.found.KeyFrom != "" {
		r.LimitKey = cutKey(in.Metadata[s.found.KeyFrom])
	}
	r.Deadline, _ = s.deadline() // checked before
	r.Budget, _ = s.budget()     // too
	if in.From != nil {
		r.Caller, r.Lineage = in.From.Caller, in.From.Lineage
	}
	if in.NotBefore.After(s.now) {
		hold(t, r, in.NotBefore)
	}
	return r
}

// cutKey returns a concurrency key for a text of any length, which differs for different texts.
func cutKey(text string) string {
	if utf8.RuneCountInString(text) <= mailroom.MaxKey {
		return text
	}
	return string([]rune(text)[:mailroom.MaxKey/2]) + "…" + digest.Short(text)
}

// hold keeps a new run out of the queue until at.
func hold(t *State, r *mailroom.Run, at time.Time) {
	r.Scheduled, r.NotBefore, r.AvailableAt = true, at, at
	if t.HeldAt.IsZero() || at.Before(t.HeldAt) {
		t.HeldAt = at
	}
}

// appendMessages appends the messages and makes them inputs of r. run is the run that reads them: r
// or the current one. Message ids are "<r>.<seq>", so an id alone locates its entry.
func (s *submission) appendMessages(r *mailroom.Run, run string) {
	t := s.t
	for _, d := range s.in.Messages {
		m := mailroom.Message{
			ID: fmt.Sprintf("%s.%d", r.ID, t.LastSeq+1), Thread: t.ID, Seq: t.LastSeq + 1,
			Role: d.Role, Sender: s.in.Sender, Text: JoinText(d.Parts), Parts: d.Parts,
			Visibility: d.Visibility, Run: run, State: mailroom.MessageAccepted, CreatedAt: s.now,
		}
		seq := t.append(entry.KindMessage, &mailroom.Run{ID: run}, s.now, m)
		if run == r.ID {
			r.InputBytes += int64(len(t.entries[len(t.entries)-1].Raw))
		}
		t.known = append(t.known, m)
		r.Inputs = append(r.Inputs, mailroom.Input{Message: m.ID, Seq: seq})
	}
}

func queuedBody(r *mailroom.Run) entry.RunQueued {
	b := entry.RunQueued{
		Agent: r.Agent, AgentVersion: r.AgentVersion, Mode: r.Mode, Priority: r.Priority,
		AvailableAt: r.AvailableAt, Origin: r.Origin, Messages: []string{},
	}
	for _, in := range r.Inputs {
		b.Messages = append(b.Messages, in.Message)
	}
	return b
}

// collect adds the messages to r. NotBefore delays a scheduled run, up to MaxJoin after its
// creation.
func (s *submission) collect(r *mailroom.Run) store.Submitted {
	s.appendMessages(r, r.ID)
	r.InputText = "" // the run has several inputs
	postpone(r, s.in.NotBefore)
	s.t.touchRun(r)
	return submittedTo(r, r.Inputs[len(r.Inputs)-1], store.DispositionCollected)
}

// postpone delays a scheduled run until at, up to MaxJoin after its creation.
func postpone(r *mailroom.Run, at time.Time) {
	if at = notAfterMaxJoin(r, at); r.Scheduled && at.After(r.NotBefore) {
		r.NotBefore, r.AvailableAt = at, at
	}
}
