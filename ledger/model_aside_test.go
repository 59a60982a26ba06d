package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
	"mailroom/thread"
)

// sideAction is an operation that concerns no run: on a project, an agent or a cursor.
type sideAction struct {
	name string
	do   func(ctx context.Context, l *ledger.Ledger) (any, error)
}

// drawSide draws such an operation on the rows of a store. Many of them are refused.
func drawSide(t *rapid.T, rows contents, n int) sideAction {
	draw := one(t, []func(t *rapid.T, rows contents, n int) sideAction{
		drawNotify, drawNotify, drawInbox, drawInbox, drawAcknowledge, drawAcknowledge, drawReserve, drawReserve,
		drawReservation,
		drawPause, drawResume, drawCursor, drawDuty, drawDuty, drawOpening, drawNote, drawQuotas, drawQuotas,
		drawAlerts, drawAlerts,
		drawExpiry, drawOnTheWay, drawRecord,
	}, "aside")
	return draw(t, rows, n)
}

func drawPause(t *rapid.T, _ contents, n int) sideAction {
	p := store.Pause{Agent: one(t, []string{"phantom", "wraith"}, "paused"), By: "ann", Reason: fmt.Sprint("reason ", n)}
	return sideAction{"pause", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return l.PauseAgent(by(ctx, "ann"), p)
	}}
}

func drawResume(t *rapid.T, _ contents, _ int) sideAction {
	agent := one(t, []string{"phantom", "wraith"}, "resumed")
	return sideAction{"resume", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return nil, l.ResumeAgent(by(ctx, "ann"), agent)
	}}
}

// by returns a context whose operations are those of a caller, which the audit log records.
func by(ctx context.Context, name string) context.Context {
	return ledger.WithCaller(ctx, func() ledger.Caller {
		return ledger.Caller{Name: name, Kind: "token", From: "192.0.2.7"}
	})
}

// drawRecord records an action that changes no row.
func drawRecord(_ *rapid.T, _ contents, n int) sideAction {
	a := ledger.Action{Name: "channel.resume", ObjectKind: "channel", Object: fmt.Sprint(n)}
	return sideAction{"record", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return nil, l.Accounts().Record(by(ctx, "ann"), a)
	}}
}

// drawDuty takes or releases a duty for a worker, which may be dead or unknown.
func drawDuty(t *rapid.T, rows contents, _ int) sideAction {
	worker := "unknown"
	if len(rows.Workers) > 0 {
		worker = one(t, rows.Workers, "worker").ID
	}
	duty := one(t, []string{"channel:tg", "purge"}, "duty")
	if chance(t, 30, "released") {
		return sideAction{"release duty", func(ctx context.Context, l *ledger.Ledger) (any, error) {
			return nil, l.Duties().Release(ctx, worker, duty)
		}}
	}
	return sideAction{"take duty", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return l.Duties().Take(ctx, worker, duty)
	}}
}

// drawOpening opens a thread of a group, which has room for one.
func drawOpening(t *rapid.T, _ contents, n int) sideAction {
	in := opening(one(t, []string{"a", "b", "c"}, "opened"))
	in.Metadata = json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))
	in.Admit = func(others []*mailroom.Thread) error {
		if len(others) > 0 {
			return mailroom.Errorf(mailroom.CodeConflict, "the group is full")
		}
		return nil
	}
	return sideAction{"open", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return ledger.GroupsOf(l).Open(ctx, in)
	}}
}

func drawNote(_ *rapid.T, _ contents, n int) sideAction {
	return sideAction{"append entry", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return l.AppendEntry(ctx, "notes", entry.KindChannel, json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)))
	}}
}

func drawQuotas(t *rapid.T, _ contents, n int) sideAction {
	name, q := one(t, []string{"amy", "ben"}, "whose quota"), auth.Quotas{auth.QuotaThreads: int64(n)}
	return sideAction{"set quotas", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return l.Accounts().SetQuotas(ctx, name, q)
	}}
}

// drawAlerts submits to two threads at once. The second submit may be refused after the first one was applied.
func drawAlerts(t *rapid.T, _ contents, n int) sideAction {
	var all []thread.Submit
	for i := range 2 {
		in := text(one(t, []string{"a", "b", "c", "alerts"}, "told"), fmt.Sprint("alert ", n))
		in.Run, in.Key = fmt.Sprint("alert", n, "-", i), fmt.Sprint("alert ", number(t, 1, 9, "alert"))
		if chance(t, 30, "rejecting") {
			in.Mode = mailroom.ModeReject
		}
		all = append(all, in)
	}
	c := store.Cursor{Channel: "alerts", Position: json.RawMessage(fmt.Sprint(n))}
	return sideAction{"submit all", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return nil, l.Duties().SubmitAll(ctx, slices.Clone(all), c)
	}}
}

// drawOnTheWay announces messages that may join a run.
func drawOnTheWay(t *rapid.T, _ contents, _ int) sideAction {
	in := thread.Submit{Thread: drawThread(t, "thread"), Sender: "ann", OnTheWay: true, Owner: "ann", Join: time.Second}
	in.Origin = mailroom.Origin{Via: "channel:tg", Sender: in.Sender}
	return sideAction{"on the way", func(ctx context.Context, l *ledger.Ledger) (any, error) { return l.Submit(ctx, in) }}
}

// drawExpiry expires the notifications of a project.
func drawExpiry(t *rapid.T, _ contents, _ int) sideAction {
	id, age := project.Prefix+drawProject(t), time.Duration(number(t, 1, 60, "minutes"))*time.Minute
	return sideAction{"expire notifications", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return nil, l.Projects().ExpireNotifications(ctx, id, age)
	}}
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

func drawNotify(t *rapid.T, _ contents, n int) sideAction {
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
	return sideAction{"notify", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return l.Projects().Notify(ctx, in)
	}}
}

func drawInbox(t *rapid.T, _ contents, _ int) sideAction {
	agent, by := drawAgent(t)
	in := ledger.InboxQuery{Project: drawProject(t), Agent: agent, By: by, Limit: number(t, 1, 3, "limit"),
		Consume: chance(t, 50, "consumed")}
	return sideAction{"inbox", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		return l.Projects().Inbox(ctx, in)
	}}
}

func drawAcknowledge(t *rapid.T, rows contents, _ int) sideAction {
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

func drawReserve(t *rapid.T, _ contents, _ int) sideAction {
	holder, by := drawAgent(t)
	in := project.Reserve{
		Project: drawProject(t), Names: []string{one(t, []string{"a.go", "b.go", "*.go"}, "name")}, Holder: holder, By: by,
		Shared: chance(t, 20, "shared"), Advisory: chance(t, 10, "advisory"),
		TTL: time.Duration(number(t, 1, 60, "minutes")) * time.Minute,
	}
	return sideAction{"reserve", func(ctx context.Context, l *ledger.Ledger) (any, error) {
		out, err := l.Projects().Reserve(ctx, in)
		return out, err
	}}
}

func drawReservation(t *rapid.T, rows contents, _ int) sideAction {
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

func drawCursor(t *rapid.T, _ contents, n int) sideAction {
	c := store.Cursor{Channel: "chat", Identity: one(t, []string{"", "room"}, "identity"),
		Position: json.RawMessage(fmt.Sprint(n))}
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
