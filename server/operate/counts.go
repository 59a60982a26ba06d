package operate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/store"
)

const (
	// maxFailures is how many of the newest failed runs a list of error groups sums up.
	maxFailures = 10_000
	// maxNamedAgents bounds the agents that an error group names.
	maxNamedAgents = 20
)

type countRunsInput struct {
	Q      string `query:"q" doc:"A filter as in the list of runs."`
	Cursor string `query:"cursor" maxLength:"1000" doc:"The next of the previous answer."`
}

// CountRuns counts the runs that a filter matches. The store's sums answer a filter of status, agent
// and owner; for others it reads a bounded number of runs, the newest first.
func (h *ListHandlers) CountRuns(ctx context.Context, in *countRunsInput) (*body[api.RunCount], error) {
	who := request.CallerOf(ctx)
	f, conditions, err := parseRunFilter("query.", in.Q, who)
	if err != nil {
		return nil, err
	}
	cursors := list[*mailroom.Run, api.Run]{name: "count"}
	from, err := cursors.parseCursor(h.pages, who, in.Cursor)
	if err != nil {
		return nil, request.Invalid("query.cursor", "is not a cursor of a count: use next of its previous answer", in.Cursor)
	}
	var out api.RunCount
	if q, ok := summedUp(f, who); ok && from == (place{}) {
		out.Count, err = h.sumRuns(ctx, q)
		return &body[api.RunCount]{out}, err
	}
	scan, err := h.newRunScan(ctx, f, conditions, false)
	if err != nil {
		return nil, err
	}
	done, err := scan.read(ctx, h.find, from, maxScannedRows, func(*mailroom.Run) { out.Count++ })
	if err == nil && !done.end {
		c := cursors.cursor(h.pages, who, done.last)
		out.Next, out.LookedTo = &c, done.lookedTo
	}
	return &body[api.RunCount]{out}, err
}

// summedUp returns the query with which the store's counts answer the filter f for the token who. ok is false if they
// cannot: they answer only filters of statuses, agents and owners by name.
func summedUp(f request.Filter, who *auth.Token) (q store.CountQuery, ok bool) {
	if !f.Only("status", "agent", "owner") || !who.SeesAll() && who.Namespace != "" {
		return q, false
	}
	if len(f.OneOf("agent")) > 1 || len(f.OneOf("owner")) > 1 { // the sums are of one agent or owner, or of all
		return q, false
	}
	q.Agent, _ = f.Exact("agent")
	q.Statuses = statusesOf(f)
	owner, named := f.Exact("owner")
	switch all := request.OwnerOfAll(who); {
	case named && all != "" && owner != all: // sees none of them
		return q, false
	case named:
		q.Owner = &owner
	case all != "":
		q.Owner = &all
	}
	return q, true
}

// sumRuns returns a sum of the store, without the runs whose threads have no owner, which no token sees.
func (h *ListHandlers) sumRuns(ctx context.Context, q store.CountQuery) (n int, err error) {
	err = h.find.View(ctx, func(rd store.Reader) error {
		counts, err := rd.Count(q)
		if n = counts.Sum(); err != nil || q.Owner != nil {
			return err
		}
		q.Owner = new(string)
		hidden, err := rd.Count(q)
		n -= hidden.Sum()
		return err
	})
	return n, err
}

type listFailuresInput struct {
	Q     string `query:"q" doc:"A filter as in the list of runs."`
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Groups at most, those with the latest failures."`
}

// Failures sums up failed runs by error group. It has the newest 10,000 of all runs, of an owner or of
// an agent; with another filter, or for a token that sees the threads of several owners, those among a
// bounded number of runs.
func (h *ListHandlers) Failures(ctx context.Context, in *listFailuresInput) (*body[api.Failures], error) {
	who := request.CallerOf(ctx)
	f, conditions, err := parseRunFilter("query.", in.Q, who)
	if err != nil {
		return nil, err
	}
	groups := failureGroups{}
	var out api.Failures
	switch q, ok := summedUp(f, who); {
	case ok && len(q.Statuses) > 0 && !slices.Contains(q.Statuses, mailroom.StatusFailed): // no failed runs
	case ok && (q.Agent == "" || q.Owner == nil):
		out.LookedTo, err = h.sumFailures(ctx, q, groups)
	default:
		out.LookedTo, err = h.scanFailures(ctx, f, conditions, groups)
	}
	if err == nil {
		out.Items, err = h.showFailures(ctx, groups.newest(in.Limit))
	}
	return &body[api.Failures]{out}, err
}

// failureGroups are sums of failed runs by error group.
type failureGroups map[string]*failureGroup

type failureGroup struct {
	api.FailureGroup
	key int64 // key of the run that the group shows
}

func (g failureGroups) add(c store.FailureCount) {
	of := g[c.Group]
	if of == nil {
		of = &failureGroup{FailureGroup: api.FailureGroup{
			Group: c.Group, FirstAt: c.First, LastAt: c.Last, Agents: []string{},
		}}
		g[c.Group] = of
	}
	of.Runs += c.Runs
	if c.First.Before(of.FirstAt) {
		of.FirstAt = c.First
	}
	if c.Last.After(of.LastAt) {
		of.LastAt = c.Last
	}
	if c.Key > of.key {
		of.key, of.Run = c.Key, c.Newest
	}
	if at, found := slices.BinarySearch(of.Agents, c.Agent); !found && len(of.Agents) < maxNamedAgents {
		of.Agents = slices.Insert(of.Agents, at, c.Agent)
	}
}

// newest returns the groups with the latest ends, the latest first.
func (g failureGroups) newest(limit int) []api.FailureGroup {
	list := make([]api.FailureGroup, 0, len(g))
	for _, of := range g {
		list = append(list, of.FailureGroup)
	}
	slices.SortFunc(list, func(a, b api.FailureGroup) int {
		return cmp.Or(b.LastAt.Compare(a.LastAt), cmp.Compare(a.Group, b.Group))
	})
	return list[:min(len(list), limit)]
}

// sumFailures adds the store's sums of the failures of an agent, of an owner or of all. lookedTo is set if
// there may be older failures.
func (h *ListHandlers) sumFailures(
	ctx context.Context, of store.CountQuery, groups failureGroups,
) (lookedTo *time.Time, err error) {
	q := store.CountQuery{Failures: true, Most: maxFailures, Agent: of.Agent, Owner: of.Owner}
	err = h.find.View(ctx, func(rd store.Reader) error {
		counts, err := rd.Count(q)
		runs := 0
		var first time.Time
		for _, c := range counts.Failures {
			groups.add(c)
			runs += c.Runs
			if first.IsZero() || c.First.Before(first) {
				first = c.First
			}
		}
		if runs >= maxFailures {
			lookedTo = &first
		}
		return err
	})
	return lookedTo, err
}

// scanFailures adds the failed runs that a filter matches, among a bounded number of runs.
func (h *ListHandlers) scanFailures(
	ctx context.Context, f request.Filter, conditions store.RunQuery, groups failureGroups,
) (lookedTo *time.Time, err error) {
	if len(conditions.Statuses) == 0 {
		conditions.Statuses = []mailroom.Status{mailroom.StatusFailed}
	}
	scan, err := h.newRunScan(ctx, f, conditions, false)
	if err != nil {
		return nil, err
	}
	done, err := scan.read(ctx, h.find, place{}, maxScannedRows, func(r *mailroom.Run) {
		if r.Status == mailroom.StatusFailed && r.ErrorGroup != "" {
			groups.add(store.FailureCount{
				Group: r.ErrorGroup, Agent: r.Agent, Runs: 1, First: r.FinishedAt, Last: r.FinishedAt, Newest: r.ID, Key: r.Key,
			})
		}
	})
	if done.end {
		return nil, err
	}
	return done.lookedTo, err
}

// showFailures adds the errors of the runs that the groups name. A group whose runs are gone since, or
// are not visible, keeps no error.
func (h *ListHandlers) showFailures(ctx context.Context, list []api.FailureGroup) ([]api.FailureGroup, error) {
	if len(list) == 0 {
		return list, nil
	}
	var ids []string
	for _, g := range list {
		ids = append(ids, g.Run)
	}
	who := request.CallerOf(ctx)
	errs := map[string]mailroom.RunError{}
	err := h.find.View(ctx, func(rd store.Reader) error {
		runs, err := rd.Runs(store.RunQuery{IDs: ids})
		if err != nil {
			return err
		}
		var threads []string
		for _, r := range runs {
			threads = append(threads, r.Thread)
		}
		visible, err := request.VisibleThreads(rd, who, threads)
		for _, r := range runs {
			if visible[r.Thread] != nil && r.Error != nil {
				errs[r.ID] = *r.Error
			}
		}
		return err
	})
	for i := range list {
		of := errs[list[i].Run]
		list[i].Message, list[i].Class = of.Message, string(of.Class)
	}
	return list, err
}
