package ledger

import (
	"context"
	"slices"
	"strings"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// The audit log is the log of a thread of its own, [reserved.AuditLog], which has no owner: no token sees it, so none
// writes, deletes or delivers to it, also at a server of an older version. The entry of an action is appended in the
// transaction of the change that it records, so neither exists without the other, and the entries have the order of
// the commits. Only an operation with a caller records; the server's own work does not.
//
// An operation that records locks the thread with its other rows, in the same step, so the hot path of submits and
// claims gets no further statement. Actions of operators are few, so one row for all of them is no bottleneck.

const (
	// maxAuditText bounds an object and a value of Detail in the audit log, in bytes.
	maxAuditText = 512
	// maxAuditList bounds the names in a list in the audit log.
	maxAuditList = 20
)

// Action is what a caller does in an operation that does not know its meaning, such as the change of a stored value.
type Action struct {
	Name       string // such as "rule.put"; "": nothing is recorded
	ObjectKind string
	Object     string
	Detail     map[string]string
}

type actionKey struct{}

// WithAction returns a context whose ChangeCursor, Submit and [Groups.Open] record the action if they change a row. The
// function of a ChangeCursor is called before and may fill the action in.
func WithAction(ctx context.Context, a *Action) context.Context {
	return context.WithValue(ctx, actionKey{}, a)
}

// actionOf returns the action of a context, or nil.
func actionOf(ctx context.Context) *Action {
	a, _ := ctx.Value(actionKey{}).(*Action)
	return a
}

// Record records an action that changes no row, such as a command to a part of the server.
func (as Accounts) Record(ctx context.Context, a Action) error {
	o := op{name: "audit", rank: rankPlain, audits: true}
	return perform(ctx, as.ledger, o, func(tx *transaction) error { return recordAction(tx, &a) })
}

// callerOf returns the caller of a context; ok is false for the server itself.
func callerOf(ctx context.Context) (c Caller, ok bool) {
	who, _ := ctx.Value(callerKey{}).(func() Caller)
	if who == nil {
		return c, false
	}
	return who(), true
}

// auditBy makes o lock the audit log if it records what its caller does.
func (o *op) auditBy(ctx context.Context) {
	c, ok := callerOf(ctx)
	if !ok || !o.audits {
		return
	}
	if !slices.Contains(o.threads, reserved.AuditLog) {
		o.threads = append(slices.Clip(o.threads), reserved.AuditLog)
	}
	apply := o.apply
	o.apply = func(tx *transaction) error {
		if t := tx.rows.thread(reserved.AuditLog); !t.DeletedAt.IsZero() { // one that a token created at an older version
			return checkNotDeleted(t, &thread.Submit{})
		}
		tx.actor = &c
		defer func() { tx.actor = nil }()
		return apply(tx)
	}
}

// auditsThread reports whether an action of the caller on a thread is recorded: each of the operator, and those of a
// token on threads of others. What a token does with its own threads is its daily work.
func auditsThread(ctx context.Context, l *Ledger, id string) (bool, error) {
	c, ok := callerOf(ctx)
	if !ok || c.Name == auth.Operator {
		return ok, nil
	}
	others := false
	err := l.View(ctx, func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{id}})
		for _, t := range rows {
			others = t.Owner != c.Name // an owner never changes
		}
		return err
	})
	return others, err
}

// appendAudit appends an action to the audit log. The caller of the operation is its actor unless the action names one.
// Call it after the change. It returns only errors that end the transaction.
func appendAudit(tx *transaction, a entry.Audit) error {
	if tx.actor == nil {
		return nil
	}
	t, err := tx.rows.lock(reserved.AuditLog)
	if err != nil {
		return abortBatch{err}
	}
	if a.Actor == "" {
		a.Actor, a.ActorKind = tx.actor.Name, tx.actor.Kind
	}
	a.Token, a.From = tx.actor.Row, tx.actor.From
	for _, text := range []*string{&a.Actor, &a.ActorKind, &a.Token, &a.From, &a.Object, &a.Thread} {
		*text = cutText(*text)
	}
	for name, value := range a.Detail {
		if value == "" {
			delete(a.Detail, name)
		} else {
			a.Detail[name] = cutText(value)
		}
	}
	t.AppendEntry("", reserved.Owner(t.ID), entry.KindAudit, a, tx.now())
	return nil
}

// recordAction is appendAudit for the action of a context; nil and an action without a name record nothing.
func recordAction(tx *transaction, a *Action) error {
	if a == nil || a.Name == "" {
		return nil
	}
	detail := make(map[string]string, len(a.Detail))
	for name, value := range a.Detail {
		detail[name] = value
	}
	return appendAudit(tx, entry.Audit{Action: a.Name, ObjectKind: a.ObjectKind, Object: a.Object, Detail: detail})
}

// recordPatch records the change of a thread's agent or delivery.
func recordPatch(tx *transaction, was, now *mailroom.Thread) error {
	detail := map[string]string{}
	if was.Agent != now.Agent {
		detail["agent"], detail["agent_before"] = now.Agent, was.Agent
	}
	if was.DeliverTo != now.DeliverTo {
		detail["deliver_to"], detail["deliver_to_before"] = now.DeliverTo, was.DeliverTo
	}
	before := budgetTexts(was)
	for period, text := range budgetTexts(now) {
		if text != before[period] {
			detail["budget_"+period] = text
		}
		delete(before, period)
	}
	for period := range before {
		detail["budget_"+period] = ""
	}
	if len(detail) == 0 {
		return nil
	}
	return appendAudit(tx, entry.Audit{Action: "thread.change", ObjectKind: "thread", Object: now.ID, Thread: now.ID,
		Detail: detail})
}

// budgetTexts returns the budgets of a thread in words, by period.
func budgetTexts(t *mailroom.Thread) map[string]string {
	out := map[string]string{}
	for _, b := range t.Budgets {
		out[b.Period] = b.Limit.String()
	}
	return out
}

// recordDecisions records the decisions among the entries of t that this transaction has appended from the index
// begin on. The log of the thread names who decided, which is not the caller if a chat or a link passes it on.
func recordDecisions(tx *transaction, t *thread.State, begin int) error {
	if tx.actor == nil {
		return nil
	}
	for _, e := range t.Entries()[begin:] {
		var d entry.TicketDecision
		if e.Kind != entry.KindTicketDecided {
			continue
		}
		if err := e.Decode(&d); err != nil {
			return abortBatch{err}
		}
		a := entry.Audit{Action: "ticket." + string(d.Decision), ObjectKind: "ticket", Object: d.Ticket, Thread: t.ID,
			Detail: map[string]string{"run": e.Run}}
		if k := t.Tickets.Find(d.Ticket); k != nil {
			a.Detail["digest"], a.Detail["name"] = k.Digest, k.Name
		}
		switch tx.actor.Name {
		case "":
			a.Actor, a.ActorKind = d.DecidedBy, tx.actor.Kind
		case d.DecidedBy:
		default:
			a.Detail["decided_by"] = d.DecidedBy
		}
		if err := appendAudit(tx, a); err != nil {
			return err
		}
	}
	return nil
}

// recordToken records an action on the row of a token.
func recordToken(tx *transaction, action string, row *auth.Token, detail map[string]string) error {
	kind := string(row.Terms.Kind)
	if kind == "" {
		kind = "token"
	}
	return appendAudit(tx, entry.Audit{Action: action, ObjectKind: kind, Object: row.Name, Detail: detail})
}

// rightsOf describes the rights of the row of a token.
func rightsOf(row *auth.Token) map[string]string {
	var scopes []string
	for _, s := range append(slices.Clip(row.Scopes), row.Terms.Scopes...) {
		scopes = append(scopes, string(s))
	}
	out := map[string]string{"scopes": joinSome(scopes), "namespace": row.Namespace, "agents": joinSome(row.Agents),
		"threads": joinSome(row.Terms.Threads), "run": row.Terms.Run, "for": row.Terms.For, "client": row.Terms.Client}
	if at := row.Terms.ExpiresAt; !at.IsZero() {
		out["expires_at"] = at.UTC().Format("2006-01-02T15:04:05Z")
	}
	return out
}

func joinSome(names []string) string {
	if len(names) > maxAuditList {
		names = append(slices.Clone(names[:maxAuditList]), "…")
	}
	return strings.Join(names, " ")
}

// cutText returns a text for the audit log: bounded, and as every store can keep it.
func cutText(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > maxAuditText {
		s = strings.ToValidUTF8(s[:maxAuditText-len("…")], "") + "…"
	}
	return s
}
