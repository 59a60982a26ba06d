package thread

import (
	"encoding/json"
	"fmt"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/budget"
	"mailroom/internal/check"
	"mailroom/internal/reserved"
)

// Patch changes settings of a thread. A nil field keeps its value.
type Patch struct {
	By        *auth.Token // caller, who must see the thread; nil: the server itself
	ByServer  bool        // a channel acts, with the rights of By on threads; see Submit
	Agent     *string
	DeliverTo *string         // "" removes it
	Metadata  json.RawMessage // a JSON object
	// DropSession drops the agents' state, so that the next run of each begins a new session.
	DropSession bool
	Budgets     map[budget.Period]mailroom.Budget // to set; a zero one removes it

	// Rows that the check of DeliverTo needs.
	Target *mailroom.Thread // row of DeliverTo, which may not exist
	Source *mailroom.Thread // a thread that delivers to the changed one, or nil
	// Foreign says that Target does not exist, and that the caller may not create it.
	Foreign bool
}

// Patch changes the agent, the metadata or the delivery target of the thread, and drops its sessions.
func (t *State) Patch(p Patch, now time.Time) error {
	if err := t.CheckVisibleTo(p.By); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return err
	}
	if err := p.checkDelivery(&t.Thread, t.Owner); err != nil {
		return err
	}
	if err := p.checkBudgets(t); err != nil {
		return err
	}
	if p.DropSession && reserved.Prefix(t.ID) == reserved.Schedule {
		return mailroom.Errorf(mailroom.CodeForbidden, "thread %q keeps a schedule and no session", t.ID)
	}
	if p.DropSession && t.Worker != "" {
		return mailroom.Errorf(mailroom.CodeConflict,
			"a run of thread %q is at work in its session; interrupt it first", t.ID)
	}
	if p.DropSession {
		dropSessions(&t.Thread)
	}
	if p.Metadata != nil {
		t.Metadata = p.Metadata
	}
	if p.Agent != nil {
		t.Agent = *p.Agent
	}
	if p.DeliverTo != nil {
		t.DeliverTo = *p.DeliverTo
	}
	setBudgets(t, p.Budgets, now)
	t.UpdatedAt = now
	t.Touch()
	return nil
}

// dropSessions drops the agents' state, and with it their sessions. The servers of the sessions stay in the row
// while work is queued, because the Due of that work names them.
func dropSessions(row *mailroom.Thread) {
	row.State = nil
	if isIdle(row) {
		row.Nodes = nil
	}
}

// Check validates the agent and the metadata.
func (p *Patch) Check() error {
	if p.Metadata != nil {
		if err := check.JSON("metadata", p.Metadata, mailroom.MaxMetadata); err != nil {
			return err
		}
		if !check.IsObject(p.Metadata) {
			return check.Invalid("metadata", "must be a JSON object", truncate(string(p.Metadata), 80))
		}
	}
	if p.Agent != nil && !check.IsClean(*p.Agent) {
		return check.Invalid("agent", "must be valid UTF-8 without NUL", *p.Agent)
	}
	return nil
}

// checkDelivery refuses a target of thread t that the caller cannot see, and a chain: a thread to which others
// deliver must not deliver itself, or a reply could be delivered forever.
//
// It also refuses a thread of the server that gets nothing from threads of owner, whether or not it exists, and a
// reserved thread that does not exist and that no delivery creates.
func (p *Patch) checkDelivery(t *mailroom.Thread, owner string) error {
	if p.DeliverTo == nil || *p.DeliverTo == "" {
		return nil
	}
	to := *p.DeliverTo
	missing := p.Target == nil || p.Target.CreatedAt.IsZero()
	switch {
	case reserved.ForServer(to) && (reserved.Owner(to) != owner || reserved.Agent(to) == ""):
		e := check.Invalid("deliver_to", fmt.Sprintf("is a thread of the server that gets nothing from threads of %s", owner),
			to)
		e.Code = mailroom.CodeForbidden
		return e
	case reserved.ForServer(to) && reserved.Owner(to) == auth.Operator && p.By != nil && !p.ByServer &&
		!p.By.Has(auth.PermissionAdmin):
		// The name of the operator gives no right here: the operator's limited tokens have it too, and may not act
		// in chats.
		e := check.Invalid("deliver_to", "is a chat or a target of the server: this requires a token with the scope admin",
			to)
		e.Code = mailroom.CodeForbidden
		return e
	case p.Foreign, missing && reserved.Prefix(to) != "" && !reserved.ForServer(to): // deliveries would be dropped
		return errNoThread(to)
	case to == t.ID:
		return check.Invalid("deliver_to", "is the thread itself", to)
	case !missing && p.By != nil && !p.By.CanSee(p.Target):
		return errNoThread(p.Target.ID)
	case p.Target != nil && p.Target.DeliverTo != "":
		return mailroom.Errorf(mailroom.CodeConflict,
			"thread %q delivers to %q; a delivery thread must not have a deliver_to", p.Target.ID, p.Target.DeliverTo)
	case p.Source != nil && p.By != nil && !p.By.CanSee(p.Source):
		return mailroom.Errorf(mailroom.CodeConflict,
			"another thread delivers to this one; a delivery thread must not have a deliver_to")
	case p.Source != nil:
		return mailroom.Errorf(mailroom.CodeConflict,
			"thread %q delivers to this one; a delivery thread must not have a deliver_to", p.Source.ID)
	}
	return nil
}

// CheckDeletable returns an error unless the thread exists and is idle.
func (t *State) CheckDeletable() error {
	switch {
	case t.CreatedAt.IsZero():
		return mailroom.Errorf(mailroom.CodeNotFound, "no thread %q", t.ID)
	case !isIdle(&t.Thread):
		return mailroom.Errorf(mailroom.CodeConflict, "thread %q has open runs; cancel them first", t.ID)
	}
	return nil
}

// Purge records in the thread's row that the entries below seq, which have the given size in bytes, were dropped.
func (t *State) Purge(seq, bytes int64) {
	t.FirstSeq = seq
	t.Bytes -= bytes
	t.Touch()
}

// MarkDeleted hides the thread from every caller before its rows are dropped.
func (t *State) MarkDeleted(now time.Time) {
	t.DeletedAt = now
	t.Touch()
}
