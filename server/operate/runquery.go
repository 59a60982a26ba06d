package operate

import (
	"context"
	"math"
	"slices"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/check"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// parseRunFilter parses a filter of runs. conditions has those that an index of a store answers, and the owner if the
// token who sees the threads of one owner only; see narrowest.
func parseRunFilter(at, text string, who *auth.Token) (f request.Filter, conditions store.RunQuery, err error) {
	if !check.IsClean(text) { // text from a body may have escapes
		return f, conditions, request.Invalid(at+"q", "has a NUL", nil)
	}
	if f, err = request.ParseFilter(text, runKeys()); err != nil {
		return f, conditions, request.Locate(at, err)
	}
	conditions.Parent, _ = f.Exact("parent")
	conditions.Thread, _ = f.Exact("thread")
	conditions.Group, _ = f.Exact("group")
	conditions.Agent, _ = f.Exact("agent")
	if conditions.Owner = request.OwnerOfAll(who); conditions.Owner == "" {
		conditions.Owner, _ = f.Exact("owner")
	}
	conditions.Statuses = statusesOf(f)
	switch {
	case slices.Contains(conditions.Statuses, mailroom.StatusCompleted): // most runs are completed: no index has them
		conditions.Statuses = nil
	// The error of a dead letter, or of a run that waits for a retry.
	case conditions.Statuses == nil && (f.Requires("error") || f.Requires("class")):
		conditions.Statuses = []mailroom.Status{mailroom.StatusFailed, mailroom.StatusQueued}
	}
	return f, conditions, nil
}

// statusesOf returns the statuses that a filter allows, nil if it allows all.
func statusesOf(f request.Filter) (statuses []mailroom.Status) {
	for _, status := range f.OneOf("status") {
		statuses = append(statuses, mailroom.Status(status))
	}
	return statuses
}

// narrowest returns the query for the one condition that selects the fewest rows, by the store's counts.
func narrowest(ctx context.Context, find request.Lookup, conditions store.RunQuery) (store.RunQuery, error) {
	switch {
	case conditions.Parent != "":
		return store.RunQuery{Parent: conditions.Parent}, nil
	case conditions.Thread != "":
		return store.RunQuery{Thread: conditions.Thread}, nil
	case conditions.Group != "":
		return store.RunQuery{Group: conditions.Group}, nil
	}
	var each []store.RunQuery
	if len(conditions.Statuses) > 0 {
		each = append(each, store.RunQuery{Statuses: conditions.Statuses})
	}
	if conditions.Owner != "" {
		each = append(each, store.RunQuery{Owner: conditions.Owner})
	}
	if conditions.Agent != "" {
		each = append(each, store.RunQuery{Agent: conditions.Agent})
	}
	switch len(each) {
	case 0:
		return store.RunQuery{}, nil
	case 1:
		return each[0], nil
	}
	best, fewest := 0, math.MaxInt
	err := find.View(ctx, func(rd store.Reader) error {
		for i, q := range each {
			of := store.CountQuery{Statuses: q.Statuses, Agent: q.Agent}
			if q.Owner != "" {
				of.Owner = &q.Owner
			}
			counts, err := rd.Count(of)
			if err != nil {
				return err
			}
			if n := counts.Sum(); n < fewest {
				best, fewest = i, n
			}
		}
		return nil
	})
	return each[best], err
}
