package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/metrics"
	"mailroom/internal/thread"
	"mailroom/server/internal/invalid"
	"mailroom/server/internal/view"
	"mailroom/store"
)

// Alerts are the targets and the rules of the server's alerts.
type Alerts struct {
	Targets []Target // sorted by name
	Rules   []alert.Rule
	Links   *alert.Links
	// Test makes a target send a test message and returns the run that sends it.
	Test func(ctx context.Context, target string) (run string, err error)
}

// Target is a target of alerts.
type Target struct {
	Name   string
	Kind   string
	Decide bool // links in its alerts decide tickets
	// Tokens are the names of the tokens whose threads may deliver to it, beside those of admins.
	Tokens []string
}

// find returns the target of a name, nil if there is none. a may be nil.
func (a *Alerts) find(name string) *Target {
	if a == nil {
		return nil
	}
	for i := range a.Targets {
		if a.Targets[i].Name == name {
			return &a.Targets[i]
		}
	}
	return nil
}

// subscribe returns the thread that delivers to a target for the threads of a token.
func (a *Alerts) subscribe(who *auth.Token, target string) (thread string, err error) {
	t := a.find(target)
	switch {
	case t == nil:
		return "", invalid.Field("body.notify", "is not a target of alerts on this server: `mailroom notify` lists them", target)
	case who.Name == auth.Operator:
		return alert.ThreadID(target), nil
	case !who.Has(auth.PermissionAdmin) && !slices.Contains(t.Tokens, who.Name):
		return "", mailroom.Errorf(mailroom.CodeForbidden, "threads of this token may not deliver to target %s: ask the operator to add it to its tokens", target)
	}
	return alert.SubscriberID(target, who.Name), nil
}

// sends reports whether an agent sends the alerts of a target.
func (a *Alerts) sends(agent string) bool {
	name, ok := strings.CutPrefix(agent, alert.AgentName(""))
	return ok && a.find(name) != nil
}

// alertHandlers serve the targets of alerts.
type alertHandlers struct {
	alerts *Alerts // nil: none
	find   lookup
}

func (h *alertHandlers) listAlerts(ctx context.Context, _ *empty) (*body[api.Alerts], error) {
	out := api.Alerts{Targets: []api.Target{}, Rules: []api.AlertRule{}}
	if h.alerts == nil {
		return &body[api.Alerts]{out}, nil
	}
	err := h.find.view(ctx, func(rd store.Reader) error {
		agents, err := rd.Agents()
		if err != nil {
			return err
		}
		paused := map[string]bool{}
		for _, p := range agents.Pauses {
			paused[p.Agent] = true
		}
		for _, t := range h.alerts.Targets {
			shown, err := describeTarget(rd, t)
			if err != nil {
				return err
			}
			shown.Paused = paused[alert.AgentName(t.Name)]
			out.Targets = append(out.Targets, shown)
		}
		return nil
	})
	for _, r := range h.alerts.Rules {
		out.Rules = append(out.Rules, showRule(r))
	}
	return &body[api.Alerts]{out}, err
}

// maxWaiting is up to how many alerts of a target are counted.
const maxWaiting = 1000

// waiting returns what the targets have not sent yet, for metrics.
func (h *alertHandlers) waiting(ctx context.Context) (all []metrics.Waiting, err error) {
	if h.alerts == nil || len(h.alerts.Targets) == 0 {
		return nil, nil
	}
	err = h.find.view(ctx, func(rd store.Reader) error {
		for _, t := range h.alerts.Targets {
			shown, err := describeTarget(rd, t)
			if err != nil {
				return err
			}
			w := metrics.Waiting{Target: t.Name, Alerts: shown.Waiting}
			if shown.Oldest != nil {
				w.Oldest = time.Since(*shown.Oldest)
			}
			all = append(all, w)
		}
		return nil
	})
	return all, err
}

// describeTarget reads what a target has to send, and what it sent last.
func describeTarget(rd store.Reader, t Target) (api.Target, error) {
	out := api.Target{Name: t.Name, Kind: t.Kind, Decide: t.Decide}
	id := alert.ThreadID(t.Name)
	rows, err := rd.Threads(store.ThreadQuery{IDs: []string{id}})
	if err != nil || len(rows) == 0 {
		return out, err
	}
	counts, err := rd.Count(store.CountQuery{Thread: id, Set: store.RunsQueued, Most: maxWaiting})
	if err != nil {
		return out, err
	}
	out.Waiting = counts.Sum()
	var open []string
	if rows[0].Current != "" {
		out.Waiting++
		open = []string{rows[0].Current}
	} else if out.Waiting > 0 {
		next, err := rd.Runs(store.RunQuery{Thread: id, Set: store.RunsQueued, Limit: 1})
		if err != nil {
			return out, err
		}
		for _, r := range next {
			open = append(open, r.ID)
		}
	}
	oldest, err := rd.Runs(store.RunQuery{IDs: open})
	if err != nil {
		return out, err
	}
	for _, r := range oldest {
		out.Oldest = view.Known(r.CreatedAt)
		if r.Error != nil {
			out.LastError = view.Given(r.Error.Message)
		}
	}
	return out, nil
}

func showRule(r alert.Rule) api.AlertRule {
	out := api.AlertRule{
		Name: r.Name, When: []string{}, To: r.To, Agents: append([]string{}, r.Agents...), Threads: append([]string{}, r.Threads...),
		Text: string(r.Text), Quiet: r.Quiet.String(), Zone: r.Zone.String(),
	}
	for _, k := range r.When {
		if out.When = append(out.When, string(k)); k == alert.KindDigest {
			out.Digest = r.Digest.String()
		}
	}
	return out
}

type testAlertInput struct{ Body api.TestAlert }

func (h *alertHandlers) testAlert(ctx context.Context, in *testAlertInput) (*body[api.TestedAlert], error) {
	if h.alerts.find(in.Body.Target) == nil {
		return nil, noTarget(in.Body.Target)
	}
	run, err := h.alerts.Test(ctx, in.Body.Target)
	return &body[api.TestedAlert]{api.TestedAlert{Run: run}}, err
}

func noTarget(name string) error {
	return mailroom.Errorf(mailroom.CodeNotFound, "no target %q: add one with `mailroom notify add`", invalid.Truncate(name))
}

// questionHandlers serve the links in alerts. They need no token: a link is one.
type questionHandlers struct {
	alerts *Alerts // nil: no link is valid
	ledger Tickets
	find   lookup
}

type questionInput struct{ Body api.QuestionLink }

// question shows the ticket of a link. It changes nothing, so whatever opens links in messages may see it.
func (h *questionHandlers) question(ctx context.Context, in *questionInput) (*body[api.Question], error) {
	link, err := h.open(in.Body.Link)
	if err != nil {
		return nil, err
	}
	k, err := h.ticket(ctx, link)
	if err != nil {
		return nil, err
	}
	return h.show(ctx, k, link)
}

type questionDecisionInput struct{ Body api.QuestionDecision }

// decide decides the ticket of a link.
func (h *questionHandlers) decide(ctx context.Context, in *questionDecisionInput) (*body[api.Question], error) {
	b := in.Body
	link, err := h.open(b.Link)
	if err != nil {
		return nil, err
	}
	if _, err := h.ticket(ctx, link); err != nil {
		return nil, err
	}
	k, err := h.ledger.Decide(ctx, decisionOf(link, b))
	if err != nil {
		return nil, invalid.At("body.", err)
	}
	return h.show(ctx, k, link)
}

// open checks a link, and whether its target may still decide.
func (h *questionHandlers) open(text string) (alert.Link, error) {
	if h.alerts == nil {
		return alert.Link{}, mailroom.Errorf(mailroom.CodeUnauthenticated, "the link is not valid: this server sends no alerts")
	}
	link, err := h.alerts.Links.Open(text, time.Now())
	if err != nil {
		return link, err
	}
	if t := h.alerts.find(link.Target); t == nil || !t.Decide {
		return link, mailroom.Errorf(mailroom.CodeUnauthenticated, "the link is no longer valid: target %s was removed, or its alerts do not decide any more", link.Target)
	}
	return link, nil
}

// ticket returns the ticket of a link, as it was asked.
func (h *questionHandlers) ticket(ctx context.Context, link alert.Link) (k *mailroom.Ticket, err error) {
	err = h.find.view(ctx, func(rd store.Reader) error {
		rows, err := rd.Tickets(store.TicketQuery{IDs: []string{link.Ticket}})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return mailroom.Errorf(mailroom.CodeNotFound, "the question no longer exists")
		}
		k = rows[0]
		return nil
	})
	if err == nil && k.Digest != link.Digest {
		return nil, mailroom.Errorf(mailroom.CodeConflict, "the question is another one than the link was sent for")
	}
	return k, err
}

// show returns a ticket as its link shows it.
func (h *questionHandlers) show(ctx context.Context, k *mailroom.Ticket, link alert.Link) (*body[api.Question], error) {
	out := api.Question{Ticket: view.Ticket(k), LinkExpiresAt: link.Expires}
	err := h.find.view(ctx, func(rd store.Reader) error {
		rows, err := rd.Runs(store.RunQuery{IDs: []string{k.Run}})
		for _, r := range rows {
			out.Agent = r.Agent
		}
		return err
	})
	return &body[api.Question]{out}, err
}

// decisionOf returns the decision that was made with a link.
func decisionOf(link alert.Link, b api.QuestionDecision) thread.Decision {
	return thread.Decision{
		Ticket: link.Ticket, Verdict: b.Decision, Answer: compactAnswer(b.Answer), Reason: b.Reason, Digest: link.Digest,
		By: alert.AgentName(link.Target),
	}
}
