package sqlite

import (
	"slices"
	"sync"
	"time"

	"mailroom/store/internal/sqlstore"
)

// addedSums are the sums of an agent over some periods, as sqlstore.AddAddedSums takes them.
type addedSums struct {
	agent string
	sums  [sqlstore.AddedSums]int64
}

// sumCache keeps the sums of agents over periods that have ended: adding up a month of 500 agents reads 46,500 rows,
// and only the rows of today change. It answers only with what the rows of the reader's snapshot add up to: an
// entry is valid for a snapshot if both have the same revision, or if this handle has made each commit between the two
// and none of them has written a row of the entry's periods. A commit of another handle ends the known commits. So
// neither clocks nor the order of a commit and a reader matter.
type sumCache struct {
	mu sync.Mutex // owns the fields
	// known are the revisions after which each commit, until last, is one of this handle.
	known, last int64
	steps       map[time.Duration]stepWrites
	entries     []sumEntry // the last used one first
}

// Bounds of a sumCache, which hold it to 2.5 MB. A month and a day by agent, and a month by label, are four entries.
const (
	maxSumEntries = 16
	maxSumAgents  = 1024
)

// sumRange says what an entry has added up.
type sumRange struct {
	step     time.Duration
	from, to int64 // microseconds since 1970; to is exclusive
}

type sumEntry struct {
	sumRange
	agents   []string
	revision int64 // of the snapshot that was read
	rows     []addedSums
}

// stepWrites has the revisions of the last commits that wrote rows of a step. Runs end now, so two periods and the rest
// separate writes to old periods from the usual ones.
type stepWrites struct {
	newest [2]periodWrite // the newest period first
	older  int64          // to any period older than those two
	// Rows before dropped were dropped, last by dropRevision.
	dropped, dropRevision int64
}

type periodWrite struct{ at, revision int64 }

// summaryWrite is a write of a transaction: to a period, or, with drop, of all periods before it.
type summaryWrite struct {
	step time.Duration
	at   int64
	drop bool
}

func (w *stepWrites) add(at, revision int64) {
	switch newest := &w.newest; {
	case at == newest[0].at:
		newest[0].revision = revision
	case at > newest[0].at:
		w.older = max(w.older, newest[1].revision)
		newest[1], newest[0] = newest[0], periodWrite{at, revision}
	case at == newest[1].at:
		newest[1].revision = revision
	case at > newest[1].at:
		w.older = max(w.older, newest[1].revision)
		newest[1] = periodWrite{at, revision}
	default:
		w.older = revision
	}
}

// lastIn returns a revision after which no known commit has changed rows of a range.
func (w *stepWrites) lastIn(r sumRange) int64 {
	last := w.older
	for _, p := range w.newest {
		if p.at < r.to {
			last = max(last, p.revision)
		}
	}
	if r.from < w.dropped {
		last = max(last, w.dropRevision)
	}
	return last
}

// committed notes a commit of this handle that took the store from the revision before to the revision after.
func (c *sumCache) committed(before, after int64, writes []summaryWrite) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before != c.last {
		c.known = before
	}
	c.last = after
	if c.steps == nil {
		c.steps = map[time.Duration]stepWrites{}
	}
	for _, w := range writes {
		of := c.steps[w.step]
		if w.drop {
			of.dropped, of.dropRevision = max(of.dropped, w.at), after
		} else {
			of.add(w.at, after)
		}
		c.steps[w.step] = of
	}
}

// get returns the sums of agents over a range, for a snapshot of a revision. The caller must not change them.
func (c *sumCache) get(r sumRange, agents []string, revision int64) (rows []addedSums, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range c.entries {
		if e.sumRange != r || !slices.Equal(e.agents, agents) {
			continue
		}
		since, until := min(e.revision, revision), max(e.revision, revision)
		of := c.steps[r.step]
		if since != until && (since < c.known || until > c.last || of.lastIn(r) > since) {
			return nil, false
		}
		copy(c.entries[1:i+1], c.entries[:i])
		c.entries[0] = e
		return e.rows, true
	}
	return nil, false
}

// put replaces the entry of a range and its agents.
func (c *sumCache) put(r sumRange, agents []string, revision int64, rows []addedSums) {
	if len(agents) > maxSumAgents {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = slices.DeleteFunc(c.entries, func(e sumEntry) bool {
		return e.sumRange == r && slices.Equal(e.agents, agents)
	})
	if len(c.entries) == maxSumEntries {
		c.entries = slices.Delete(c.entries, maxSumEntries-1, maxSumEntries)
	}
	c.entries = slices.Insert(c.entries, 0, sumEntry{r, slices.Clone(agents), revision, rows})
}
