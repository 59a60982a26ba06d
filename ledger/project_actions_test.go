package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
)

// sideAction is an operation that concerns no run: on a project, an agent or a cursor.
type sideAction struct {
	name string
	do   func(ctx context.Context, l *ledger.Ledger) (any, error)
}

// drawSide draws such an operation on the rows of a store. Many of them are refused.
func drawSide(t *rapid.T, rows contents, n int) sideAction {
	switch one(t, []string{"notify", "notify", "inbox", "inbox", "acknowledge", "acknowledge", "reserve", "reserve", "reservation", "pause", "resume", "cursor"}, "aside") {
	case "notify":
		return drawNotify(t, n)
	case "inbox":
		return drawInbox(t)
	case "acknowledge":
		return drawAcknowledge(t, rows)
	case "reserve":
		return drawReserve(t)
	case "reservation":
		return drawReservation(t, rows)
	case "cursor":
		return drawCursor(t, n)
	case "pause":
		p := store.Pause{Agent: one(t, []string{"phantom", "wraith"}, "paused"), By: "ann", Reason: fmt.Sprint("reason ", n)}
		return sideAction{"pause", func(ctx context.Context, l *ledger.Ledger) (any, error) { return l.PauseAgent(ctx, p) }}
	}
	agent := one(t, []string{"phantom", "wraith"}, "resumed")
	return sideAction{"resume", func(ctx context.Context, l *ledger.Ledger) (any, error) { return nil, l.ResumeAgent(ctx, agent) }}
}

// drawAgent returns the name of an agent in a project, and a token that acts for it.
func drawAgent(t *rapid.T) (string, *auth.Token) {
	by := ann()
	if chance(t, 15, "a stranger") {
		by = &auth.Token{Name: "bob", Scopes: []auth.Permission{auth.PermissionRead, auth.PermissionSubmit}}
	}
	return one(t, []string{"x", "y", "z", "z", "bad/name"}, "agent"), by
}

func drawProject(t *rapid.T) string { return one(t, []string{"p", "p", "p", "q"}, "project") }

func drawNotify(t *rapid.T, n int) sideAction {
	from, by := drawAgent(t)
	in := project.Notify{Project: drawProject(t), By: by, Notification: project.Notification{
		From: from, Event: "built", Data: json.RawMessage(fmt.Sprint(n)),
	}}
	if chance(t, 50, "named") {
		in.To = []string{one(t, []string{"x", "y", "z"}, "to"), one(t, []string{"x", "new"}, "and to")}
	}
	if chance(t, 30, "keyed") {
		in.Key = one(t, keyNames(), "key")
	}
	return sideAction{"notify", func(ctx context.Context, l *ledger.Ledger) (any, error) { return l.Projects().Notify(ctx, in) }}
}

func drawInbox(t *rapid.T) sideAction {
	agent, by := drawAgent(t)
	in := ledger.InboxQuery{Project: drawProject(t), Agent: agent, By: by, Limit: number(t, 1, 3, "limit"), Consume: chance(t, 50, "consumed")}
	return sideAction{"inbox", func(ctx context.Context, l *ledger.Ledger) (any, error) { return l.Projects().Inbox(ctx, in) }}
}

func drawAcknowledge(t *rapid.T, rows contents) sideAction {
	agent, by := drawAgent(t)
	name := drawProject(t)
	last := 0
	if row := rows.Threads[project.Prefix+name]; row != nil {
		last = int(row.LastSeq)
	}
	var seqs []int64
	for range number(t, 1, 3, "seqs") {
		seqs = append(seqs, int64(number(t, 1, last+1, "seq")))
	}
	return sideAction{"acknowledge", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return nil, l.Projects().Acknowledge(ctx, name, agent, by, seqs)
	}}
}

func drawReserve(t *rapid.T) sideAction {
	holder, by := drawAgent(t)
	in := project.Reserve{
		Project: drawProject(t), Names: []string{one(t, []string{"a.go", "b.go", "*.go"}, "name")}, Holder: holder, By: by,
		Shared: chance(t, 20, "shared"), Advisory: chance(t, 10, "advisory"), TTL: time.Duration(number(t, 1, 60, "seconds")) * time.Second,
	}
	return sideAction{"reserve", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		out, err := l.Projects().Reserve(ctx, in)
		return out, err
	}}
}

func drawReservation(t *rapid.T, rows contents) sideAction {
	holder, by := drawAgent(t)
	id := "unknown"
	if len(rows.Reserved) > 0 && chance(t, 80, "a known one") {
		id = one(t, rows.Reserved, "reservation").ID
	}
	force, name := chance(t, 30, "forced"), drawProject(t)
	switch one(t, []string{"renew", "release", "release names"}, "change") {
	case "renew":
		return sideAction{"renew reservation", func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return l.Projects().RenewReservation(ctx, id, by, time.Minute)
		}}
	case "release":
		return sideAction{"release reservation", func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return l.Projects().Release(ctx, id, by, force)
		}}
	}
	return sideAction{"release names", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return l.Projects().ReleaseNames(ctx, name, holder, []string{"a.go", "*.go"}, by)
	}}
}

func drawCursor(t *rapid.T, n int) sideAction {
	c := store.Cursor{Channel: "chat", Identity: one(t, []string{"", "room"}, "identity"), Position: json.RawMessage(fmt.Sprint(n))}
	refused := chance(t, 20, "refused")
	return sideAction{"cursor", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return nil, l.ChangeCursor(ctx, c.Channel, c.Identity, func(json.RawMessage, time.Time) (json.RawMessage, error) {
			if refused {
				return nil, mailroom.Errorf(mailroom.CodeConflict, "no")
			}
			return c.Position, nil
		})
	}}
}

// TestRefusedOperationsAsideChangeNothing plays random histories of the operations that concern no run, as
// TestRandomHistories plays the others: onBoth compares the rows around each refusal. A refusal undoes
// nothing, so an operation must not change anything before it refuses.
func TestRefusedOperationsAsideChangeNothing(t *testing.T) {
	rounds(t, 12)
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(twinOf(rt, 1, onMemory(), onFile(dir)))
		defer func() {
			if err := m.close(); err != nil {
				rt.Errorf("close: %v", err)
			}
		}()
		m.compare(rt, "open")
		rt.Repeat(map[string]func(*rapid.T){"aside": m.side})
	})
}

// side runs an operation that concerns no run.
func (m *model) side(t *rapid.T) {
	m.n++
	a := drawSide(t, m.after, m.n)
	_, _ = onBoth(t, m.twin, a.name, func(l *ledger.Ledger) (any, error) { return a.do(m.ctx, l) })
}

// An acknowledgement that is refused once created the inbox and the project.
func TestARefusedAcknowledgementCreatesNothing(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	err := d.Projects().Acknowledge(d.ctx, "ghost", "z", ann(), []int64{99})
	if mailroom.CodeOf(err) != mailroom.CodeInvalid {
		t.Errorf("an unknown notification is acknowledged with %v", err)
	}
	if err := d.Ledger.View(d.ctx, func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{project.Prefix + "ghost"}})
		if len(rows) > 0 {
			t.Errorf("the refusal created project %s", rows[0].ID)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
