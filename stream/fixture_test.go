package stream_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mailroom"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/stream"
	"mailroom/thread"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const threadID, agent, worker = "t", "echo", "w"

// fixture acts as all writers: submitters, the ledger and one worker. It commits real transitions
// to a real store and publishes them.
type fixture struct {
	t       *testing.T
	store   *memory.Store
	bus     *bus.Bus
	streams *stream.Streams
	publish func(bus.Notice) // of the bus, unless a test replaces it

	runs     int            // number of created ones
	messages int            // of the attempt
	claim    mailroom.Claim // of the worker's run; zero: none
	step     int
	open     thread.PartialText // the message being written
	kept     int                // flushed bytes of open

	// The expected state.
	written map[writer]string // full text of each message
	entries []mailroom.Entry  // the log
	started map[writer]int64  // by run and attempt: seq of its start
	ended   map[writer]int64  // seq of the message's entry
}

// writer names a message under the claim that writes it.
type writer struct {
	run     string
	attempt int
	message string
}

func newFixture(t *testing.T) *fixture {
	d := &fixture{
		t: t, store: memory.New(), bus: bus.New(), written: map[writer]string{},
		started: map[writer]int64{}, ended: map[writer]int64{},
	}
	d.publish = d.bus.Publish
	d.streams = stream.New(d.store, d.bus)
	return d
}

// scope returns how much of the queue of a thread a transition reads.
type scope func(*mailroom.Thread, time.Time) thread.Scope

func head(*mailroom.Thread, time.Time) thread.Scope { return thread.ScopeHead }

// change commits the changes of f to the thread, and publishes them. As in the ledger, f finds the current
// run, those that are named, and no more of the queue than it reads: some tests queue a thousand runs.
func (d *fixture) change(read scope, f func(l *thread.State, now time.Time) error, runs ...string) {
	d.t.Helper()
	var entries []mailroom.Entry
	err := d.store.Update(d.t.Context(), func(tx store.Tx) error {
		_, rows, err := storetest.Lock(tx, nil, []string{threadID})
		if err != nil {
			return err
		}
		l := thread.NewState(rows[0])
		if err := load(tx, l, read(rows[0], tx.Now()), slices.Concat(runs, []string{l.Current})); err != nil {
			return err
		}
		if err := f(l, tx.Now()); err != nil {
			return err
		}
		entries = l.Entries()
		var c store.Changes
		l.Collect(&c)
		return tx.Write(&c)
	})
	if err != nil {
		d.t.Fatalf("change: %v", err)
	}
	d.committed(entries)
}

// load loads these runs, and the part of the queue that a transition of this scope reads.
func load(tx store.Tx, l *thread.State, scope thread.Scope, ids []string) error {
	runs, err := tx.Runs(store.RunQuery{IDs: ids})
	if err != nil {
		return err
	}
	for _, r := range runs {
		l.Runs.Add(r)
	}
	for {
		ready, scheduled := l.RowsNeeded(scope, tx.Now())
		if ready == 0 && scheduled == 0 {
			return nil
		}
		for set, n := range map[store.RunSet]int{store.RunsQueued: ready, store.RunsScheduled: scheduled} {
			if n == 0 {
				continue
			}
			runs, err := tx.Runs(store.RunQuery{Thread: threadID, Set: set, Limit: n})
			if err != nil {
				return err
			}
			l.Runs.SetQueue(set, runs, len(runs) < n)
		}
	}
}

func (d *fixture) committed(entries []mailroom.Entry) {
	d.t.Helper()
	if len(entries) == 0 {
		return
	}
	d.entries = append(d.entries, entries...)
	for _, e := range entries {
		w := writer{run: e.Run, attempt: e.Attempt}
		switch e.Kind {
		case entry.KindStarted:
			d.started[w] = e.Seq
		case entry.KindMessage:
			var m mailroom.Message
			if err := e.Decode(&m); err != nil {
				d.t.Fatal(err)
			}
			w.message = m.ID
			d.ended[w] = e.Seq
		}
	}
	d.publish(bus.Notice{Thread: threadID, Entries: entries})
}

// submit submits a message and returns its run.
func (d *fixture) submit() string {
	d.t.Helper()
	return d.submitText("hello")
}

func (d *fixture) submitText(text string) string {
	d.t.Helper()
	d.runs++
	in := thread.Submit{
		Thread: threadID, Run: fmt.Sprintf("run%d", d.runs), Agent: agent, Sender: "ann",
		Messages: []thread.NewMessage{{Role: mailroom.RoleUser, Parts: mailroom.Text(text)}},
	}
	d.change(in.Scope, func(l *thread.State, now time.Time) error {
		_, err := l.Submit(in, thread.Resolved{Agent: agent}, now)
		return err
	})
	return in.Run
}

// start claims the due run.
func (d *fixture) start() {
	d.t.Helper()
	d.change(head, func(l *thread.State, now time.Time) error {
		r := l.Claim(thread.Claimant{Worker: worker, Round: 1}, agent, l.Due.LastAttempt, now)
		if r == nil {
			return fmt.Errorf("no due run")
		}
		d.claim, d.messages = mailroom.Claim{Thread: threadID, Run: r.ID, Attempt: r.Attempt}, 0
		d.step = r.Step
		return nil
	})
}

func (d *fixture) writer() writer {
	return writer{d.claim.Run, d.claim.Attempt, d.open.ID}
}

// stream streams text of the message being written.
func (d *fixture) stream(text string) {
	if d.open.ID == "" {
		d.messages++
		d.open = thread.PartialText{ID: fmt.Sprintf("%s.%d-%d", d.claim.Run, d.claim.Attempt, d.messages)}
		d.kept = 0
	}
	delta := entry.Delta{
		Run: d.claim.Run, Attempt: d.claim.Attempt, Message: d.open.ID,
		Offset: len(d.open.Text), Channel: "text", Text: text,
	}
	d.open.Text += text
	d.written[d.writer()] = d.open.Text
	d.publish(bus.Notice{Thread: threadID, Delta: &delta})
}

// flush stores the text written so far.
func (d *fixture) flush() {
	d.t.Helper()
	if d.open.ID == "" || d.kept == len(d.open.Text) {
		return
	}
	piece := store.Partial{
		Thread: threadID, Run: d.claim.Run, Attempt: d.claim.Attempt, Message: d.open.ID,
		Offset: d.kept, Text: d.open.Text[d.kept:],
	}
	d.change(head, func(l *thread.State, _ time.Time) error { return l.Flush(d.claim, piece) })
	d.kept = len(d.open.Text)
	d.publish(bus.Notice{Thread: threadID, Flushed: &bus.Flushed{
		Run: d.claim.Run, Attempt: d.claim.Attempt, Message: d.open.ID, Upto: d.kept,
	}})
}

// partial returns the message being written, or nil, and ends it.
func (d *fixture) partial() *thread.PartialText {
	if d.open.ID == "" {
		return nil
	}
	written := d.open
	d.open = thread.PartialText{}
	return &written
}

// append commits a step with the message being written.
func (d *fixture) append() {
	d.t.Helper()
	a := &thread.StepCommit{Claim: d.claim, Number: d.step + 1, Step: mailroom.Step{Name: "s"}, Message: d.partial()}
	d.step++
	d.change(head, func(l *thread.State, now time.Time) error {
		_, err := l.Append(a, nil, now)
		return err
	})
}

func (d *fixture) settle(o thread.Outcome, f *mailroom.Failure) {
	d.t.Helper()
	s := &thread.Settle{Claim: d.claim, Number: d.step + 1, Outcome: o, Failure: f, Message: d.partial()}
	d.claim = mailroom.Claim{}
	d.change(head, func(l *thread.State, now time.Time) error {
		_, err := l.Settle(s, now)
		return err
	})
}

func (d *fixture) complete() { d.t.Helper(); d.settle(thread.OutcomeComplete, nil) }
func (d *fixture) release()  { d.t.Helper(); d.settle(thread.OutcomeRelease, nil) }
func (d *fixture) fail() {
	d.t.Helper()
	d.settle(thread.OutcomeFail, &mailroom.Failure{Class: mailroom.ClassPermanent, Err: fmt.Errorf("no")})
}

// expire revokes the claim; only the flushed text is kept.
func (d *fixture) expire() {
	d.t.Helper()
	written := d.partial()
	if written != nil {
		written.Text = written.Text[:d.kept]
	}
	d.claim = mailroom.Claim{}
	d.change(head, func(l *thread.State, now time.Time) error {
		l.Revoke(thread.Revoke{Cause: thread.RevokeDead, Worker: worker, Text: written}, now)
		return nil
	})
}

// rewrite changes the rows of the thread and of a run without a transition, and may append an entry.
func (d *fixture) rewrite(run, kind string, f func(*mailroom.Thread, *mailroom.Run)) {
	d.t.Helper()
	var entries []mailroom.Entry
	err := d.store.Update(d.t.Context(), func(tx store.Tx) error {
		_, threads, err := storetest.Lock(tx, nil, []string{threadID})
		if err != nil {
			return err
		}
		runs, err := tx.Runs(store.RunQuery{IDs: []string{run}})
		if err != nil {
			return err
		}
		t, r := threads[0], runs[0]
		f(t, r)
		c := &store.Changes{Threads: threads, Runs: runs}
		if kind != "" {
			t.LastSeq++
			e, err := entry.New(t.ID, t.LastSeq, kind, r.ID, r.Attempt, tx.Now(), struct{}{})
			if err != nil {
				return err
			}
			entries = []mailroom.Entry{e}
			c.Entries = [][]mailroom.Entry{entries}
		}
		return tx.Write(c)
	})
	if err != nil {
		d.t.Fatalf("rewrite: %v", err)
	}
	d.committed(entries)
}

// park makes the claim's run wait.
func (d *fixture) park() {
	d.t.Helper()
	d.rewrite(d.claim.Run, "run.waiting", func(t *mailroom.Thread, r *mailroom.Run) {
		r.Status, t.Worker, t.Round = mailroom.StatusWaiting, "", 0
	})
	d.claim = mailroom.Claim{}
}

// purge makes first the first entry of the log.
func (d *fixture) purge(first int64) {
	d.t.Helper()
	d.rewrite("run1", "", func(t *mailroom.Thread, _ *mailroom.Run) { t.FirstSeq = first })
}

// drop deletes the thread.
func (d *fixture) drop() {
	d.t.Helper()
	err := d.store.Update(d.t.Context(), func(tx store.Tx) error {
		return tx.Write(&store.Changes{DropThreads: []string{threadID}})
	})
	if err != nil {
		d.t.Fatalf("drop: %v", err)
	}
	d.entries = nil
}

// key returns the key of the thread's row.
func (d *fixture) key() int64 {
	d.t.Helper()
	var key int64
	err := d.store.View(d.t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{threadID}})
		if err == nil && len(rows) == 1 {
			key = rows[0].Key
		}
		return err
	})
	if err != nil {
		d.t.Fatalf("key: %v", err)
	}
	return key
}

// log returns the whole log, or the entries of one run.
func (d *fixture) log(run string) []mailroom.Entry {
	var log []mailroom.Entry
	for _, e := range d.entries {
		if run == "" || e.Run == run {
			log = append(log, e)
		}
	}
	return log
}

func (d *fixture) last() int64 { return d.entries[len(d.entries)-1].Seq }

// due reports whether a run is due.
func (d *fixture) due() bool {
	d.t.Helper()
	due := false
	err := d.store.View(d.t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{threadID}})
		if err == nil && len(rows) == 1 {
			at := rows[0].Due.At
			due = !at.IsZero() && !at.After(time.Now())
		}
		return err
	})
	if err != nil {
		d.t.Fatalf("due: %v", err)
	}
	return due
}
