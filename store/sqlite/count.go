package sqlite

import (
	"math"
	"slices"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	tallied      = "SELECT coalesce(sum(n), 0) FROM tally WHERE what = ?"
	ofTallyOwner = " AND owner = ?"
	ofTallyAgent = " AND agent = ?"
	addToTally   = `INSERT INTO tally (what, owner, agent, n) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET n = n + excluded.n`
	dueAgentAfter = `SELECT due_agent, due_alone FROM thread
		WHERE due_at IS NOT NULL AND (due_agent, due_alone) > (?, ?) ORDER BY due_agent, due_alone LIMIT 1`
)

// tallyKey identifies a row of the table tally, which has counts. The field what is a status of runs, or TalliedThread
// for a count of threads, whose agent is "".
type tallyKey struct{ what, owner, agent string }

// tally changes a count by n. Write writes the sums of all changes at its end, so a batch of many
// runs costs few statements. Triggers count dropped rows.
//
// Triggers for each written row cost a fifth of the processor time of a run. Without them a
// transaction has to know what it changes: for this a run carries its stored status
// (mailroom.Run.Stored), and a thread never changes its owner.
func (t *tx) tally(what, owner, agent string, n int) {
	if t.tallies == nil {
		t.tallies = make(map[tallyKey]int)
	}
	t.tallies[tallyKey{what, owner, agent}] += n
}

func (t *tx) writeTally() error {
	for key, n := range t.tallies {
		if n == 0 {
			continue
		}
		err := t.store.newRows.tallies.add(t, textValue(key.what), textValue(key.owner), textValue(key.agent),
			intValue(int64(n)))
		if err != nil {
			return err
		}
	}
	clear(t.tallies)
	return t.store.newRows.tallies.end(t, nil)
}

func allStatuses() []mailroom.Status {
	return []mailroom.Status{
		mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting,
		mailroom.StatusCompleted, mailroom.StatusFailed, mailroom.StatusCancelled,
	}
}

func (r reader) Count(q store.CountQuery) (store.Counts, error) {
	switch {
	case q.Summaries != nil:
		return readSummaries(r, q.Summaries)
	case q.Meters != nil:
		return readMeters(r, q.Meters)
	case q.Failures:
		return countFailures(r, q)
	case q.ByAgent:
		return countAgents(r, q)
	case q.Thread != "":
		return r.countThread(q)
	}
	out := store.Counts{Runs: map[mailroom.Status]int{}}
	for _, status := range allStatuses() {
		if len(q.Statuses) > 0 && !slices.Contains(q.Statuses, status) {
			continue
		}
		n, err := r.sum(string(status), q)
		if err != nil {
			return store.Counts{}, err
		}
		if n != 0 {
			out.Runs[status] = n
		}
	}
	if q.Agent != "" || len(q.Statuses) > 0 {
		return out, nil
	}
	var err error
	if out.Threads, err = r.sum(sqlstore.TalliedThread, q); err != nil {
		return store.Counts{}, err
	}
	out.Due, err = r.earliestDue(q.Owner)
	return out, err
}

func countAgents(r reader, q store.CountQuery) (out store.Counts, err error) {
	s := sqlstore.AgentCounts(q, "sum(n)")
	err = r.query("count the runs of agents", s.Text(), s.Args(), func(c *columns) (bool, error) {
		sqlstore.AddAgentCount(&out, c)
		return true, nil
	})
	return out, err
}

// sum adds up the counts of the table tally for what, a status or TalliedThread, that q selects.
func (r reader) sum(what string, q store.CountQuery) (n int, err error) {
	text, args := tallied, []any{what}
	if q.Owner != nil {
		text, args = text+ofTallyOwner, append(args, *q.Owner)
	}
	if q.Agent != "" {
		text, args = text+ofTallyAgent, append(args, q.Agent)
	}
	err = r.query("count", text, args, func(c *columns) (bool, error) {
		n = c.Int()
		return false, nil
	})
	return n, err
}

// countThread counts the runs of one thread.
func (r reader) countThread(q store.CountQuery) (store.Counts, error) {
	out := store.Counts{Runs: map[mailroom.Status]int{}}
	var s sqlstore.Select
	s.Add("SELECT ")
	for i, status := range allStatuses() {
		if i > 0 {
			s.Add(", ")
		}
		s.Add("count(*) FILTER (WHERE status = '" + string(status) + "')")
	}
	s.Add(" FROM (SELECT r.status FROM run r")
	if !whichRuns(&s, store.RunQuery{Thread: q.Thread, Agent: q.Agent, Statuses: q.Statuses, Set: q.Set}) {
		return out, nil
	}
	if q.Owner != nil {
		s.Cond("(SELECT owner FROM thread WHERE id = ?) = ?", q.Thread, *q.Owner)
	}
	s.Limit(q.Most)
	s.Add(")")
	err := r.query("count the runs of a thread", s.Text(), s.Args(), func(c *columns) (bool, error) {
		for _, status := range allStatuses() {
			if n := c.Int(); n > 0 {
				out.Runs[status] = n
			}
		}
		return false, nil
	})
	return out, err
}

// earliestDue steps from agent to agent and from priority to priority; each step is a seek in the
// index of due threads. It begins behind the gates and the claims.
func (r reader) earliestDue(owner *string) (earliest time.Time, err error) {
	for agent, alone := store.AfterGates, int64(0); ; {
		found := false
		err := r.query("read due agents", dueAgentAfter, []any{agent, alone}, func(c *columns) (bool, error) {
			agent, alone, found = c.Text(), c.Int64(), true
			return false, nil
		})
		if err != nil || !found {
			return earliest, err
		}
		text, args := dueBehind, []any{agent, alone}
		if owner != nil {
			text, args = dueOfOwner, append(args, *owner)
		}
		for behind, more := int64(math.MinInt64), true; more; {
			more = false
			of := append(args[:len(args):len(args)], behind)
			err := r.query("read the first due threads", text, of, func(c *columns) (bool, error) {
				c.skip() // the key
				at := c.Time()
				if earliest.IsZero() || at.Before(earliest) {
					earliest = at
				}
				behind, more = c.Int64(), true
				return false, nil
			})
			if err != nil {
				return time.Time{}, err
			}
		}
	}
}
