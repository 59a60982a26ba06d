package alert

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/digest"
	"mailroom/internal/display"
	"mailroom/store"
	"mailroom/thread"
)

// Options configure an Agent.
type Options struct {
	Name   string // name of the target
	Target Target
	// Place is a fingerprint of the address that Target sends to. Another address has another fingerprint.
	Place  string
	Ledger Ledger
	// URL is the address of the server for people; "" if they cannot reach it.
	URL string
	// Links signs the links that decide tickets. If it is nil, alerts have no such links.
	Links    *Links
	LinkLife time.Duration // how long links are valid, from the time when the alert is due
	MaxBody  int           // characters that the target shows; 0: MaxBody
	Text     Text          // how much of the replies of subscribed threads is sent
	Zone     *time.Location
	// Tokens are the names of the tokens, beside those with the admin permission, whose threads may deliver to the target.
	Tokens []string
	// Rules are the rules of the configuration. nil means that they are unknown, because other servers may have other
	// rules.
	Rules []Rule
	// Operator is the operator's present token. nil means that it is unknown. Then every token that the operator ever
	// had counts as present.
	Operator *auth.Token
	// Targets are the names of all targets. An alert may name targets that were removed after the follower
	// submitted it; the agent does not pass it on to them.
	Targets []string
}

// Agent sends the alerts of one target. A run is one alert.
type Agent struct {
	options  Options
	composer composer
}

// New returns the agent of a target.
func New(o Options) *Agent {
	if o.MaxBody == 0 {
		o.MaxBody = MaxBody
	}
	if o.Operator == nil {
		o.Operator = auth.RunToken(auth.Operator)
	}
	return &Agent{o, composer{target: o.Name, place: o.Place, url: o.URL, links: o.Links, life: o.LinkLife,
		body: o.MaxBody}}
}

const (
	// passOnAfter is how long the agent tries a target before it passes the alert on to the next one.
	passOnAfter = 30 * time.Second
	sendEffect  = "send"
)

// targetState is the agent's state of the target's thread.
type targetState struct {
	// Down is set while alerts are passed on to other targets. Each alert then tries this target only once.
	Down bool `json:"down,omitempty"`
	// Gone is set in the thread of a subscriber that does not exist any more.
	Gone bool `json:"gone,omitempty"`
	// Sent bounds the messages of a token.
	Sent sent `json:"sent,omitzero"`
}

// MaxSubscribers bounds the subscribers that get an alert of one target: one step sends it on to all.
const MaxSubscribers = mailroom.MaxSends

// isGone reports whether the target found that the subscriber of a thread does not exist any more.
func isGone(t *mailroom.Thread) bool {
	var m targetState
	return json.Unmarshal(t.State[t.Agent], &m) == nil && m.Gone
}

// spread sends an alert on to the thread of each subscriber. Only the first of these threads passes the alert on to
// another target if its subscriber is not reachable, so that the other target sends the alert once.
func (a *Agent) spread(ctx context.Context, s mailroom.Session, to Spreader, what *Alert) error {
	var step mailroom.Step
	err := a.options.Ledger.View(ctx, func(r store.Reader) error {
		step = mailroom.Step{Name: "spread", Checkpoint: json.RawMessage(`{}`)} // an attempt after a crash sends nothing
		threads, err := r.Threads(store.ThreadQuery{Prefix: to.Subscribers(), Limit: MaxSubscribers})
		if err != nil {
			return err
		}
		gone, err := GoneSubscribers(r, threads, a.options.Operator, time.Now())
		each := *what
		each.Again = 0 // this run reminds
		for _, t := range threads {
			if gone[t.ID] != "" {
				continue
			}
			step.Sends = append(step.Sends, mailroom.Send{Name: t.ID, Thread: t.ID, Agent: t.Agent, Parts: each.Parts()})
			each.Then = nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(step.Sends) == 0 {
		return a.passOn(ctx, s, what, permanent("target %s has no subscriber", a.options.Name))
	}
	if err := s.Append(ctx, step); err != nil {
		return err
	}
	return s.Stream(ctx, fmt.Sprintf("Sent to %d subscribers.", len(step.Sends)))
}

// Run implements [mailroom.Agent]. It sends the alert, or passes it on to the next target if this one is
// down, or does neither if there is nothing to decide any more.
func (a *Agent) Run(ctx context.Context, s mailroom.Session) error {
	retried, err := resume(s.Run())
	if err != nil || s.Run().Checkpoint != nil && !retried {
		return err
	}
	what, err := a.read(ctx, s)
	if err != nil {
		return err
	}
	what.Repeated = what.Repeated || retried
	if run := s.Run(); what.Kind == KindTicket { // the link is valid from when the alert was due
		for _, at := range []time.Time{run.CreatedAt, run.NotBefore} {
			if at.After(what.At) {
				what.At = at
			}
		}
	}
	about, over, err := a.readSubject(ctx, what, s.Run().Thread)
	if err != nil {
		return err
	}
	if over != "" {
		return s.Stream(ctx, "Not sent: "+over)
	}
	if about.gone != "" {
		// The state does not keep this, because the rights are read for each alert.
		return a.passOn(ctx, s, what, permanent("%s: %s", ErrGone.Error(), about.gone))
	}
	if err := a.remindAgain(ctx, s, what); err != nil {
		return err
	}
	if to, ok := a.options.Target.(Spreader); ok && !ofSubscriber(to, s.Run().Thread) {
		return a.spread(ctx, s, to, what)
	}
	what, after, done, err := a.bound(ctx, s, what, &about)
	if done {
		return err
	}
	m := a.composer.compose(what, about)
	m.Labels = labelsOf(what, &about, &a.options)
	m.Key, m.Repeated, m.To = digest.ID("alert message", s.Run().ID), what.Repeated, about.to
	if what.Kind == KindTicket && what.Ticket != "" { // the same at all targets and for each alert about it
		m.Key = digest.ID("alert message", what.Ticket)
		if m.About = m.Key; what.Reminder > 0 { // else a program that remembers keys takes it for a repeat
			m.Key = digest.ID("alert message", what.Ticket, fmt.Sprint("reminder ", what.Reminder))
		}
	}
	answer, err := a.send(ctx, s, &m)
	if err != nil {
		return a.passOn(ctx, s, what, err)
	}
	if err := a.saveState(ctx, s, after); err != nil {
		return err
	}
	var receipt string
	if err := json.Unmarshal(answer, &receipt); err != nil {
		return fmt.Errorf("decode the receipt: %w", err)
	}
	words := "Sent: " + m.Title
	if receipt != "" {
		words += " (" + display.Line(display.Cut(receipt, MaxTitle)) + ")"
	}
	return s.Stream(ctx, words)
}

// send sends a message, and marks it if an earlier try may have arrived. Even if the target then refuses the message,
// the outcome stays unknown until the target accepts it, because a refusal does not say whether the earlier try
// arrived.
func (a *Agent) send(ctx context.Context, s mailroom.Session, m *Message) (receipt json.RawMessage, err error) {
	mayHaveArrived := false
	return s.Do(ctx, mailroom.Effect{
		Name: sendEffect,
		Reconcile: func(context.Context, string) (json.RawMessage, bool, error) {
			mayHaveArrived, m.Repeated = true, true
			return nil, false, nil
		},
	}, func(ctx context.Context, _ string) (json.RawMessage, error) {
		receipt, err := a.options.Target.Send(ctx, *m)
		switch {
		case err == nil:
			return json.Marshal(receipt)
		case mayHaveArrived:
			return nil, fmt.Errorf("%w (%w: an earlier try may have arrived)", err, mailroom.ErrUnknown)
		}
		return nil, err
	})
}

// saveState stores the agent's state if it changed.
func (a *Agent) saveState(ctx context.Context, s mailroom.Session, now targetState) error {
	if a.state(s) == now {
		return nil
	}
	state, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode the state of target %s: %w", a.options.Name, err)
	}
	return s.Append(ctx, mailroom.Step{State: state, NoProgress: true})
}

func (a *Agent) state(s mailroom.Session) (m targetState) {
	if json.Unmarshal(s.State(), &m) != nil {
		return targetState{} // the target has no stored state yet
	}
	return m
}

// handover is the checkpoint of a run that passed its alert on.
type handover struct {
	To string `json:"to"` // target
	// Refusal is set if this target refused the alert for good, in the attempts that began at Since.
	Refusal string    `json:"refusal,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// resume ends a run whose earlier attempt passed its alert on; the error is this target's refusal, if the target
// refused the alert. Such a run sends nothing, because the next target sends the alert. retried reports that an
// operator has retried the run since; the run then sends the alert.
func resume(r mailroom.RunView) (retried bool, refusal error) {
	var h handover
	// an older version stored the target only
	if r.Checkpoint == nil || json.Unmarshal(r.Checkpoint, &h) != nil || h.Refusal == "" {
		return false, nil
	}
	if !h.Since.Equal(attemptsSince(r)) {
		return true, nil
	}
	return false, permanent("%s", h.Refusal)
}

// attemptsSince returns when the run was started, for the first time since it was submitted or retried by hand.
func attemptsSince(r mailroom.RunView) time.Time { return r.StartedAt.UTC().Truncate(time.Microsecond) }

// passOn decides what happens to an alert that was not sent. After a permanent error the run fails, so that an
// operator sees the error, and the next target sends the alert. Without another target, the alert stays with this
// one.
//
// The run passes the alert on with a send, in the transaction that ends the run, so no crash loses
// or doubles it. The state of the thread of the target says that it is down, so that the next
// alerts try it once. The follower leaves out what happens to the runs of these agents: an alert
// about an alert could go on for ever.
func (a *Agent) passOn(ctx context.Context, s mailroom.Session, what *Alert, failed error) error {
	if ctx.Err() != nil {
		return failed
	}
	f := mailroom.AsFailure(failed)
	// a target that fails is an outage: the alert is not given up after some attempts
	if f.Class == mailroom.ClassTransient {
		f.Class = mailroom.ClassUnavailable
	}
	then := slices.DeleteFunc(slices.Clone(what.Then), func(name string) bool {
		return !slices.Contains(a.options.Targets, name)
	})
	if len(then) == 0 && len(what.Then) > 0 {
		f.Err = fmt.Errorf("%w (no target takes over: %s was removed from the configuration)", f.Err,
			strings.Join(what.Then, ", "))
	}
	since := s.Run().OutageSince
	waited := !since.IsZero() && time.Since(since) >= passOnAfter
	if len(then) == 0 && errors.Is(failed, ErrGone) {
		return errors.Join(f, a.saveState(ctx, s, targetState{Gone: true, Sent: a.state(s).Sent}))
	}
	if len(then) == 0 || f.Class != mailroom.ClassPermanent && !waited && !a.state(s).Down {
		return f
	}
	next := *what
	next.Then, next.Again = then[1:], 0 // this run reminds
	next.Repeated = what.Repeated || errors.Is(failed, mailroom.ErrUnknown)
	state, err := json.Marshal(targetState{Down: f.Class != mailroom.ClassPermanent, Gone: errors.Is(failed, ErrGone),
		Sent: a.state(s).Sent})
	if err != nil {
		return fmt.Errorf("encode the state of target %s: %w", a.options.Name, err)
	}
	to := then[0]
	step := mailroom.Step{
		Name: "passed on", State: state,
		Sends: []mailroom.Send{{Name: to, Thread: ThreadID(to), Agent: AgentName(to), Parts: next.Parts()}},
	}
	done := handover{To: to}
	if f.Class == mailroom.ClassPermanent {
		done.Refusal, done.Since = display.Cut(f.Err.Error(), MaxWords), attemptsSince(s.Run())
	}
	if step.Checkpoint, err = json.Marshal(done); err != nil {
		return fmt.Errorf("encode the next target: %w", err)
	}
	if err := s.Append(ctx, step); err != nil {
		return err
	}
	if f.Class == mailroom.ClassPermanent {
		return f
	}
	return s.Stream(ctx, "Passed on to "+to+": "+display.Line(display.Cut(f.Err.Error(), MaxWords)))
}

// read returns the alert of a run.
func (a *Agent) read(ctx context.Context, s mailroom.Session) (*Alert, error) {
	input, err := s.Input(ctx)
	if err != nil {
		return nil, err
	}
	run := s.Run()
	if thread.IsDelivery(run) {
		return a.delivered(ctx, run, input)
	}
	// Other runs of the operator's threads may send here too, but the server did not write their texts.
	if by := run.Origin; by.Via != originVia && (by.Via != "run" || !IsAgent(by.Sender)) {
		return nil, permanent("this agent sends alerts of the server only: use `mailroom notify test %s`", a.options.Name)
	}
	for _, m := range input {
		for _, p := range m.Parts {
			var what Alert
			if p.Type == "data" && json.Unmarshal(p.Data, &what) == nil && what.Kind != "" {
				return &what, nil
			}
		}
	}
	return nil, permanent("the message contains no alert")
}

// delivered returns the alert of a message of a thread that delivers to the target.
func (a *Agent) delivered(ctx context.Context, run mailroom.RunView, input []mailroom.Message) (*Alert, error) {
	what := &Alert{Kind: KindReply, Text: a.options.Text, At: run.CreatedAt, Count: 1, Zone: a.options.Zone.String(),
		Run: run.Parent, Ended: true}
	err := a.options.Ledger.View(ctx, func(r store.Reader) error {
		rows, err := runsByID(r, []string{run.Parent})
		if from := rows[run.Parent]; from != nil {
			what.Agent, what.Thread = from.Agent, from.Thread
			if from.Error != nil {
				what.Words = from.Error.Message
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, m := range input {
		if m.Text != "" {
			what.Words, what.Ended = m.Text, false
		}
		for _, p := range m.Parts {
			var body struct {
				Ticket *mailroom.Ticket `json:"ticket"`
			}
			if p.Type == "data" && json.Unmarshal(p.Data, &body) == nil && body.Ticket != nil {
				what.Kind, what.Ticket = KindTicket, body.Ticket.ID
			}
		}
	}
	return what, nil
}

// readSubject reads what an alert is about from the store. over is the reason why the alert need not be sent any
// more, or "".
func (a *Agent) readSubject(ctx context.Context, what *Alert, threadID string) (about subject, over string, err error) {
	now := time.Now()
	about.thread = threadID
	err = a.options.Ledger.View(ctx, func(r store.Reader) (err error) {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{threadID}})
		if err != nil {
			return err
		}
		for _, t := range rows {
			// An error fails this run. A rule that would have left the alert to this delivery then sends its own alert.
			if err := a.refuseOwner(r, t, now); err != nil {
				return err
			}
			if _, ok := a.options.Target.(Spreader); ok {
				gone, err := GoneSubscribers(r, rows, a.options.Operator, now)
				if about.to, about.gone = t.Metadata, gone[t.ID]; err != nil {
					return err
				}
			}
		}
		if over, err = a.options.ended(r, what, threadID, now); err != nil || over != "" {
			return err
		}
		if over, err = deliveredItself(r, what, now); err != nil || over != "" {
			return err
		}
		if what.Kind == KindTicket && what.Ticket == "" {
			if err := narrow(r, what, now); err != nil {
				return err
			}
		}
		switch {
		case what.Kind == KindDigest:
			if about.digest, err = readSummary(r, what.At, cmp.Or(what.Until, now), now); err == nil &&
				!about.digest.From.Before(about.digest.Until) {
				over = "what happened in its period is no longer kept"
			}
		case what.Kind == KindTicket && what.Count == 0:
			over = "no question is open"
		case what.Ticket != "":
			rows, err := r.Tickets(store.TicketQuery{IDs: []string{what.Ticket}})
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				over = "the question no longer exists"
				return nil
			}
			about.ticket = rows[0]
			if state := rows[0].StateAt(now); state != mailroom.TicketOpen {
				over = "the question is " + string(state)
			}
		}
		return err
	})
	return about, over, err
}

const (
	// sendingAgain is how long a rule's alert waits before it looks again at a delivery that is being sent.
	sendingAgain = 5 * time.Second
	// sendingMost bounds these waits, for a target that hangs in every attempt: a rule must not lose the event.
	sendingMost = 5 * time.Minute
)

// deliveredItself returns why an alert about an event need not be sent, "" if it must be: the thread itself has
// delivered the event. While the delivery is being sent, it returns an error with which the run looks again, because
// the event would be sent twice. A delivery that waits for another attempt does not count: its target is down, and the
// rule may have another one.
func deliveredItself(r store.Reader, what *Alert, now time.Time) (over string, err error) {
	if what.Delivery == "" {
		return "", nil
	}
	rows, err := runsByID(r, []string{what.Delivery})
	run := rows[what.Delivery]
	switch {
	case err != nil || run == nil:
		return "", err
	case run.Status == mailroom.StatusCompleted:
		return "the thread delivered the event itself", nil
	case run.Status == mailroom.StatusRunning && now.Sub(run.CreatedAt) < sendingMost:
		return "", &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: sendingAgain,
			Err: errors.New("the delivery of the thread is being sent")}
	}
	return "", nil
}

// narrow reduces an alert about several questions to the open ones. If one listed question is left, the alert
// becomes an alert about this question alone.
func narrow(r store.Reader, what *Alert, now time.Time) error {
	if len(what.Tickets) == 0 { // the alert combines more than maxListed questions, and lists none
		open, err := openTickets(r)
		if err != nil || len(open) > maxWaiting {
			return err // the owner's part of them is unknown, so the count stays an upper bound
		}
		if what.Owner != "" {
			var ids []string
			for _, k := range open {
				ids = append(ids, k.Thread)
			}
			threads, err := threadsByID(r, ids)
			if err != nil {
				return err
			}
			open = slices.DeleteFunc(open, func(k *mailroom.Ticket) bool {
				return threads[k.Thread] == nil || threads[k.Thread].Owner != what.Owner
			})
		}
		what.Count = min(what.Count, len(open))
		return nil
	}
	open, err := r.Tickets(store.TicketQuery{IDs: what.Tickets})
	if err != nil {
		return err
	}
	open = slices.DeleteFunc(open, func(k *mailroom.Ticket) bool { return k.StateAt(now) != mailroom.TicketOpen })
	if what.Count = len(open); what.Count != 1 {
		return nil
	}
	k := open[0]
	what.Ticket, what.Thread, what.Run, what.Tickets = k.ID, k.Thread, k.Run, nil
	runs, err := runsByID(r, []string{k.Run})
	if run := runs[k.Run]; run != nil {
		what.Agent = run.Agent
	}
	return err
}

func permanent(format string, args ...any) error {
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf(format, args...)}
}
