package operate

import (
	"context"
	"strconv"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/entry"
	"mailroom/internal/reserved"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// maxScannedAudit bounds the actions that one request looks at for those that match.
const maxScannedAudit = 5000

// auditRead is how many actions are read at a time.
const auditRead = 500

func auditKeys() []request.FilterKey {
	return []request.FilterKey{
		{Name: "actor"}, {Name: "action"}, {Name: "object"}, {Name: "kind"}, {Name: "thread"}, {Name: "from"},
		{Name: "at", Kind: request.KindTime},
	}
}

type listAuditInput struct{ ListParams }

// AuditHandlers serve the audit log.
type AuditHandlers struct {
	find    request.Lookup
	maxPage int // bytes
}

// List returns a page of the audit log, the newest action first. A request looks at a bounded number of entries, and
// finds those of a time by bisection, so no cost grows with the log.
func (h *AuditHandlers) List(ctx context.Context, in *listAuditInput) (*body[api.Page[api.AuditedAction]], error) {
	f, err := request.ParseFilter(in.Q, auditKeys())
	if err != nil {
		return nil, request.Locate("query.", err)
	}
	before := int64(0)
	if in.Cursor != "" {
		if before, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || before <= 0 {
			return nil, request.Invalid("query.cursor", "is not a cursor of this list: use next of its previous page", in.Cursor)
		}
	}
	out := api.Page[api.AuditedAction]{Items: []api.AuditedAction{}}
	err = h.find.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Threads(store.ThreadQuery{IDs: []string{reserved.AuditLog}})
		if err != nil || len(rows) == 0 || !rows[0].DeletedAt.IsZero() {
			return err
		}
		out, err = h.page(rd, rows[0], auditPage{filter: f, limit: in.Limit, before: before})
		return err
	})
	return &body[api.Page[api.AuditedAction]]{out}, err
}

// auditPage is what a page shows: at most limit actions that match, below the seq before; 0: of the newest.
type auditPage struct {
	filter request.Filter
	limit  int
	before int64
}

func (h *AuditHandlers) page(rd store.Reader, t *mailroom.Thread, in auditPage) (out api.Page[api.AuditedAction],
	err error) {
	low, high := t.FirstSeq, t.LastSeq+1
	from, to := in.filter.Span("at")
	if !from.IsZero() {
		if low, err = seqAt(rd, t, from); err != nil {
			return out, err
		}
	}
	if !to.IsZero() {
		if high, err = seqAt(rd, t, to); err != nil {
			return out, err
		}
	}
	if in.before > 0 {
		high = min(high, in.before)
	}
	out.Items = []api.AuditedAction{}
	lowest := max(low, high-maxScannedAudit)
	for high > lowest {
		found, err := rd.Entries(store.EntryQuery{Thread: t.ID, After: lowest - 1, Before: high, Backward: true,
			Limit: auditRead, Bytes: h.maxPage})
		if err != nil || len(found) == 0 {
			return out, err
		}
		for i := range found {
			a, ok := showAction(&found[i])
			if ok = ok && in.wants(&a); ok && len(out.Items) == in.limit { // one more than fits: there is a next page
				setAuditNext(&out, high)
				return out, nil
			}
			if high = found[i].Seq; ok {
				out.Items = append(out.Items, a)
			}
		}
	}
	if lowest > low {
		setAuditNext(&out, high)
	}
	return out, nil
}

// setAuditNext makes the next page begin below a seq.
func setAuditNext(out *api.Page[api.AuditedAction], seq int64) {
	next := strconv.FormatInt(seq, 10)
	out.Next = &next
}

// seqAt returns the seq of the first entry of a log that was written at a time or later, or that behind the last one.
// It searches by bisection: the times of a log grow as far as the clock does.
func seqAt(rd store.Reader, t *mailroom.Thread, at time.Time) (int64, error) {
	low, high := t.FirstSeq, t.LastSeq+1
	for low < high {
		middle := low + (high-low)/2
		found, err := rd.Entries(store.EntryQuery{Thread: t.ID, After: middle - 1, Limit: 1})
		if err != nil {
			return 0, err
		}
		if len(found) == 0 || !found[0].At.Before(at) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, nil
}

// showAction decodes an entry of the audit log. ok is false for another entry, which a token may have
// written at an older version.
func showAction(e *mailroom.Entry) (out api.AuditedAction, ok bool) {
	var a entry.Audit
	if e.Kind != entry.KindAudit || e.Decode(&a) != nil {
		return out, false
	}
	out = api.AuditedAction{Seq: e.Seq, At: e.At, Action: a.Action, Actor: a.Actor, ActorKind: a.ActorKind, Token: a.Token,
		From: a.From, ObjectKind: a.ObjectKind, Object: a.Object, Thread: a.Thread, Detail: a.Detail}
	if out.Detail == nil {
		out.Detail = map[string]string{}
	}
	return out, true
}

func (in *auditPage) wants(a *api.AuditedAction) bool {
	text := func(key string) string {
		switch key {
		case "actor":
			return a.Actor
		case "action":
			return a.Action
		case "object":
			return a.Object
		case "kind":
			return a.ObjectKind
		case "thread":
			return a.Thread
		}
		return a.From
	}
	return in.filter.Match(request.FilterRow{Text: text, Time: func(string) time.Time { return a.At }})
}
