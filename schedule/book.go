package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/schedule/plan"
	"mailroom/store"
)

// runBook carries out a request to a book, see [plan.Book]. Its state, the commands to its schedules and the answer,
// which is the reply, are one commit.
func (a *Agent) runBook(ctx context.Context, s mailroom.Session) error {
	run := s.Run()
	if run.Checkpoint != nil || run.Origin.Via == "wake" {
		return nil // an earlier attempt has committed it
	}
	look, refused, err := a.readRequest(ctx, s)
	if err != nil {
		return err
	}
	if refused != "" {
		return s.Stream(ctx, refused)
	}
	book, err := plan.DecodeBook(s.State(), look.Asked.Thread)
	if err != nil {
		return permanent(err)
	}
	look.Now, look.Run = time.Now().UTC(), run.ID
	if refused, err = a.lookAround(ctx, run.Thread, look); err != nil {
		return err
	}
	var sends []plan.Sent
	answer := plan.Refuse(refused)
	if refused == "" {
		owner, _ := reserved.SchedulePlace(run.Thread)
		look.Check = func(spec *plan.Spec) error {
			message := spec.Submit(look.Asked.Name, time.Time{})
			message.Owner = owner
			return a.ledger.View(ctx, func(r store.Reader) error { return ledger.CheckMessage(r, message) })
		}
		sends, answer = book.Do(run.Thread, look)
	}
	return commitBook(ctx, s, book, sends, answer)
}

// readRequest returns the request of a run. refused says, for people, why the message asks nothing.
func (a *Agent) readRequest(ctx context.Context, s mailroom.Session) (look *plan.Look, refused string, err error) {
	input, err := s.Input(ctx)
	if err != nil {
		return nil, "", err
	}
	run := s.Run()
	raw, server := []byte(nil), run.Origin.Via == reserved.ViaSchedule
	for _, m := range input {
		for _, p := range m.Parts {
			if raw = p.Data; p.Type == "text" {
				raw = []byte(p.Text)
			}
		}
	}
	asked, bad := plan.ReadRequest(raw, server)
	look = &plan.Look{Asked: asked, ByRun: !server}
	if !server {
		if look.Asked.Thread, err = a.senderOf(ctx, &run); err != nil || look.Asked.Thread == "" {
			return nil, "Only the runs of a thread and the server ask for the thread's own schedules.", err
		}
		look.Asked.By = run.Origin.Sender
	}
	if bad != nil {
		raw, err := json.Marshal(plan.Refuse("the message " + bad.Error()))
		return nil, string(raw), err
	}
	return look, "", nil
}

// senderOf returns the thread whose run has sent a message to its own book, "" for any other message.
func (a *Agent) senderOf(ctx context.Context, run *mailroom.RunView) (id string, err error) {
	if run.Origin.Via != "run" {
		return "", nil
	}
	owner, _ := reserved.SchedulePlace(run.Thread)
	err = a.ledger.View(ctx, func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{IDs: []string{run.ID}})
		for _, row := range rows {
			n := len(row.Lineage)
			if id = ""; n > 0 && reserved.BookID(owner, row.Lineage[n-1]) == run.Thread {
				id = row.Lineage[n-1]
			}
		}
		return err
	})
	return id, err
}

// lookAround reads what the request needs: the schedules of the book, its thread, and whose rights a new schedule has.
func (a *Agent) lookAround(ctx context.Context, id string, look *plan.Look) (refused string, err error) {
	var ids []string
	for n := range plan.MaxOwn {
		ids = append(ids, reserved.OwnScheduleID(id, n+1))
	}
	owner, _ := reserved.SchedulePlace(id)
	err = a.ledger.View(ctx, func(r store.Reader) error {
		look.States = map[int]*plan.State{}
		rows, err := r.Threads(store.ThreadQuery{IDs: append(ids, look.Asked.Thread)})
		if err != nil {
			return err
		}
		look.Own, refused = plan.Own{Thread: look.Asked.Thread, User: look.Asked.User}, ""
		rows = slices.DeleteFunc(rows, func(t *mailroom.Thread) bool {
			if t.ID == look.Asked.Thread && t.DeletedAt.IsZero() {
				look.Own.Born = t.CreatedAt
			}
			return t.ID == look.Asked.Thread || !t.DeletedAt.IsZero()
		})
		states, err := Read(r, rows, look.Now)
		if err != nil {
			return err
		}
		for _, row := range rows {
			look.States[1+slices.Index(ids, row.ID)] = nil // it exists
		}
		for _, state := range states {
			look.States[1+slices.Index(ids, state.ID)] = state
		}
		if look.ByRun && look.Own.Born.IsZero() {
			refused = fmt.Sprintf("thread %q was deleted", look.Asked.Thread)
		}
		if look.Source, err = a.sourceOf(r, owner, look.Now); err == nil && look.Source == "" {
			refused = fmt.Sprintf("token %s has ended", owner)
		}
		return err
	})
	return refused, err
}

// sourceOf returns the row of an owner's token, "" if it has ended.
func (a *Agent) sourceOf(r store.Reader, owner string, now time.Time) (id string, err error) {
	if owner == auth.Operator {
		return a.operator.ID(), nil
	}
	rows, err := r.Tokens(owner)
	for _, row := range rows {
		if row.Terms.Kind == auth.KindToken && row.RevokedAt.IsZero() && !row.Expired(now) {
			id = row.ID()
		}
	}
	return id, err
}

// bars reports whether a schedule was made by the user of a chat who has no access any more.
func (a *Agent) bars(ctx context.Context, own *plan.Own) (bool, error) {
	if own == nil || own.User == "" {
		return false, nil
	}
	if a.admits == nil {
		return true, nil
	}
	ok, err := a.admits(ctx, own.User)
	return !ok, err
}

// threadEnded reports whether the thread to which a schedule of a book belongs was deleted since it was made.
func threadEnded(r store.Reader, own *plan.Own) (bool, error) {
	if own == nil || own.Born.IsZero() {
		return false, nil
	}
	rows, err := r.Threads(store.ThreadQuery{IDs: []string{own.Thread}})
	if err != nil {
		return false, err
	}
	return len(rows) == 0 || !rows[0].DeletedAt.IsZero() || !rows[0].CreatedAt.Equal(own.Born), nil
}

// commitBook commits the state of a book with what it sends, and the answer to the request.
func commitBook(ctx context.Context, s mailroom.Session, b *plan.Book, sent []plan.Sent, answer any) error {
	reply, err := json.Marshal(answer)
	if err != nil {
		return permanent(err)
	}
	state, err := json.Marshal(b)
	if err != nil {
		return permanent(err)
	}
	step := mailroom.Step{Name: "request", State: state, Checkpoint: json.RawMessage(`{"done":true}`)}
	first := 0
	for _, one := range sent {
		parts, err := one.Command.Parts()
		if err != nil {
			return permanent(err)
		}
		step.Sends = append(step.Sends, mailroom.Send{
			Name: one.Name(), Agent: reserved.Scheduler, Parts: parts, Priority: &first,
			Thread: reserved.OwnScheduleID(s.Run().Thread, one.Number),
		})
	}
	if err := s.Stream(ctx, string(reply)); err != nil {
		return err
	}
	err = s.Append(ctx, step)
	if err != nil && len(step.Sends) > 0 && refuses(err) { // a quota, for example
		return permanent(err)
	}
	return err
}
