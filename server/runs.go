package server

import (
	"context"
	"net/http"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/stream"
	"mailroom/thread"
)

// Runs is the part of a ledger that changes runs.
type Runs interface {
	operate.Runs
	CancelTree(ctx context.Context, run string, who *auth.Token) (*mailroom.Run, error)
}

// runHandlers serve runs.
type runHandlers struct {
	ledger  Runs
	find    request.Lookup
	streams Streams // streams that answer waits
	slots   *slots  // slots of streams and waits
	life    *lifecycle
}

type getRunInput struct{ RunPath }

func (h *runHandlers) getRun(ctx context.Context, in *getRunInput) (*body[api.Run], error) {
	run, err := h.find.ShownRun(ctx, in.Run)
	return &body[api.Run]{run}, err
}

const maxWait = 5 * time.Minute

type waitRunInput struct {
	RunPath
	Timeout string `query:"timeout" default:"30s" doc:"A duration such as 500ms, 30s or 2m, at most 5m."`
}

// waitRun follows the run's stream from the thread's last entry, and answers with the run when the
// stream ends.
func (h *runHandlers) waitRun(ctx context.Context, in *waitRunInput) (*body[api.Run], error) {
	timeout, err := time.ParseDuration(in.Timeout)
	if err != nil || timeout < 0 || timeout > maxWait {
		return nil, request.Invalid("query.timeout", "must be a duration such as 30s, from 0s to 5m", in.Timeout)
	}
	release, err := h.slots.acquire(requestOf(ctx).who.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	run, thread, err := h.find.ShownRunIf(ctx, in.Run, func(r *mailroom.Run) bool {
		return timeout == 0 || r.Status.Finished() || r.Status == mailroom.StatusWaiting
	})
	if err != nil || thread == nil {
		return &body[api.Run]{run}, err
	}
	following, cancel := h.life.authorizedContext(ctx)
	defer cancel()
	following, expire := context.WithTimeout(following, timeout)
	defer expire()
	err = h.streams.Follow(following, stream.Query{
		Thread: thread.ID, Key: thread.Key, Run: in.Run, After: stream.Cursor{Seq: thread.LastSeq},
		Until: stream.UntilWaiting, NoText: true,
	}, func(stream.Event) error { return nil })
	if err != nil && (ctx.Err() != nil || following.Err() == nil) {
		return nil, err
	}
	if grant := requestOf(ctx).grant.ctx; grant.Err() != nil {
		return nil, context.Cause(grant)
	}
	run, err = h.find.ShownRun(ctx, in.Run)
	return &body[api.Run]{run}, err
}

type cancelRunInput struct {
	RunPath
	Body *api.Cancel
}

type runAnswer struct {
	Status int
	Body   api.Run
}

func (h *runHandlers) cancelRun(ctx context.Context, in *cancelRunInput) (*runAnswer, error) {
	id, err := h.runOrCurrent(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	who := requestOf(ctx).who
	cancel := func() (*mailroom.Run, error) { return h.ledger.Cancel(ctx, id, who.Name) }
	if in.Body != nil && in.Body.Children {
		cancel = func() (*mailroom.Run, error) { return h.ledger.CancelTree(ctx, id, who) }
	}
	row, err := cancel()
	if err != nil {
		return nil, err
	}
	run, err := h.showResult(ctx, row)
	out := &runAnswer{Status: http.StatusOK, Body: run}
	if run.Stopping {
		out.Status = http.StatusAccepted
	}
	return out, err
}

// runOrCurrent returns the id of a run that is visible to the caller: the one with this id, or the current run
// of the thread with this id. The queue of the thread does not count.
func (h *runHandlers) runOrCurrent(ctx context.Context, id string) (string, error) {
	_, unknown := h.find.Run(ctx, id)
	if mailroom.CodeOf(unknown) != mailroom.CodeNotFound {
		return id, unknown
	}
	thread, err := ThreadPath{id}.id()
	if err != nil {
		return "", unknown
	}
	t, err := h.find.Thread(ctx, thread)
	switch {
	case err != nil:
		return "", unknown
	case t.Current == "":
		return "", mailroom.Errorf(mailroom.CodeConflict,
			"thread %q has no run that has started: name the run, or interrupt the thread to drop its queue", t.ID)
	}
	return t.Current, nil
}

// showResult shows a run as an operation left it. A later change must not contradict the response's
// status.
func (h *runHandlers) showResult(ctx context.Context, row *mailroom.Run) (api.Run, error) {
	var shown []api.Run
	err := h.find.View(ctx, func(rd store.Reader) (err error) {
		shown, err = request.ShowRunsTo(rd, requestOf(ctx).who, []*mailroom.Run{row})
		return err
	})
	if err != nil {
		return api.Run{}, err
	}
	return shown[0], nil
}

type retryRunInput struct {
	RunPath
	Body *api.Retry
}

func (h *runHandlers) retryRun(ctx context.Context, in *retryRunInput) (*body[api.Run], error) {
	if _, err := h.find.Run(ctx, in.Run); err != nil {
		return nil, err
	}
	q := thread.Retry{Run: in.Run, By: requestOf(ctx).who.Name}
	if b := in.Body; b != nil {
		q.Fresh, q.SameVersion = b.Fresh, b.AgentVersion == "same"
	}
	row, err := h.ledger.Retry(ctx, q)
	if err != nil {
		return nil, request.Locate("body.", err)
	}
	run, err := h.showResult(ctx, row)
	return &body[api.Run]{run}, err
}
