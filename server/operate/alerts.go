package operate

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// Alerts are the targets and the rules of the server's alerts.
type Alerts struct {
	Targets []Target // sorted by name
	Rules   []alert.Rule
	Links   *alert.Links
	// Test makes a target send a test message and returns the run that sends it.
	Test func(ctx context.Context, target string) (run string, err error)
	Push PushTarget // nil: browsers cannot subscribe
}

// pushTarget returns the target that browsers subscribe to, or nil. a may be nil.
func (a *Alerts) pushTarget() PushTarget {
	if a == nil {
		return nil
	}
	return a.Push
}

// Target is a target of alerts.
type Target struct {
	Name   string
	Kind   string
	Decide bool   // links in its alerts decide tickets
	Place  string // fingerprint of where it sends to, see [alert.Options]
	// Tokens are the names of the tokens whose threads may deliver to it, beside those of admins.
	Tokens []string
}

// Find returns the target of a name, or nil. a may be nil.
func (a *Alerts) Find(name string) *Target {
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

// Allowed returns who may deliver to the targets. a may be nil.
func (a *Alerts) Allowed() alert.Allowed {
	all := alert.Allowed{}
	if a != nil {
		for _, t := range a.Targets {
			all[t.Name] = t.Tokens
		}
	}
	return all
}

// Subscribe returns the thread that delivers to a target for the threads of a token. field names the target in
// errors.
func (a *Alerts) Subscribe(ctx context.Context, find request.Lookup, target, field string) (thread string, err error) {
	who := request.CallerOf(ctx)
	if a.Find(target) == nil && who.Has(auth.PermissionAdmin) {
		return "", check.Invalid(field, "is not a target of alerts on this server: `mailroom notify` lists them", target)
	}
	var rights alert.Rights
	if err := find.View(ctx, func(rd store.Reader) (err error) {
		rights, err = alert.ReadRights(rd, a.Allowed(), time.Now(), who.Name)
		return err
	}); err != nil {
		return "", err
	}
	// The operator's name alone is no right: its limited tokens have it too. The error does not say whether the
	// target exists, because only tokens that may use a target may know it.
	if a.Find(target) == nil || !rights.MayDeliver(who.Name, target) ||
		who.Name == auth.Operator && !who.Has(auth.PermissionAdmin) {
		return "", mailroom.Errorf(mailroom.CodeForbidden,
			"threads of this token may not deliver to target %s: GET /v1/alerts lists those that it may use; ask the "+
				"operator to add it to the tokens of another", target)
	}
	return rights.Place(who.Name, target), nil
}

// DeliverTo returns the thread to which the threads of a token deliver if the token asks for the thread to. If to is a
// thread of a target of alerts, it returns the thread that Subscribe returns for this token, under the conditions of
// Subscribe, and refuses a thread that delivers to the target for another owner. It returns any other thread unchanged.
func (a *Alerts) DeliverTo(ctx context.Context, find request.Lookup, to string) (thread string, err error) {
	agent := reserved.Agent(to)
	if !alert.IsAgent(agent) {
		return to, nil
	}
	target, _ := strings.CutPrefix(agent, alert.AgentName(""))
	if thread, err = a.Subscribe(ctx, find, target, "deliver_to"); err != nil {
		return "", err
	}
	if to != thread && to != alert.ThreadID(target) {
		return "", mailroom.Errorf(mailroom.CodeForbidden,
			"threads of this token deliver to %q only: use %q", thread, alert.ThreadID(target))
	}
	return thread, nil
}

// Sends reports whether an agent sends the alerts of a target.
func (a *Alerts) Sends(agent string) bool {
	name, ok := strings.CutPrefix(agent, alert.AgentName(""))
	return ok && a.Find(name) != nil
}

// Cursors is the part of a ledger that keeps rules.
type Cursors interface {
	// ChangeCursor moves a cursor to the position that f returns for the current one, or nil. If f
	// returns nil, the cursor stays. Changes of one cursor are serialized. f may be called more than once.
	ChangeCursor(
		ctx context.Context, channel, identity string, f func(at json.RawMessage, now time.Time) (json.RawMessage, error),
	) error
}

// AlertHandlers serve the targets of alerts.
type AlertHandlers struct {
	alerts *Alerts // nil: the server sends no alerts
	ledger Cursors
	find   request.Lookup
}

// List shows an admin everything, and another token the targets that its threads may use and its own
// rules.
func (h *AlertHandlers) List(ctx context.Context, _ *empty) (*body[api.Alerts], error) {
	out := api.Alerts{Targets: []api.Target{}, Rules: []api.AlertRule{}}
	if h.alerts == nil {
		return &body[api.Alerts]{out}, nil
	}
	owner, err := ruleOwner(request.CallerOf(ctx), false)
	if err != nil {
		return nil, err
	}
	usable := h.alerts.Allowed().Usable(owner)
	err = h.find.View(ctx, func(rd store.Reader) error {
		stored, err := h.alerts.readRules(rd, owner)
		if err != nil {
			return err
		}
		if owner == auth.Operator {
			for _, r := range h.alerts.Rules {
				rule := alert.Describe(r)
				rule.Fixed = true
				out.Rules = append(out.Rules, rule)
			}
		}
		out.Rules = append(out.Rules, stored...)
		agents, err := rd.Agents()
		if err != nil {
			return err
		}
		paused := map[string]bool{}
		for _, p := range agents.Pauses {
			paused[p.Agent] = true
		}
		for _, t := range h.alerts.Targets {
			if !slices.Contains(usable, t.Name) {
				continue
			}
			if owner != auth.Operator {
				out.Targets = append(out.Targets, api.Target{Name: t.Name, Kind: t.Kind, Decide: t.Decide})
				continue
			}
			shown, err := describeTarget(rd, t)
			if err != nil {
				return err
			}
			shown.Paused = paused[alert.AgentName(t.Name)]
			out.Targets = append(out.Targets, shown)
		}
		return nil
	})
	return &body[api.Alerts]{out}, err
}

// ruleOwner returns the owner of the rules that a token sees and makes: admins those of the operator, whatever
// their name, and others their own. The operator's name alone gives no right: a limited token has it too. Nor
// does a limited token change the rules of its source, which apply to all threads of the source.
func ruleOwner(who *auth.Token, change bool) (owner string, err error) {
	switch {
	// Also with the scope admin: rules do not end with the token.
	case change && (who.Limited() || who.Terms.Kind == auth.KindLimited):
		return "", mailroom.Errorf(mailroom.CodeForbidden,
			"a limited token cannot change rules: use token %s itself", who.Name)
	case who.Has(auth.PermissionAdmin):
		return auth.Operator, nil
	case who.Name == auth.Operator:
		return "", mailroom.Errorf(mailroom.CodeForbidden,
			"targets and rules of the operator need a token with the scope admin")
	}
	return who.Name, nil
}

// readRules returns the stored rules of an owner that are in force.
func (a *Alerts) readRules(rd store.Reader, owner string) (all []api.AlertRule, err error) {
	list, err := a.readStored(rd, owner)
	for _, r := range list {
		all = append(all, r.AlertRule)
	}
	return all, err
}

func (a *Alerts) readStored(rd store.Reader, owner string) (all []alert.StoredRule, err error) {
	at := alert.RulesCursor(owner)
	rows, err := rd.Cursors(store.CursorQuery{Channel: at.Channel, Identities: []string{at.Identity}})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if all, err = alert.ReadRules(rows[0].Position); err != nil {
		return nil, err
	}
	rights, err := alert.ReadRights(rd, a.Allowed(), time.Now(), owner)
	return rights.Keep(all, owner, rows[0].MovedAt), err
}

type putRuleInput struct{ Body api.AlertRule }

// RulePath is the name of a rule in a path.
type RulePath struct {
	Rule string `path:"rule" doc:"Name of a rule."`
}

// PutRule makes a rule, or replaces the one of its name.
func (h *AlertHandlers) PutRule(ctx context.Context, in *putRuleInput) (*body[api.AlertRule], error) {
	owner, err := ruleOwner(request.CallerOf(ctx), true)
	if err != nil {
		return nil, err
	}
	in.Body.Fixed = false
	named := func(r alert.Rule) bool { return r.Name == in.Body.Name }
	if owner == auth.Operator && h.alerts != nil && slices.ContainsFunc(h.alerts.Rules, named) {
		return nil, mailroom.Errorf(mailroom.CodeConflict,
			"rule %s is in the configuration of the server: change it there, or use another name", in.Body.Name)
	}
	rule, err := alert.ParseRule(in.Body, owner, h.alerts.Allowed().Usable(owner))
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	out := alert.Describe(rule)
	done := ledger.Action{Name: "rule.put", ObjectKind: "rule", Object: out.Name,
		Detail: map[string]string{"owner": owner}}
	err = h.changeRules(ctx, owner, done, func(all []alert.StoredRule, row string) ([]alert.StoredRule, error) {
		return alert.PutRule(all, alert.StoredRule{AlertRule: out, Row: row})
	})
	return &body[api.AlertRule]{out}, err
}

type ruleInput struct{ RulePath }

func (h *AlertHandlers) DeleteRule(ctx context.Context, in *ruleInput) (*empty, error) {
	owner, err := ruleOwner(request.CallerOf(ctx), true)
	if err != nil {
		return nil, err
	}
	done := ledger.Action{Name: "rule.delete", ObjectKind: "rule", Object: in.Rule,
		Detail: map[string]string{"owner": owner}}
	return nil, h.changeRules(ctx, owner, done, func(all []alert.StoredRule, _ string) ([]alert.StoredRule, error) {
		return alert.RemoveRule(all, in.Rule)
	})
}

// changeRules replaces the stored rules of an owner, and records what the caller has done. f gets the stored rules
// that are in force, and the row of the owner's token.
func (h *AlertHandlers) changeRules(
	ctx context.Context, owner string, done ledger.Action,
	f func(all []alert.StoredRule, row string) ([]alert.StoredRule, error),
) error {
	var rights alert.Rights
	var changedAt time.Time
	at := alert.RulesCursor(owner)
	err := h.find.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Cursors(store.CursorQuery{Channel: at.Channel, Identities: []string{at.Identity}})
		if err != nil {
			return err
		}
		for _, row := range rows {
			changedAt = row.MovedAt
		}
		rights, err = alert.ReadRights(rd, h.alerts.Allowed(), time.Now(), owner)
		return err
	})
	if err != nil {
		return err
	}
	change := func(position json.RawMessage, _ time.Time) (json.RawMessage, error) {
		all, err := alert.ReadRules(position)
		if err != nil {
			return nil, err
		}
		if all, err = f(rights.Keep(all, owner, changedAt), rights.Row(owner)); err != nil {
			return nil, err
		}
		return json.Marshal(all)
	}
	return h.ledger.ChangeCursor(ledger.WithAction(ctx, &done), at.Channel, at.Identity, change)
}

const (
	// maxWaiting bounds how many waiting alerts of one target are counted.
	maxWaiting = 1000
	// maxTargetThreads bounds the threads of a target that are read, beside its own: one for each subscriber,
	// and one for each token whose threads or rules deliver to it.
	maxTargetThreads = 1000
)

// waiting returns, for the metrics, the alerts that each target has not sent yet.
func (h *AlertHandlers) waiting(ctx context.Context) (all []waitingAlerts, err error) {
	if h.alerts == nil || len(h.alerts.Targets) == 0 {
		return nil, nil
	}
	err = h.find.View(ctx, func(rd store.Reader) error {
		for _, t := range h.alerts.Targets {
			shown, err := describeTarget(rd, t)
			if err != nil {
				return err
			}
			w := waitingAlerts{Target: t.Name, Alerts: shown.Waiting}
			if shown.Oldest != nil {
				w.Oldest = time.Since(*shown.Oldest)
			}
			all = append(all, w)
		}
		return nil
	})
	return all, err
}

// describeTarget reads what a target has to send, and what it sent last. Its alerts wait in its own
// thread, and in the threads of subscribers and tokens. Only threads with open runs cost a query.
func describeTarget(rd store.Reader, t Target) (api.Target, error) {
	out := api.Target{Name: t.Name, Kind: t.Kind, Decide: t.Decide}
	id := alert.ThreadID(t.Name)
	own, err := rd.Threads(store.ThreadQuery{IDs: []string{id}})
	if err != nil {
		return out, err
	}
	others, err := rd.Threads(store.ThreadQuery{Prefix: id + ":", Limit: maxTargetThreads})
	if err != nil {
		return out, err
	}
	for _, row := range append(own, others...) {
		if row.Current == "" && row.Due.At.IsZero() { // idle
			continue
		}
		if err := addWaiting(rd, row, &out); err != nil {
			return out, err
		}
	}
	if len(own) == 0 || out.Waiting > 0 {
		return out, nil
	}
	last, err := rd.Runs(store.RunQuery{Thread: id, Limit: 1})
	if err == nil && len(last) > 0 && last[0].Status == mailroom.StatusFailed && last[0].Error != nil { // refused
		out.LastError = request.Given(last[0].Error.Message)
	}
	return out, err
}

// addWaiting adds the alerts that wait in one thread, counted up to maxWaiting.
func addWaiting(rd store.Reader, row *mailroom.Thread, out *api.Target) error {
	queued := 0
	if most := maxWaiting - out.Waiting; most > 0 {
		counts, err := rd.Count(store.CountQuery{Thread: row.ID, Set: store.RunsQueued, Most: most})
		if err != nil {
			return err
		}
		queued = counts.Sum()
	}
	first := store.RunQuery{Thread: row.ID, Set: store.RunsQueued, Limit: 1}
	if row.Current != "" {
		queued++
		first = store.RunQuery{IDs: []string{row.Current}}
	}
	out.Waiting = min(out.Waiting+queued, maxWaiting)
	found, err := rd.Runs(first)
	if err != nil || len(found) == 0 {
		return err
	}
	if at := found[0].CreatedAt; out.Oldest == nil || at.Before(*out.Oldest) {
		out.Oldest = request.Known(at)
	}
	if out.LastError != nil {
		return nil
	}
	failed, err := lastTry(rd, found[0])
	if failed != nil {
		out.LastError = request.Given(failed.Message)
	}
	return err
}

// lastTry returns the error of the last attempt of a run that is tried again, nil if it had none.
func lastTry(rd store.Reader, r *mailroom.Run) (*mailroom.RunError, error) {
	last, err := rd.Entries(store.EntryQuery{
		Thread: r.Thread, After: r.FirstSeq, Kinds: []string{entry.KindRescheduled}, Run: r.ID, Backward: true, Limit: 1,
	})
	if err != nil || len(last) == 0 {
		return nil, err
	}
	var body entry.RunRescheduled
	err = last[0].Decode(&body)
	return body.Error, err
}

type testAlertInput struct{ Body api.TestAlert }

func (h *AlertHandlers) Test(ctx context.Context, in *testAlertInput) (*body[api.TestedAlert], error) {
	if h.alerts.Find(in.Body.Target) == nil {
		return nil, noTarget(in.Body.Target)
	}
	run, err := h.alerts.Test(ctx, in.Body.Target)
	return &body[api.TestedAlert]{api.TestedAlert{Run: run}}, err
}

func noTarget(name string) error {
	return mailroom.Errorf(mailroom.CodeNotFound,
		"no target %q: add one with `mailroom notify add`", request.Truncate(name))
}
