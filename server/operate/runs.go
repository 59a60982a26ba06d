package operate

import (
	"cmp"
	"context"
	"strings"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

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

func (h *ListHandlers) Runs(ctx context.Context, in *listRunsInput) (*body[api.Page[api.Run]], error) {
	f, conditions, err := parseRunFilter("query.", in.Q, request.CallerOf(ctx))
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
		name: "runs", named: !source.scoped,
		show: func(rd store.Reader, rows []*mailroom.Run) ([]api.Run, error) {
			return request.ListRuns(rd, request.CallerOf(ctx), rows)
		},
		key:     func(r *mailroom.Run) int64 { return r.Key },
		thread:  func(r *mailroom.Run) string { return r.Thread },
		created: func(r *mailroom.Run) time.Time { return r.CreatedAt },
		window:  w,
		fetch: func(rd store.Reader, in scope, from int64, limit int) ([]*mailroom.Run, error) {
			return source.read(rd, in, from, false, limit)
		},
	}
	if request.CallerOf(ctx).SeesAll() {
		l.ids = rangeOf(f, func(r *mailroom.Run) string { return r.ID }, runsUnder)
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
			if thread.IsDelivery(r.View()) || alert.IsAgent(r.Agent) {
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
