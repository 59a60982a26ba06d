package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/stream"
	"mailroom/thread"
)

// Runs is the part of a ledger that changes runs.
type Runs interface {
	Cancel(ctx context.Context, run, by string) (*mailroom.Run, error)
	CancelTree(ctx context.Context, run string, who *auth.Token) (*mailroom.Run, error)
	Retry(ctx context.Context, in thread.Retry) (*mailroom.Run, error)
}

// runHandlers serve runs.
type runHandlers struct {
	ledger  Runs
	find    request.Lookup
	pages   pager
	streams Streams // for waits
	slots   *slots  // of streams and waits
	life    *lifecycle
	log     *slog.Logger
}

// Values of the key delivery: whether a run only delivers what another run said.
const (
	deliveryYes = "yes"
	deliveryNo  = "no"
)

func runKeys() []request.FilterKey {
	return []request.FilterKey{
		{Name: "id"},
		{Name: "status", Values: []string{
			string(mailroom.StatusQueued), string(mailroom.StatusRunning), string(mailroom.StatusWaiting),
			string(mailroom.StatusCompleted), string(mailroom.StatusFailed), string(mailroom.StatusCancelled),
		}},
		{Name: "agent"}, {Name: "owner"}, {Name: "thread"}, {Name: "parent"}, {Name: "class"}, {Name: "reason"},
		{Name: "error", Kind: request.KindText}, {Name: "group"}, {Name: "key"}, {Name: "mode"}, {Name: "via"},
		{Name: "created", Kind: request.KindTime}, {Name: "finished", Kind: request.KindTime}, {Name: "metadata.*"},
		{Name: "delivery", Values: []string{deliveryYes, deliveryNo}},
	}
}

type listRunsInput struct{ ListParams }

func (h *runHandlers) listRuns(ctx context.Context, in *listRunsInput) (*body[api.Page[api.Run]], error) {
	f, conditions, err := parseRunFilter("query.", in.Q, requestOf(ctx).who)
	if err != nil {
		return nil, err
	}
	source, err := h.runsFrom(ctx, conditions)
	if err != nil {
		return nil, err
	}
	w, err := h.createdWindow(ctx, f)
	if err != nil {
		return nil, err
	}
	l := list[*mailroom.Run, api.Run]{
		name: "runs", named: !source.scoped, show: request.ShowRuns,
		key:     func(r *mailroom.Run) int64 { return r.Key },
		thread:  func(r *mailroom.Run) string { return r.Thread },
		created: func(r *mailroom.Run) time.Time { return r.CreatedAt },
		window:  w,
		fetch: func(rd store.Reader, in scope, from int64, limit int) ([]*mailroom.Run, error) {
			return source.read(rd, in, from, false, limit)
		},
	}
	if !f.Empty() {
		l.match = func(_ store.Reader, r *mailroom.Run, of *mailroom.Thread) (bool, error) {
			return f.Match(filterRow(r, of)), nil
		}
	}
	return l.page(ctx, h.pages, in.ListParams)
}

// filterRow returns the values of a run of a thread for a filter.
func filterRow(r *mailroom.Run, of *mailroom.Thread) request.FilterRow {
	text := func(key string) string {
		switch key {
		case "id":
			return r.ID
		case "status":
			return string(r.Status)
		case "agent":
			return r.Agent
		case "owner":
			return of.Owner
		case "group":
			return r.ErrorGroup
		case "thread":
			return r.Thread
		case "parent":
			return r.Parent
		case "reason":
			return string(r.Reason)
		case "key":
			return r.SubmitKey
		case "mode":
			return string(r.Mode)
		case "via":
			return r.Origin.Via
		case "delivery":
			if thread.IsDelivery(r) || alert.IsAgent(r.Agent) {
				return deliveryYes
			}
			return deliveryNo
		case "class", "error":
			failure := cmp.Or(r.Error, r.LastError)
			if failure == nil {
				return ""
			}
			if key == "class" {
				return string(failure.Class)
			}
			return failure.Message
		}
		label, _ := strings.CutPrefix(key, "metadata.")
		return r.Metadata[label]
	}
	at := func(key string) time.Time {
		if key == "created" {
			return r.CreatedAt
		}
		return r.FinishedAt
	}
	return request.FilterRow{Text: text, Time: at}
}

type getRunInput struct{ RunPath }

func (h *runHandlers) getRun(ctx context.Context, in *getRunInput) (*body[api.Run], error) {
	run, _, err := h.find.ShownRun(ctx, in.Run)
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
	run, thread, err := h.find.ShownRun(ctx, in.Run)
	if err != nil || run.Settled() || timeout == 0 {
		return &body[api.Run]{run}, err
	}
	following, cancel := h.life.authorizedContext(ctx)
	defer cancel()
	following, expire := context.WithTimeout(following, timeout)
	defer expire()
	err = h.streams.Follow(following, stream.Query{
		Thread: run.Thread, Key: thread.Key, Run: run.ID, After: stream.Cursor{Seq: thread.LastSeq}, Until: stream.UntilWaiting,
	}, func(stream.Event) error { return nil })
	if err != nil && (ctx.Err() != nil || following.Err() == nil) {
		return nil, err
	}
	if grant := requestOf(ctx).grant.ctx; grant.Err() != nil {
		return nil, context.Cause(grant)
	}
	run, _, err = h.find.ShownRun(ctx, in.Run)
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
// of the thread with this id. The queue of the thread is none of it.
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
		return "", mailroom.Errorf(mailroom.CodeConflict, "thread %q has no run that has started: name the run, or interrupt the thread to drop its queue", t.ID)
	}
	return t.Current, nil
}

// showResult shows a run as an operation left it. A later change must not contradict the response's
// status.
func (h *runHandlers) showResult(ctx context.Context, row *mailroom.Run) (api.Run, error) {
	var shown []api.Run
	err := h.find.View(ctx, func(rd store.Reader) (err error) {
		shown, err = request.ShowRuns(rd, []*mailroom.Run{row})
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
