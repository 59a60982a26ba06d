package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/doctor"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/project"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// fixture is a store with rows of every kind, written by the ledger:
//
//	thread t: run done was completed, with a step, a send to thread far and a decided ticket;
//	          dead failed, off was cancelled; now runs, has flushed text, an unread steered
//	          message and an open ticket; q1, q2 (urgent) and later (scheduled) are queued
//	project p: x holds a, released b, and sent y a notification, which is unread
//	thread p: run parent is parked for an approval and its child, in thread kid
type fixture struct {
	t     *testing.T
	store *memory.Store
	*ledger.Ledger
	ledger.Workers
	worker string
	round  int64
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{t: t, store: memory.New(), worker: "w"}
	w.Ledger = ledger.New(w.store, ledger.Options{DefaultAgent: "a", MaxQueued: -1})
	w.Workers = w.Ledger.Workers()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }() // the cleanup waits for it
	t.Cleanup(func() {
		stop()
		w.must(<-ended)
	})
	_, err := w.Register(ctx, store.Worker{ID: "w", Agents: []string{"a"}})
	w.must(err)
	return w
}

// View is that of the ledger, which the workers have too.
func (w *fixture) View(ctx context.Context, f func(store.Reader) error) error {
	return w.Ledger.View(ctx, f)
}

func (w *fixture) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) submit(threadID, run string, change ...func(*thread.Submit)) {
	w.t.Helper()
	in := thread.Submit{
		Thread: threadID, Run: run, Sender: "ann", Origin: mailroom.Origin{Via: "user", Sender: "ann"},
		Messages: []thread.NewMessage{{Parts: mailroom.Text("do " + run)}},
	}
	for _, f := range change {
		f(&in)
	}
	_, err := w.Submit(w.t.Context(), in)
	w.must(err)
}

// backlog creates a thread with n queued runs, in one transaction.
func (w *fixture) backlog(threadID string, n int) {
	w.t.Helper()
	l := thread.NewState(&mailroom.Thread{ID: threadID})
	for i := range n {
		in := thread.Submit{Thread: threadID, Run: fmt.Sprint("r", i), Agent: "a", Owner: "ann",
			Messages: []thread.NewMessage{{Parts: mailroom.Text("do")}}}
		_, err := l.Submit(in, thread.Resolved{Agent: "a"}, time.Now().UTC().Truncate(time.Microsecond))
		w.must(err)
	}
	c := &store.Changes{}
	l.Collect(c)
	w.must(w.store.Update(w.t.Context(), func(tx store.Tx) error { return tx.Write(c) }))
}

// claim starts the next run, which must be run.
func (w *fixture) claim(run string) mailroom.Claim {
	w.t.Helper()
	w.round++
	work, err := w.Claim(w.t.Context(), thread.ClaimRequest{Worker: w.worker, Round: w.round, Slots: 1,
		Agents: map[string]int{"a": 1}})
	w.must(err)
	if len(work) != 1 || work[0].Claim.Run != run {
		w.t.Fatalf("claimed %+v, want run %s", work, run)
	}
	return work[0].Claim
}

func (w *fixture) step(c mailroom.Claim, n int, s mailroom.Step) {
	w.t.Helper()
	_, err := w.Append(w.t.Context(), thread.StepCommit{Claim: c, Number: n, Step: s})
	w.must(err)
}

func (w *fixture) settle(s thread.Settle) {
	w.t.Helper()
	_, err := w.Settle(w.t.Context(), s)
	w.must(err)
}

func approval(name string) mailroom.Ask {
	return mailroom.Ask{Name: name, Kind: mailroom.TicketApproval, Prompt: "may I?", After: time.Hour}
}

// reserve creates the project.
func (w *fixture) reserve() {
	w.t.Helper()
	ctx, by := w.t.Context(), &auth.Token{Name: auth.Operator, Scopes: auth.Permissions()}
	out, err := w.Projects().Reserve(ctx, project.Reserve{Project: "p", Names: []string{"a", "b"}, Holder: "x", By: by})
	w.must(err)
	_, err = w.Projects().Release(ctx, out.Granted[1].ID, by, false)
	w.must(err)
	_, err = w.Projects().Inbox(ctx, ledger.InboxQuery{Project: "p", Agent: "y", By: by, Limit: 1})
	w.must(err)
	_, err = w.Projects().Notify(ctx, project.Notify{Project: "p", By: by,
		Notification: project.Notification{From: "x", Event: "e"}})
	w.must(err)
}

// blobs writes two blobs of agent a, and leaves an upload that no step has written.
func (w *fixture) blobs(c mailroom.Claim) {
	w.t.Helper()
	ctx := w.t.Context()
	a := thread.StepCommit{Claim: c, Number: 2, Step: mailroom.Step{NoProgress: true}}
	for _, name := range []string{"long", "short"} {
		content := strings.Repeat("x", map[string]int{"long": 2*store.BlobPieceBytes + 3, "short": 5}[name])
		stored, err := w.Upload(ctx, c, strings.NewReader(content))
		w.must(err)
		a.Blobs = append(a.Blobs, thread.BlobChange{Name: name, Upload: stored.Name})
	}
	_, err := w.Append(ctx, a)
	w.must(err)
	_, err = w.Upload(ctx, c, strings.NewReader("later"))
	w.must(err)
}

// fill creates the contents of the fixture.
func (w *fixture) fill() *fixture {
	w.t.Helper()
	ctx := w.t.Context()
	w.submit("far", "there", func(in *thread.Submit) { in.Agent = "b" })
	w.submit("t", "done", func(in *thread.Submit) { in.Key = "k" })
	c := w.claim("done")
	w.step(c, 1,
		mailroom.Step{Name: "look",
			Sends: []mailroom.Send{{Name: "tell", Thread: "far", Agent: "b", Parts: mailroom.Text("hi")}}})
	ask := approval("ok")
	w.step(c, 2, mailroom.Step{Tickets: []mailroom.Ask{ask}})
	_, err := w.Decide(ctx, thread.Decision{Ticket: thread.TicketID("done", "ok"), Verdict: mailroom.VerdictApprove,
		Digest: thread.AskDigest(&ask), By: "ann"})
	w.must(err)
	w.settle(thread.Settle{Claim: c, Number: 3, Outcome: thread.OutcomeComplete,
		Message: &thread.PartialText{ID: "done.1-1", Text: "well"}})
	w.submit("t", "dead")
	w.settle(thread.Settle{Claim: w.claim("dead"), Number: 1, Outcome: thread.OutcomeFail,
		Failure: &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("no")}})
	w.submit("t", "off")
	_, err = w.Cancel(ctx, "off", "ann")
	w.must(err)
	w.submit("t", "now")
	c = w.claim("now")
	w.settle(thread.Settle{Claim: c, Number: 1, Outcome: thread.OutcomeRelease})
	c = w.claim("now")
	w.step(c, 1, mailroom.Step{Tickets: []mailroom.Ask{approval("ok")}})
	w.submit("t", "aside", func(in *thread.Submit) { in.Mode = mailroom.ModeSteer })
	w.must(w.Flush(ctx, c, store.Partial{Message: "now.2-1", Text: "once "}))
	w.must(w.Flush(ctx, c, store.Partial{Message: "now.2-1", Text: "upon", Offset: 5}))
	w.blobs(c)
	w.submit("t", "q1")
	w.submit("t", "q2", func(in *thread.Submit) { p := 1; in.Priority = &p })
	w.submit("t", "later", func(in *thread.Submit) { in.NotBefore = time.Now().Add(time.Hour) })
	w.submit("p", "parent")
	c = w.claim("parent")
	w.step(c, 1,
		mailroom.Step{Sends: []mailroom.Send{{Name: "help", Thread: "kid", Agent: "b", Parts: mailroom.Text("help"),
			Answer: mailroom.AnswerWait}}})
	w.settle(thread.Settle{
		Claim: c, Number: 2, Outcome: thread.OutcomePark, Asks: []mailroom.Ask{approval("ok")},
		Wait: &mailroom.Wait{Names: []string{"ok", "help"}},
	})
	w.reserve()
	return w
}

// rows has all rows of a store, which a test modifies and writes into another store.
type rows struct {
	store.Changes
	t *testing.T
}

func (w *fixture) rows() *rows {
	w.t.Helper()
	out := &rows{t: w.t}
	c := &out.Changes
	w.must(w.store.View(w.t.Context(), func(r store.Reader) (err error) {
		if c.Threads, err = r.Threads(store.ThreadQuery{Oldest: true}); err != nil {
			return err
		}
		if c.Runs, err = r.Runs(store.RunQuery{}); err != nil {
			return err
		}
		slices.Reverse(c.Runs)
		for _, run := range c.Runs {
			pieces, err := r.Partials(run.ID)
			keys, e := r.Keys(store.KeyQuery{Thread: run.Thread, Keys: []string{run.SubmitKey}})
			if err = errors.Join(err, e); err != nil {
				return err
			}
			c.Partials, c.Keys = append(c.Partials, pieces...), append(c.Keys, keys...)
			run.Key = 0
		}
		for _, t := range c.Threads {
			log, err := r.Entries(store.EntryQuery{Thread: t.ID})
			if err != nil {
				return err
			}
			w.must(out.readBlobs(r, t))
			for _, e := range log {
				c.Entries = append(c.Entries, []mailroom.Entry{e}) // one batch each, so that a test can leave one out
			}
			t.Key = 0
		}
		if c.Workers, err = r.Workers(); err != nil {
			return err
		}
		if c.Cursors, err = r.Cursors(store.CursorQuery{}); err != nil {
			return err
		}
		if c.Reservations, err = r.Reservations(store.ReservationQuery{}); err != nil {
			return err
		}
		for _, step := range store.Steps() {
			rows, err := r.Count(store.CountQuery{Summaries: &store.SummaryQuery{Step: step}})
			if err != nil {
				return err
			}
			c.Summaries = append(c.Summaries, rows.Summaries...)
		}
		c.Tickets, err = r.Tickets(store.TicketQuery{})
		for _, k := range c.Tickets {
			k.Key = 0
		}
		return err
	}))
	return out
}

// readBlobs adds the blobs of a thread and their pieces.
func (r *rows) readBlobs(from store.Reader, t *mailroom.Thread) error {
	found, sizes := store.BlobQuery{}, store.BlobQuery{Sizes: true}
	for _, q := range []*store.BlobQuery{&found, &sizes} {
		if _, err := from.Keys(store.KeyQuery{Thread: t.ID, Blobs: q}); err != nil {
			return err
		}
	}
	r.Blobs = append(r.Blobs, found.Found...)
	for _, u := range sizes.Uploads {
		for n := range u.Pieces {
			p := store.BlobPiece{Thread: t.ID, Upload: u.Upload, Number: n}
			q := store.BlobQuery{Piece: &p}
			if _, err := from.Keys(store.KeyQuery{Thread: t.ID, Blobs: &q}); err != nil {
				return err
			}
			p.Body = q.Body
			r.BlobPieces = append(r.BlobPieces, p)
		}
	}
	return nil
}

// store writes the rows into a new store.
func (r *rows) store() *memory.Store {
	r.t.Helper()
	s := memory.New()
	if err := s.Update(r.t.Context(), func(tx store.Tx) error { return tx.Write(&r.Changes) }); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rows) thread(id string) *mailroom.Thread {
	i := slices.IndexFunc(r.Threads, func(t *mailroom.Thread) bool { return t.ID == id })
	return r.Threads[i]
}

func (r *rows) run(id string) *mailroom.Run {
	i := slices.IndexFunc(r.Runs, func(x *mailroom.Run) bool { return x.ID == id })
	return r.Runs[i]
}

func (r *rows) ticket(run, name string) *mailroom.Ticket {
	i := slices.IndexFunc(r.Tickets, func(k *mailroom.Ticket) bool { return k.Run == run && k.Name == name })
	return r.Tickets[i]
}

// dropRun removes a run and its partials, keys and tickets.
func (r *rows) dropRun(id string) {
	r.Runs = slices.DeleteFunc(r.Runs, func(x *mailroom.Run) bool { return x.ID == id })
	r.Partials = slices.DeleteFunc(r.Partials, func(x store.Partial) bool { return x.Run == id })
	r.Keys = slices.DeleteFunc(r.Keys, func(x store.SubmitKey) bool { return x.Result.Run == id })
	r.Tickets = slices.DeleteFunc(r.Tickets, func(x *mailroom.Ticket) bool { return x.Run == id })
}

// entry finds the n-th entry of a kind that names a run, n from 1.
func (r *rows) entry(kind, run string, n int) *mailroom.Entry {
	r.t.Helper()
	for _, list := range r.Entries {
		if list[0].Kind == kind && list[0].Run == run {
			if n--; n == 0 {
				return &list[0]
			}
		}
	}
	r.t.Fatalf("no entry %s of run %s", kind, run)
	return nil
}

// replace replaces an entry with a changed one.
func (r *rows) replace(e *mailroom.Entry, change func(e *mailroom.Entry)) {
	r.t.Helper()
	other := *e
	change(&other)
	made, err := entry.New(other.Thread, other.Seq, other.Kind, other.Run, other.Attempt, other.At, other.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	*e = made
}

// body changes one field of an entry's body.
func (r *rows) body(e *mailroom.Entry, field string, value any) {
	r.t.Helper()
	r.replace(e, func(e *mailroom.Entry) {
		var fields map[string]any
		err := json.Unmarshal(e.Body, &fields)
		fields[field] = value
		b, e2 := json.Marshal(fields)
		if err = errors.Join(err, e2); err != nil {
			r.t.Fatal(err)
		}
		e.Body = b
	})
}

// another appends an entry to thread t.
func (r *rows) another(kind, run string, attempt int, body any) {
	r.t.Helper()
	t := r.thread("t")
	t.LastSeq++
	e, err := entry.New("t", t.LastSeq, kind, run, attempt, t.UpdatedAt, body)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Entries = append(r.Entries, []mailroom.Entry{e})
}

// cut removes an entry.
func (r *rows) cut(e *mailroom.Entry) {
	seq, thread := e.Seq, e.Thread
	r.Entries = slices.DeleteFunc(r.Entries, func(list []mailroom.Entry) bool {
		return list[0].Thread == thread && list[0].Seq == seq
	})
}

func check(t *testing.T, v doctor.Viewer) doctor.Report {
	t.Helper()
	report, err := doctor.Check(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// measure sets the size of a thread's log in its row.
func (r *rows) measure(thread string) {
	row := r.thread(thread)
	row.Bytes = 0
	for _, n := range row.BlobBytes {
		row.Bytes += n
	}
	for _, list := range r.Entries {
		for _, e := range list {
			if e.Thread == thread {
				row.Bytes += int64(len(e.Raw))
			}
		}
	}
}
