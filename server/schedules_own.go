package server

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/check"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/schedule"
	"mailroom/schedule/plan"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

// putOwn makes or changes one of a thread's own schedules. The caller must own the thread, because the schedule uses
// the rights of the thread's owner.
func (h *scheduleHandlers) putOwn(
	ctx context.Context, owner string, in *api.PutSchedule,
) (*body[api.ScheduleChanged], error) {
	t, err := h.ownThread(ctx, in.Spec.Thread)
	switch {
	case err != nil:
		return nil, request.Locate("body.spec.", err)
	case t.Owner != owner:
		return nil, mailroom.Errorf(mailroom.CodeForbidden,
			"thread %q belongs to another token: only its owner and its runs make its own schedules", t.ID)
	}
	raw, err := json.Marshal(plan.ServerRequest{Thread: t.ID, By: owner,
		Request: plan.Request{Op: plan.RequestSet, Name: in.Name, Spec: &in.Spec}})
	if err != nil {
		return nil, err
	}
	id := reserved.BookID(owner, t.ID)
	done := ledger.Action{Name: "schedule.put", ObjectKind: "schedule", Object: in.Name,
		Detail: map[string]string{"owner": owner, "thread": t.ID}}
	reply, run, err := h.carryOut(ledger.WithAction(ctx, &done), id, owner, mailroom.Text(string(raw)))
	if err != nil {
		return nil, err
	}
	var answer api.OwnSchedules
	if err := json.Unmarshal([]byte(reply), &answer); err != nil {
		return nil, errNotChanged(reply)
	}
	if answer.Refused != "" || len(answer.Items) != 1 {
		return nil, errNotChanged(answer.Refused)
	}
	number := answer.Items[0].Number
	set := plan.Sent{Number: number, Command: plan.Command{Op: plan.OpSet}}
	_, sent, _ := thread.SendIDs(mailroom.Send{Name: set.Name()}, run)
	if reply, err = h.await(ctx, sent); err != nil {
		return nil, err
	}
	if reply != "" {
		return nil, errNotChanged(reply)
	}
	state, err := h.read(ctx, reserved.OwnScheduleID(id, number))
	if err != nil {
		return nil, err
	}
	shown := plan.Show(state, time.Now())
	return &body[api.ScheduleChanged]{shown.Changed()}, nil
}

// ownThread returns a thread that the caller sees.
func (h *scheduleHandlers) ownThread(ctx context.Context, name string) (t *mailroom.Thread, err error) {
	id, err := check.ThreadID(name)
	if err != nil {
		return nil, err
	}
	err = h.find.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Threads(store.ThreadQuery{IDs: []string{id}})
		for _, row := range rows {
			if requestOf(ctx).who.CanSee(row) && row.DeletedAt.IsZero() {
				t = row
			}
		}
		return err
	})
	if err == nil && t == nil {
		err = mailroom.Errorf(mailroom.CodeNotFound, "no thread %q", id)
	}
	return t, err
}

// listOwn returns the open own schedules of a thread that the caller sees.
func (h *scheduleHandlers) listOwn(ctx context.Context, name string) (*body[api.Page[api.Schedule]], error) {
	t, err := h.ownThread(ctx, name)
	if err != nil {
		return nil, request.Locate("query.", err)
	}
	var ids []string
	for n := range plan.MaxOwn {
		ids = append(ids, reserved.OwnScheduleID(reserved.BookID(t.Owner, t.ID), n+1))
	}
	out := api.Page[api.Schedule]{Items: []api.Schedule{}}
	err = h.find.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Threads(store.ThreadQuery{IDs: ids})
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(t *mailroom.Thread) bool {
			return !t.DeletedAt.IsZero() || !requestOf(ctx).who.CanSee(t)
		})
		found, err := schedule.Read(rd, rows, time.Now())
		for _, state := range found {
			if !state.Over() {
				out.Items = append(out.Items, plan.Show(state, time.Now()))
			}
		}
		return err
	})
	return &body[api.Page[api.Schedule]]{out}, err
}
