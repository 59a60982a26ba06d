package powercut

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mailroom"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/sqlite"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// fixture is a ledger over a store on a disk, with everything that it acknowledged over all boots.
type fixture struct {
	disk   *disk
	driver sqlite.Driver
	boots  int

	store  *sqlite.Store
	ledger *ledger.Ledger
	stop   context.CancelFunc
	ended  chan error

	names atomic.Int64

	mu           sync.Mutex                 // guards the fields below
	acknowledged map[string]store.Submitted // by key: acknowledged submits
	unknown      map[string]thread.Submit   // by key: submits without an answer
	replies      map[string]string          // acknowledged replies by run
	refused      []string                   // texts that must not be in any log
	wrong        []string                   // wrong answers
}

func newFixture(d *disk, driver sqlite.Driver) *fixture {
	return &fixture{
		disk: d, driver: driver,
		acknowledged: map[string]store.Submitted{}, unknown: map[string]thread.Submit{}, replies: map[string]string{},
	}
}

// open starts the ledger as a server does.
func (o *fixture) open(ctx context.Context) (err error) {
	o.boots++
	if o.store, err = sqlite.Open(ctx, "/mail.db", sqlite.Options{Readers: 2, Driver: o.driver}); err != nil {
		return err
	}
	ctx, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	o.ledger, o.ended = ledger.New(o.store, ledger.Options{MaxQueued: -1}), make(chan error, 1)
	go func() { o.ended <- o.ledger.Run(ctx) }() // close waits for it
	return errors.Join(o.ledger.Workers().EndLocalWorkers(ctx, false), o.ledger.Workers().Sweep(ctx, ""))
}

// close stops the ledger, and returns its error if it had ended before.
func (o *fixture) close() (ended, closed error) {
	if o.store == nil {
		return nil, nil
	}
	o.stop()
	ended = <-o.ended
	closed = o.store.Close()
	o.store = nil
	return ended, closed
}

// work runs several goroutines that submit, claim and complete, each until an operation gets no
// answer or rounds are done.
func (o *fixture) work(ctx context.Context, rounds int) {
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			worker := o.name("w")
			_, err := o.ledger.Workers().Register(ctx, store.Worker{ID: worker, Local: true, Agents: []string{"echo"}})
			for round := int64(1); err == nil && round <= int64(rounds); round++ {
				err = o.round(ctx, fmt.Sprint("t", n%3), worker, round)
			}
			if mailroom.CodeOf(err) != mailroom.CodeUnavailable && err != nil {
				o.note("answered with %v", err)
			}
		})
	}
	wg.Wait()
}

// round does a submit, a submit that is refused, and the due runs.
func (o *fixture) round(ctx context.Context, threadID, worker string, round int64) error {
	in := thread.Submit{
		Thread: threadID, Key: o.name("key "), Sender: "ann", Owner: "ann",
		Messages: []thread.NewMessage{{Parts: mailroom.Text(o.name("text ") + strings.Repeat(".", 20_000))}},
	}
	if err := o.submit(ctx, in); err != nil {
		return err
	}
	in.Mode, in.Key = mailroom.ModeReject, ""
	in.Messages = []thread.NewMessage{{Parts: mailroom.Text(o.name("refused "))}}
	_, err := o.ledger.Submit(ctx, in)
	if mailroom.CodeOf(err) == mailroom.CodeBusy {
		o.mu.Lock()
		o.refused = append(o.refused, in.Messages[0].Parts[0].Text)
		o.mu.Unlock()
	} else if err != nil {
		return err
	}
	work, err := o.ledger.Workers().Claim(ctx, thread.ClaimRequest{Worker: worker, Round: round, Slots: 2,
		LastAttempt: true, Agents: map[string]int{"echo": 2}})
	if err != nil {
		return err
	}
	for _, w := range work {
		if err := o.complete(ctx, w.Claim); err != nil {
			return err
		}
	}
	return nil
}

func (o *fixture) submit(ctx context.Context, in thread.Submit) error {
	out, err := o.ledger.Submit(ctx, in)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.unknown[in.Key] = in
		return err
	}
	o.acknowledged[in.Key] = out
	delete(o.unknown, in.Key)
	return nil
}

func (o *fixture) complete(ctx context.Context, c mailroom.Claim) error {
	_, err := o.ledger.Workers().Append(ctx, thread.StepCommit{Claim: c, Number: 1, Step: mailroom.Step{Name: "half"}})
	if code := mailroom.CodeOf(err); code == mailroom.CodeConflict {
		err = nil // an earlier attempt wrote it, under another number
	}
	if err != nil {
		return err
	}
	steps, err := o.steps(ctx, c.Run)
	if err != nil {
		return err
	}
	reply := o.name("reply ")
	_, err = o.ledger.Workers().Settle(ctx, thread.Settle{
		Claim: c, Number: steps + 1, Outcome: thread.OutcomeComplete,
		Message: &thread.PartialText{ID: fmt.Sprintf("%s.%d-1", c.Run, c.Attempt), Text: reply},
	})
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if was, twice := o.replies[c.Run]; twice {
		o.wrong = append(o.wrong, fmt.Sprintf("run %s ended with %q, and again with %q", c.Run, was, reply))
	}
	o.replies[c.Run] = reply
	return nil
}

func (o *fixture) steps(ctx context.Context, run string) (n int, err error) {
	err = o.ledger.View(ctx, func(r store.Reader) error {
		runs, err := r.Runs(store.RunQuery{IDs: []string{run}})
		if err == nil && len(runs) == 1 {
			n = runs[0].Step
		}
		return err
	})
	return n, err
}

func (o *fixture) name(of string) string { return fmt.Sprint(of, o.names.Add(1)) }

func (o *fixture) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

// audit compares the store with everything that was acknowledged, repeats unanswered submits, and
// returns the differences. No goroutine of work may run.
func (o *fixture) audit(ctx context.Context) ([]string, error) {
	for _, key := range slices.Sorted(maps.Keys(o.unknown)) {
		if err := o.submit(ctx, o.unknown[key]); err != nil {
			return nil, fmt.Errorf("repeat submit %q: %w", key, err)
		}
	}
	found, err := storetest.Check(ctx, o.store)
	found = append(found, o.wrong...)
	if err != nil {
		return found, err
	}
	err = o.store.View(ctx, func(r store.Reader) error {
		runs := map[string]*mailroom.Run{}
		rows, err := r.Runs(store.RunQuery{})
		if err != nil {
			return err
		}
		for _, row := range rows {
			runs[row.ID] = row
		}
		texts, err := countMessages(r)
		if err != nil {
			return err
		}
		for key, out := range o.acknowledged {
			if runs[out.Run] == nil {
				found = append(found, fmt.Sprintf("submit %q was acknowledged with run %s, which does not exist", key, out.Run))
			} else if n := texts[out.Message]; n != 1 {
				found = append(found, fmt.Sprintf("submit %q was acknowledged with message %s, which occurs %d times", key,
					out.Message, n))
			}
		}
		if len(rows) != len(o.acknowledged)+o.rejects(rows) {
			found = append(found, fmt.Sprintf("there are %d runs of %d submits", len(rows), len(o.acknowledged)))
		}
		for run, reply := range o.replies {
			if row := runs[run]; row == nil || row.Status != mailroom.StatusCompleted || row.Reply == nil ||
				*row.Reply != reply {
				found = append(found, fmt.Sprintf("run %s was completed with %q but is %+v", run, reply, row))
			}
		}
		for _, text := range o.refused {
			if texts[text] > 0 {
				found = append(found, fmt.Sprintf("%q was refused but is in a log", text))
			}
		}
		return nil
	})
	return found, err
}

// rejects counts the runs of submits that may be refused but were not, because their thread was
// idle.
func (o *fixture) rejects(rows []*mailroom.Run) (n int) {
	for _, row := range rows {
		if row.Mode == mailroom.ModeReject {
			n++
		}
	}
	return n
}

// countMessages counts the messages of all logs, by their ids and texts.
func countMessages(r store.Reader) (map[string]int, error) {
	all := map[string]int{}
	threads, err := r.Threads(store.ThreadQuery{})
	if err != nil {
		return nil, err
	}
	for _, t := range threads {
		entries, err := r.Entries(store.EntryQuery{Thread: t.ID, Kinds: []string{entry.KindMessage}})
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			var m mailroom.Message
			if err := e.Decode(&m); err != nil {
				return nil, err
			}
			all[m.ID]++
			all[m.Text]++
		}
	}
	return all, nil
}

// integrity runs SQLite's integrity check.
func (o *fixture) integrity(ctx context.Context) (err error) {
	connector, err := o.driver.Connector("file:/mail.db?_pragma=query_only(true)")
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	var says string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&says); err != nil {
		return err
	}
	if says != "ok" {
		return fmt.Errorf("integrity check: %s", says)
	}
	return nil
}
