package ledger

import (
	"mailroom/auth"
	"mailroom/store"
)

// changes has the rows that the operations of a batch changed, except those of threads and projects, which record
// their changes themselves. [transaction.collect] puts both together.
type changes struct {
	write   store.Changes
	cursors movedCursors
	dropped map[string]bool     // threads
	bytes   int64               // of these threads
	workers map[string]auth.Use // change of the number of workers, by owner
	raised  []store.Summary     // what people added to budgets
}

func newChanges() changes {
	return changes{dropped: map[string]bool{}, workers: map[string]auth.Use{}}
}

// countWorkers adds n to the workers of an owner.
func (c *changes) countWorkers(owner string, n int64) {
	c.workers[owner] = c.workers[owner].Plus(auth.Use{Workers: n})
}

func (c *changes) dropWorkers(ids []string) {
	c.write.DropWorkers = append(c.write.DropWorkers, ids...)
}

func (c *changes) dropThread(id string, bytes int64) {
	c.dropped[id] = true
	c.bytes += bytes
	c.write.DropThreads = append(c.write.DropThreads, id)
}

// dropEntries drops the entries of a thread below seq, with their runs.
func (c *changes) dropEntries(thread string, seq int64) {
	c.write.DropEntries = append(c.write.DropEntries, store.Prefix{Thread: thread, Seq: seq})
}

// dropCursors drops rows, which are all cursors of a channel.
func (c *changes) dropCursors(channel string, rows []store.Cursor) {
	c.cursors.drop(channel, rows)
	c.write.DropCursors = append(c.write.DropCursors, rows...)
}

func (c *changes) keepDefinitions(kept []store.Definition) {
	c.write.Definitions = append(c.write.Definitions, kept...)
}

func (c *changes) dropDefinitions(dropped []store.Definition) {
	c.write.DropDefinitions = append(c.write.DropDefinitions, dropped...)
}

func (c *changes) dropSummaries(old store.SummariesBefore) {
	c.write.DropSummaries = append(c.write.DropSummaries, old)
}

// movedCursors are the changes of a batch to cursors.
type movedCursors struct {
	of    map[string]*channelCursors // by channel
	order []string                   // channels, in order of their first change
}

// channelCursors are the changes to the cursors of one channel, by identity. A project with many inboxes is a
// channel with many cursors, so no lookup here is a scan of all of them.
type channelCursors struct {
	moved   map[string]store.Cursor
	order   []string        // identities, in order of their first move
	dropped map[string]bool // stored cursors
}

func (m *movedCursors) channel(name string) *channelCursors {
	c := m.of[name]
	if c == nil {
		if m.of == nil {
			m.of = map[string]*channelCursors{}
		}
		c = &channelCursors{moved: map[string]store.Cursor{}, dropped: map[string]bool{}}
		m.of[name] = c
		m.order = append(m.order, name)
	}
	return c
}

// drop forgets the moved cursors of a channel and marks its stored ones as dropped.
func (m *movedCursors) drop(channel string, rows []store.Cursor) {
	c := m.channel(channel)
	for _, row := range rows {
		c.dropped[row.Identity] = true
	}
	clear(c.moved)
	c.order = nil
}

// collect returns the moved cursors.
func (m *movedCursors) collect() (rows []store.Cursor) {
	for _, channel := range m.order {
		c := m.of[channel]
		for _, identity := range c.order {
			rows = append(rows, c.moved[identity])
		}
	}
	return rows
}
