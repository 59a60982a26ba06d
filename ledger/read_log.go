package ledger

import (
	"cmp"
	"context"
	"slices"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// LogOf returns the last entries of the thread of run that q selects, in the order of the log: messages, and entries
// that runs of the same agent wrote. The results of other agents' tools stay theirs: a worker serves the agents of its
// token, and a thread may change its agent.
//
// A page has at most mailroom.MaxPage bytes, and LogOf reads a bounded number of entries for it. If entries before the
// page may be missing, next is the Before of the query for them, else 0.
func (ws Workers) LogOf(ctx context.Context, run *mailroom.Run, q mailroom.LogQuery) (page []mailroom.Entry, next int64,
	err error) {
	err = ws.ledger.View(ctx, func(r store.Reader) (err error) {
		page, next, err = logBack(r, run, q)
		return err
	})
	slices.Reverse(page)
	return page, next, err
}

// logBack reads the page of LogOf, newest first.
func logBack(r store.Reader, run *mailroom.Run, q mailroom.LogQuery) (page []mailroom.Entry, next int64, err error) {
	limit := cmp.Or(q.Limit, 100)
	agents := map[string]string{run.ID: run.Agent} // agents by run
	bytes, before := 0, q.Before
	for looked := 0; looked < maxLooked; {
		found, err := r.Entries(store.EntryQuery{Thread: run.Thread, After: q.After, Before: before, Kinds: q.Kinds,
			Backward: true, Limit: 200, Bytes: mailroom.MaxPage})
		if err != nil || len(found) == 0 {
			return page, 0, err
		}
		if err := addAgents(r, agents, found); err != nil {
			return nil, 0, err
		}
		for _, e := range found {
			if before = e.Seq; !isOfAgent(e, agents, run.Agent) {
				continue
			}
			if bytes += len(e.Raw); len(page) == limit || bytes > mailroom.MaxPage && len(page) > 0 {
				return page, e.Seq + 1, nil
			}
			page = append(page, e)
		}
		looked += len(found)
	}
	return page, before, nil
}

// isOfAgent reports whether agent may read e: a message of the thread, or what one of the agent's runs wrote.
func isOfAgent(e mailroom.Entry, agents map[string]string, agent string) bool {
	switch e.Kind {
	case entry.KindMessage, entry.KindEdited, entry.KindRetracted, entry.KindMessageRead:
		return true
	}
	return e.Run != "" && agents[e.Run] == agent
}

// addAgents looks up the agents of the runs of entries. A run that was purged has none.
func addAgents(r store.Reader, agents map[string]string, entries []mailroom.Entry) error {
	var missing []string
	for _, e := range entries {
		if _, known := agents[e.Run]; !known && e.Run != "" {
			agents[e.Run] = ""
			missing = append(missing, e.Run)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	runs, err := r.Runs(store.RunQuery{IDs: missing})
	for _, found := range runs {
		agents[found.ID] = found.Agent
	}
	return err
}
