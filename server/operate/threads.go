package operate

import (
	"context"
	"slices"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/server/internal/request"
	"mailroom/store"
)

func threadKeys() []request.FilterKey {
	return []request.FilterKey{
		{Name: "id"}, {Name: "agent"}, {Name: "owner"}, {Name: "updated", Kind: request.KindTime},
		{Name: "status", Values: []string{api.ThreadIdle, api.ThreadQueued, api.ThreadRunning, api.ThreadWaiting}},
	}
}

type listThreadsInput struct{ ListParams }

func (h *ListHandlers) Threads(ctx context.Context, in *listThreadsInput) (*body[api.Page[api.Thread]], error) {
	f, err := request.ParseFilter(in.Q, threadKeys())
	if err != nil {
		return nil, request.Locate("query.", err)
	}
	id, byID := f.Exact("id")
	l := list[*mailroom.Thread, api.Thread]{
		name: "threads", named: byID, show: request.ListThreads,
		key:     func(t *mailroom.Thread) int64 { return t.Key },
		thread:  func(t *mailroom.Thread) string { return t.ID },
		created: func(t *mailroom.Thread) time.Time { return t.CreatedAt },
		fetch: func(rd store.Reader, in scope, from int64, limit int) ([]*mailroom.Thread, error) {
			switch {
			case byID:
				return threadBelow(rd, id, from)
			case !in.all:
				return in.threadsWithin(rd, from, limit)
			}
			q := threadsFound(f)
			q.From, q.Limit, q.Bytes = from, limit, scanBytes
			return rd.Threads(q)
		},
	}
	if request.CallerOf(ctx).SeesAll() && !byID {
		l.ids = rangeOf(f, func(t *mailroom.Thread) string { return t.ID }, threadsUnder)
	}
	if !f.Empty() {
		l.match = func(rd store.Reader, t, _ *mailroom.Thread) (bool, error) { return matchThread(rd, f, t) }
	}
	return l.page(ctx, h.pages, in.ListParams)
}

// threadsFound returns the query for the condition of a filter that an index of the store answers.
func threadsFound(f request.Filter) store.ThreadQuery {
	if owner, _ := f.Exact("owner"); owner != "" {
		return store.ThreadQuery{Owner: owner}
	}
	agent, _ := f.Exact("agent")
	return store.ThreadQuery{Agent: agent}
}

// threadBelow fetches the one thread that the filter id:ID selects, unless it is at or above the
// key from.
func threadBelow(rd store.Reader, id string, from int64) ([]*mailroom.Thread, error) {
	rows, err := rd.Threads(store.ThreadQuery{IDs: []string{id}})
	return slices.DeleteFunc(rows, func(t *mailroom.Thread) bool { return from != 0 && t.Key >= from }), err
}

func matchThread(rd store.Reader, f request.Filter, t *mailroom.Thread) (bool, error) {
	var failed error
	text := func(key string) string {
		switch key {
		case "id":
			return t.ID
		case "agent":
			return t.Agent
		case "owner":
			return t.Owner
		}
		queued, err := 0, error(nil)
		if t.Current == "" {
			queued, err = request.CountQueued(rd, t.ID)
		}
		if err != nil {
			failed = err
			return ""
		}
		status, err := request.ThreadStatus(rd, t, queued)
		if err != nil {
			failed = err
		}
		return status
	}
	updated := func(string) time.Time { return t.UpdatedAt }
	good := f.Match(request.FilterRow{Text: text, Time: updated})
	return good, failed
}
