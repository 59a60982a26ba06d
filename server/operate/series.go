package operate

import (
	"context"
	"fmt"
	"math"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// maxPoints bounds the periods of a series.
const maxPoints = 1500

type seriesInput struct {
	Step  string    `query:"step" enum:"minute,hour,day" default:"minute" doc:"Length of the periods. Minutes are kept for 3 days, hours for 100 days."`
	From  time.Time `query:"from" doc:"Default: a day of minutes, 30 days of hours, or a year of days before to."`
	To    time.Time `query:"to" doc:"Default: now. At most 1,500 periods after from."`
	Agent string    `query:"agent" maxLength:"200" doc:"Only runs of this agent."`
}

// Series sums up the ended runs of all owners by time.
func (h *StatsHandlers) Series(ctx context.Context, in *seriesInput) (*body[api.Series], error) {
	now := time.Now().UTC()
	q, err := in.query(now)
	if err != nil {
		return nil, err
	}
	out := api.Series{Step: in.Step, From: q.From, To: q.To, Items: []api.SeriesPoint{}, DelayBoundsMS: delayBounds()}
	err = h.find.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Count(store.CountQuery{Summaries: &q})
		var ends []store.Summary // ends of one period; the rows are in the order of time
		for i, s := range rows.Summaries {
			if ends = append(ends, s); i == len(rows.Summaries)-1 || !rows.Summaries[i+1].Key.At.Equal(s.Key.At) {
				out.Items = append(out.Items, seriesPoint(s.Key.At, ends))
				ends = ends[:0]
			}
		}
		return err
	})
	return &body[api.Series]{out}, err
}

// query returns the query of a series, whose bounds are whole periods.
func (in *seriesInput) query(now time.Time) (store.SummaryQuery, error) {
	q, err := periods(in.Step, in.From, in.To, now, maxPoints)
	q.Agent = &in.Agent
	return q, err
}

// periods returns the query of the periods from a time to another, at most most. Without a from they are a day of
// minutes, 30 days of hours or a year of days, or as many as are allowed.
func periods(step string, from, to, now time.Time, most int) (q store.SummaryQuery, err error) {
	var length time.Duration // if from is not given
	switch step {
	case "minute":
		q.Step, length = store.StepMinute, store.StepDay
	case "hour":
		q.Step, length = store.StepHour, 30*store.StepDay
	default:
		q.Step, length = store.StepDay, 366*store.StepDay
	}
	q.From, q.To = from.UTC(), to.UTC()
	if to.IsZero() {
		q.To = now
	}
	if from.IsZero() {
		q.From = q.To.Add(-min(length, time.Duration(most-1)*q.Step))
	}
	before := q.From.Before(q.To)
	q.From, q.To = q.From.Truncate(q.Step), q.To.Add(q.Step-1).Truncate(q.Step)
	if q.From.Year() < 1970 || q.To.Year() > 9999 || !before {
		return q, badFrom(q.From, "is not before to, is before 1970, or to is after 9999")
	}
	if n := q.To.Sub(q.From) / q.Step; n > time.Duration(most) {
		return q, badFrom(q.From, fmt.Sprintf("is %d periods before to, at most %d; use a longer step", n, most))
	}
	if keep := store.KeepSummaries(q.Step); keep < math.MaxInt64 {
		if first := now.Add(-keep).Truncate(q.Step); q.From.Before(first) {
			q.From = first
		}
	}
	if q.To.Before(q.From) {
		q.To = q.From
	}
	return q, nil
}

func badFrom(from time.Time, what string) error {
	return request.Invalid("query.from", what, from.Format(time.RFC3339))
}

func delayBounds() (ms []int64) {
	for _, bound := range store.DelayBounds() {
		ms = append(ms, bound.Milliseconds())
	}
	return ms
}

// seriesPoint sums up the rows of one period, which has at most one row of a status.
func seriesPoint(at time.Time, ends []store.Summary) api.SeriesPoint {
	p := api.SeriesPoint{At: at}
	var sums store.Sums
	for _, s := range ends {
		sums = sums.Plus(s.Sums)
		switch s.Key.Status {
		case mailroom.StatusCompleted:
			p.Completed = s.Sums.Runs
		case mailroom.StatusFailed:
			p.Failed = s.Sums.Runs
		case mailroom.StatusCancelled:
			p.Cancelled = s.Sums.Runs
		}
	}
	for _, n := range sums.Delays {
		p.Started += n
	}
	p.StartDelayMS, p.RanMS, p.StartDelays = sums.Delay/1000, sums.Ran/1000, sums.Delays[:]
	p.InputTokens, p.OutputTokens, p.CostUSD = sums.InputTokens, sums.OutputTokens, float64(sums.Cost)/1e9
	return p
}
