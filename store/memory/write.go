package memory

import (
	"cmp"
	"math"
	"slices"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
)

// tx works on its own copy of the state, which Update commits.
type tx struct {
	reader
	failed error           // error of a Write; the transaction must not commit
	given  map[string]bool // threads that Load or Due has returned, and threads that were written
}

// Load implements [store.Tx]. A memory store has one handle, so it needs no locks.
func (t *tx) Load(n store.Need) (*store.Loaded, error) {
	l := &store.Loaded{Workers: make([]*store.Worker, len(n.Workers)), Threads: make([]*mailroom.Thread, len(n.Threads))}
	for i, id := range n.Workers {
		if w, ok := t.workers.get(id); ok {
			l.Workers[i] = copyWorker(w)
		}
	}
	for i, id := range n.Threads {
		t.given[id] = true
		if row, ok := t.threads.get(id); ok {
			l.Threads[i] = copyThread(row)
		} else {
			l.Threads[i] = &mailroom.Thread{ID: id}
		}
	}
	return l, l.Complete(t, n)
}

// Due implements [store.Tx].
func (t *tx) Due(
	now time.Time, wants []store.Capacity, known store.Known,
) (_ *store.Loaded, next time.Time, err error) {
	due := &store.Loaded{}
	n := store.Need{Known: known}
	for _, want := range wants {
		var ready []*mailroom.Thread
		var later time.Time
		for _, row := range t.threads.all() {
			switch {
			case row.Due.At.IsZero() || row.Due.Agent != want.Agent || row.Due.LastAttempt != want.LastAttempt:
			case !row.Due.At.After(now):
				if !t.given[row.ID] {
					ready = append(ready, row)
				}
			case later.IsZero() || row.Due.At.Before(later):
				later = row.Due.At
			}
		}
		slices.SortFunc(ready, func(a, b *mailroom.Thread) int {
			return cmp.Or(cmp.Compare(a.Due.Priority, b.Due.Priority), a.Due.At.Compare(b.Due.At),
				cmp.Compare(a.Key, b.Key))
		})
		if want.Share != nil {
			ready, later = shared(ready, want.Share), time.Time{}
		}
		if len(ready) >= want.Slots {
			ready = ready[:want.Slots]
		} else if !later.IsZero() && (next.IsZero() || later.Before(next)) {
			next = later
		}
		for _, row := range ready {
			due.Threads = append(due.Threads, copyThread(row))
			n.Queues = append(n.Queues, row.ID)
		}
	}
	for _, row := range due.Threads {
		t.given[row.ID] = true
	}
	return due, next, due.Complete(t, n)
}

// shared removes the threads beyond their owner's share.
func shared(ready []*mailroom.Thread, share *store.Share) []*mailroom.Thread {
	given := map[string]int{}
	return slices.DeleteFunc(ready, func(row *mailroom.Thread) bool {
		given[row.Owner]++
		return given[row.Owner] > share.Left(row.Owner)
	})
}

func (t *tx) Write(c *store.Changes) error {
	if t.failed != nil {
		return t.failed
	}
	t.drop(c)
	among := make(map[string]*mailroom.Thread, len(c.Threads))
	for _, row := range c.Threads {
		if err := t.writeThread(row); err != nil {
			return err
		}
		among[row.ID] = row
	}
	for _, run := range c.Runs {
		if err := t.writeRun(run, among); err != nil {
			return err
		}
	}
	for _, entries := range c.Entries {
		if err := t.appendEntries(entries, among); err != nil {
			return err
		}
	}
	for _, key := range c.Keys {
		if err := t.writeKey(key, among); err != nil {
			return err
		}
	}
	for _, piece := range c.Partials {
		if err := t.appendPartial(piece); err != nil {
			return err
		}
	}
	for _, w := range c.Workers {
		t.workers.put(w.ID, copyWorker(w))
	}
	for _, k := range c.Tickets {
		if err := t.writeTicket(k); err != nil {
			return err
		}
	}
	for _, row := range c.Tokens {
		if err := t.writeToken(row); err != nil {
			return err
		}
	}
	for _, u := range c.Use {
		if old, ok := t.tokens.get(u.Token); ok {
			row := copyToken(old)
			row.Used = row.Used.Plus(u.Add)
			t.tokens.put(u.Token, row)
		}
	}
	for _, d := range c.Definitions {
		id := versionID{d.Agent, d.Version}
		if _, ok := t.kept.get(id); !ok {
			d.Body = cloneText(d.Body)
			t.kept.put(id, d)
		}
	}
	for _, p := range c.Pauses {
		cut(&p.At)
		cut(&p.Probe)
		t.pauses.put(p.Agent, p)
	}
	for _, row := range c.Cursors {
		cut(&row.MovedAt)
		row.Position = cloneText(row.Position)
		t.cursors.put(cursorID{row.Channel, row.Identity}, row)
	}
	for _, row := range c.Reservations {
		if _, ok := t.threads.get(row.Thread); !ok {
			return t.fail("reservation %q: its thread %q does not exist", row.ID, row.Thread)
		}
		cut(&row.TakenAt, &row.ExpiresAt)
		t.reserved.put(row.ID, row)
	}
	t.writeMeters(c.Meters)
	t.addSummaries(c)
	return cmp.Or(t.writeBlobs(c), t.writeIndex(c.Index))
}

func (t *tx) writeMeters(list []store.Meter) {
	for _, row := range list {
		cut(&row.At)
		t.meters.put(row.Key, row)
	}
}

// drop removes rows before anything is written.
func (t *tx) drop(c *store.Changes) {
	for _, id := range c.DropThreads {
		t.dropThread(id)
	}
	for _, id := range c.DropWorkers {
		t.workers.drop(id)
	}
	for _, id := range c.DropPartials {
		t.partials.drop(id)
	}
	for _, p := range c.DropEntries {
		t.dropPrefix(p)
	}
	for _, d := range c.DropDefinitions {
		t.kept.drop(versionID{d.Agent, d.Version})
	}
	for _, agent := range c.DropPauses {
		t.pauses.drop(agent)
	}
	for _, name := range c.DropTokens {
		t.tokens.drop(name)
	}
	for _, row := range c.DropCursors {
		t.cursors.drop(cursorID{row.Channel, row.Identity})
	}
	for _, id := range c.DropReservations {
		t.reserved.drop(id)
	}
	for _, key := range c.DropMeters {
		t.meters.drop(key)
	}
	t.dropBlobs(c)
	for _, old := range c.DropSummaries {
		for key := range t.summary.all() {
			if key.Step == old.Step && key.At.Before(old.At) {
				t.summary.drop(key)
			}
		}
	}
}

func (t *tx) writeTicket(k *mailroom.Ticket) error {
	old, ok := t.tickets.get(k.ID)
	run, _ := t.runs.get(k.Run)
	switch {
	case run == nil || run.Thread != k.Thread:
		return t.fail("ticket %q of run %q, which is not a run of thread %q", k.ID, k.Run, k.Thread)
	case k.Key == 0 && ok:
		return t.fail("ticket %q already exists", k.ID)
	case k.Key == 0:
		t.lastTicket++
		k.Key = t.lastTicket
		ids, _ := t.asked.get(k.Run)
		t.asked.put(k.Run, append(slices.Clone(ids), k.ID)) // older states share it
	case !ok || old.Key != k.Key:
		return t.fail("ticket %q with key %d does not exist", k.ID, k.Key)
	}
	c := copyTicket(k)
	c.Agent = run.Agent
	t.tickets.put(k.ID, c)
	return nil
}

func (t *tx) writeToken(row *auth.Token) error {
	old, ok := t.tokens.get(row.Name)
	switch {
	case row.Key == 0 && ok:
		return t.fail("token %q already exists", row.Name)
	case row.Key == 0:
		t.lastToken++
		row.Key = t.lastToken
	case !ok || old.Key != row.Key:
		return t.fail("token %q with key %d does not exist", row.Name, row.Key)
	}
	written := copyToken(row)
	if ok {
		written.Used = old.Used
	}
	t.tokens.put(row.Name, written)
	return nil
}

// dropPrefix removes entries, the runs whose first entry is among them, and the submit keys of
// both.
func (t *tx) dropPrefix(p store.Prefix) {
	log, ok := t.logs.get(p.Thread)
	if ok {
		n, _ := slices.BinarySearchFunc(log, p.Seq, func(e mailroom.Entry, seq int64) int { return cmp.Compare(e.Seq, seq) })
		t.logs.put(p.Thread, log[n:])
		commits, _ := t.commits.get(p.Thread)
		t.commits.put(p.Thread, commits[n:])
		row, ok := t.threads.get(p.Thread)
		if ok {
			t.dropIndexed(row.Key, p.Seq)
		}
		if ok && row.DeletedAt.IsZero() && n > 0 {
			last := store.Position{Commit: commits[n-1], Thread: row.Key, Seq: log[n-1].Seq}
			if last.Compare(t.removed) > 0 {
				t.removed = last
			}
		}
	}
	ids, _ := t.runsOf.get(p.Thread)
	var stay []string
	submitted := make(map[string]bool)
	for _, id := range ids {
		run, _ := t.runs.get(id)
		if run.FirstSeq >= p.Seq {
			stay = append(stay, id)
			continue
		}
		submitted[run.SubmitKey] = true
		t.dropRun(id)
	}
	if len(stay) < len(ids) {
		t.runsOf.put(p.Thread, stay)
	}
	for id, k := range t.keys.all() {
		joined := k.Result.Disposition != store.DispositionQueued
		if id.thread == p.Thread && (submitted[id.key] && id.key != "" || joined && k.JoinedSeq < p.Seq) {
			t.keys.drop(id)
		}
	}
}

func (t *tx) dropRun(id string) {
	t.runs.drop(id)
	t.partials.drop(id)
	ids, _ := t.asked.get(id)
	for _, ticket := range ids {
		t.tickets.drop(ticket)
	}
	t.asked.drop(id)
}

func (t *tx) writeThread(row *mailroom.Thread) error {
	t.given[row.ID] = true
	old, ok := t.threads.get(row.ID)
	switch {
	case row.Key == 0 && ok:
		return t.fail("thread %q already exists", row.ID)
	case row.Key == 0:
		t.lastThread++
		row.Key = t.lastThread
	case !ok || old.Key != row.Key:
		return t.fail("thread %q with key %d does not exist", row.ID, row.Key)
	}
	t.threads.put(row.ID, copyThread(row))
	return nil
}

func (t *tx) writeRun(run *mailroom.Run, among map[string]*mailroom.Thread) error {
	old, ok := t.runs.get(run.ID)
	switch {
	case run.Key == 0 && ok:
		return t.fail("run %q already exists", run.ID)
	case run.Key == 0 && among[run.Thread] == nil:
		return t.fail("new run %q: its thread %q is not in the changes", run.ID, run.Thread)
	case run.Key == 0:
		t.lastRun++
		run.Key = t.lastRun
		ids, _ := t.runsOf.get(run.Thread)
		t.runsOf.put(run.Thread, append(ids, run.ID))
	case !ok || old.Key != run.Key:
		return t.fail("run %q with key %d does not exist", run.ID, run.Key)
	}
	run.Stored = run.Status
	t.runs.put(run.ID, copyRun(run))
	return nil
}

// appendEntries appends to the log's slice in place: only the newest state does, and older states
// that share the array end before the new elements.
func (t *tx) appendEntries(entries []mailroom.Entry, among map[string]*mailroom.Thread) error {
	if len(entries) == 0 {
		return nil
	}
	thread := entries[0].Thread
	if among[thread] == nil {
		return t.fail("entries of thread %q, which is not in the changes", thread)
	}
	log, _ := t.logs.get(thread)
	commits, _ := t.commits.get(thread)
	if len(log) > 0 && log[len(log)-1].Seq >= entries[0].Seq {
		return t.fail("entry %d of thread %q already exists", entries[0].Seq, thread)
	}
	for i, e := range entries {
		if e.Thread != thread || e.Seq != entries[0].Seq+int64(i) {
			return t.fail("entry %d of thread %q does not follow in the entries of thread %q from %d",
				e.Seq, e.Thread, thread, entries[0].Seq)
		}
		kept, err := copyEntry(e)
		if err != nil {
			return t.fail("entry %d of thread %q: %w", e.Seq, thread, err)
		}
		log, commits = append(log, kept), append(commits, t.lastCommit)
	}
	t.logs.put(thread, log)
	t.commits.put(thread, commits)
	return nil
}

func (t *tx) writeKey(key store.SubmitKey, among map[string]*mailroom.Thread) error {
	id := keyID{key.Thread, key.Key}
	if among[key.Thread] == nil {
		return t.fail("key %q: its thread %q is not in the changes", key.Key, key.Thread)
	}
	if _, ok := t.keys.get(id); ok {
		return t.fail("key %q of thread %q already exists", key.Key, key.Thread)
	}
	key.JoinedSeq, _ = key.JoinedAt(among[key.Thread])
	t.keys.put(id, copyKey(key))
	return nil
}

func (t *tx) appendPartial(piece store.Partial) error {
	if _, ok := t.runs.get(piece.Run); !ok {
		return t.fail("partial of run %q, which does not exist", piece.Run)
	}
	pieces, _ := t.partials.get(piece.Run)
	i, found := slices.BinarySearchFunc(pieces, piece.Offset, func(p store.Partial, offset int) int {
		return cmp.Compare(p.Offset, offset)
	})
	pieces = slices.Clone(pieces) // older states share it
	if found {
		pieces[i] = piece
	} else {
		pieces = slices.Insert(pieces, i, piece)
	}
	t.partials.put(piece.Run, pieces)
	return nil
}

func (t *tx) dropThread(id string) {
	ids, _ := t.runsOf.get(id)
	for _, run := range ids {
		t.dropRun(run)
	}
	for k := range t.keys.all() {
		if k.thread == id {
			t.keys.drop(k)
		}
	}
	for k, row := range t.reserved.all() {
		if row.Thread == id {
			t.reserved.drop(k)
		}
	}
	if row, ok := t.threads.get(id); ok {
		t.dropIndexed(row.Key, math.MaxInt64)
	}
	t.dropBlobsOf(id)
	t.runsOf.drop(id)
	t.logs.drop(id)
	t.commits.drop(id)
	t.threads.drop(id)
}

func (t *tx) fail(format string, args ...any) error {
	t.failed = mailroom.Errorf(mailroom.CodeInternal, format, args...)
	return t.failed
}
