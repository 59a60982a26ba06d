package operate

import (
	"context"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// reportPeriod is the period of a report that says no begin: a night.
const reportPeriod = 12 * time.Hour

type reportInput struct {
	Since time.Time `query:"since" doc:"Begin of the period. Default: 12 hours before until."`
	Until time.Time `query:"until" doc:"End of the period, exclusive. Default: now. At most 31 days after since."`
	Agent string    `query:"agent" maxLength:"200" doc:"Only what this agent did."`
}

// Report reports what agents did in a period. It reads the rows that the lists would show to the caller, of its
// own threads and the first threads of its namespace.
func (h *ListHandlers) Report(ctx context.Context, in *reportInput) (*body[api.Report], error) {
	now := time.Now().UTC()
	q := alert.ReportQuery{Since: in.Since, Until: in.Until, Agent: in.Agent}
	if q.Until.IsZero() {
		q.Until = now
	}
	if q.Since.IsZero() {
		q.Since = q.Until.Add(-reportPeriod)
	}
	switch {
	case q.Since.UTC().Year() < 1 || q.Until.UTC().Year() > 9999: // JSON has no others: a zone or 12 hours may lead there
		return nil, request.Invalid("query.since", "since and until must be in the years 1 to 9999",
			q.Since.Format(time.RFC3339))
	case !q.Since.Before(q.Until):
		return nil, request.Invalid("query.since", "must be before until", in.Since.Format(time.RFC3339))
	case q.Until.Sub(q.Since) > alert.MaxReport:
		return nil, request.Invalid("query.since", "must be at most 31 days before until", in.Since.Format(time.RFC3339))
	}
	who := request.CallerOf(ctx)
	var out *api.Report
	err := h.find.View(ctx, func(rd store.Reader) error {
		in, err := scopeOf(rd, who, "", groupThreads)
		if err != nil {
			return err
		}
		q.All, q.Owner, q.Threads, q.Partial = in.all, in.owner, in.keys(), in.next != ""
		q.See = func(t *mailroom.Thread) bool { return who.CanSee(t) }
		if q.Until.Before(now) && (in.all || who.Namespace == "") {
			owner := request.OwnerOfAll(who)
			w, err := readWindow(rd, owner, time.Time{}, q.Until)
			if err != nil {
				return err
			}
			q.Before = w.high
			if _, q.BeforeTicket, err = keysAround(ticketAt(rd, owner), q.Until.Add(createdSlack)); err != nil {
				return err
			}
		}
		out, err = alert.ReadReport(rd, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &body[api.Report]{*out}, nil
}
