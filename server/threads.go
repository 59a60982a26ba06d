package server

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
	"mailroom/server/internal/request"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/thread"
)

// threadHandlers serve threads and their logs.
type threadHandlers struct {
	ledger  operate.Threads
	find    request.Lookup
	maxPage int // bytes
	agents  *agentHandlers
	alerts  *operate.Alerts // nil: the server sends no alerts
}

type getThreadInput struct{ ThreadPath }

func (h *threadHandlers) getThread(ctx context.Context, in *getThreadInput) (*body[api.Thread], error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	return h.readThread(ctx, id)
}

func (h *threadHandlers) readThread(ctx context.Context, id string) (*body[api.Thread], error) {
	var out body[api.Thread]
	err := h.find.View(ctx, func(rd store.Reader) error {
		t, err := request.FindThread(rd, requestOf(ctx).who, id)
		if err == nil {
			out.Body, err = request.ShowThread(rd, t)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

type patchThreadInput struct {
	ThreadPath
	Body api.ThreadPatch
}

func (h *threadHandlers) patchThread(ctx context.Context, in *patchThreadInput) (*body[api.Thread], error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	if a := in.Body.Agent; a != nil {
		if err := h.agents.checkAgent(ctx, *a); err != nil {
			return nil, err
		}
	}
	if m := in.Body.Metadata; m != nil && m[0] != '{' {
		return nil, request.Invalid("body.metadata", "must be a JSON object", string(m))
	}
	p := thread.Patch{By: requestOf(ctx).who, Agent: in.Body.Agent, Metadata: in.Body.Metadata,
		DropSession: in.Body.DropSession}
	if p.Budgets, err = thread.ReadBudgets(in.Body.Budget.Texts()); err != nil {
		return nil, request.Locate("body.", err)
	}
	if to := in.Body.DeliverTo; to != nil {
		place, err := h.alerts.DeliverTo(ctx, h.find, strings.TrimSpace(*to))
		if err != nil {
			return nil, request.Locate("body.", err)
		}
		p.DeliverTo = &place
	}
	if _, err := h.ledger.PatchThread(ctx, id, p); err != nil {
		return nil, request.Locate("body.", err)
	}
	return h.readThread(ctx, id)
}

type deleteThreadInput struct{ ThreadPath }

func (h *threadHandlers) deleteThread(ctx context.Context, in *deleteThreadInput) (*empty, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	return nil, h.ledger.DeleteThread(ctx, id, requestOf(ctx).who)
}

type interruptInput struct {
	ThreadPath
	EmptyBody
}

func (h *threadHandlers) interrupt(ctx context.Context, in *interruptInput) (*body[api.Interrupted], error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	out, err := h.ledger.Interrupt(ctx, id, requestOf(ctx).who)
	if err != nil {
		return nil, err
	}
	if out.Superseded == nil {
		out.Superseded = []string{}
	}
	return &body[api.Interrupted]{api.Interrupted(out)}, nil
}

type listEntriesInput struct {
	ThreadPath
	After  int64    `query:"after" minimum:"0" doc:"Only entries with a greater seq."`
	Before int64    `query:"before" minimum:"0" doc:"Only entries with a smaller seq. Without after: the last ones before it."`
	Limit  int      `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"Entries of the page at most."`
	Kind   []string `query:"kind,explode" doc:"Only these kinds; may be repeated."`
	Run    string   `query:"run" doc:"Only entries of this run."`
}

// listEntries reads forward from after, or backward from before if only before is given. Both
// return entries in order of seq.
func (h *threadHandlers) listEntries(
	ctx context.Context, in *listEntriesInput,
) (*body[api.Page[mailroom.Entry]], error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	q := store.EntryQuery{
		Thread: id, After: in.After, Before: in.Before, Kinds: request.SplitKinds(in.Kind), Run: in.Run,
		Backward: in.Before > 0 && in.After == 0, Limit: in.Limit + 1, Bytes: h.maxPage,
	}
	out := api.Page[mailroom.Entry]{}
	err = h.find.View(ctx, func(rd store.Reader) error {
		t, err := request.FindThread(rd, requestOf(ctx).who, id)
		if err == nil {
			out, err = entriesPage(rd, t, q)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if q.Backward {
		slices.Reverse(out.Items)
	}
	if out.Items == nil {
		out.Items = []mailroom.Entry{}
	}
	return &body[api.Page[mailroom.Entry]]{out}, nil
}

// maxScannedEntries bounds the log entries that one request scans for those that match. A page that
// ends at the bound is short and has a next.
const maxScannedEntries = 50_000

// entriesPage reads one page of q, with at most q.Limit-1 entries.
func entriesPage(rd store.Reader, t *mailroom.Thread, q store.EntryQuery) (out api.Page[mailroom.Entry], err error) {
	end := int64(0) // last seq scanned, if the scan stops before the requested range ends
	switch low, high := max(q.After+1, t.FirstSeq), t.LastSeq; {
	case q.Backward && min(q.Before-1, high)-low >= maxScannedEntries:
		q.After = min(q.Before-1, high) - maxScannedEntries
		end = q.After + 1
	case !q.Backward && (q.Before == 0 || q.Before-low > maxScannedEntries) && high-low >= maxScannedEntries:
		q.Before = low + maxScannedEntries
		end = q.Before - 1
	}
	found, err := rd.Entries(q)
	if err != nil {
		return out, err
	}
	var more bool
	out.Items, more = entry.First(found, q.Bytes)
	if len(out.Items) == q.Limit {
		out.Items, more = out.Items[:q.Limit-1], true
	}
	if more {
		end = out.Items[len(out.Items)-1].Seq
	}
	if end != 0 {
		next := strconv.FormatInt(end, 10)
		out.Next = &next
	}
	return out, nil
}
