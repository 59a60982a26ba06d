package schedule_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/internal/reserved"
	"mailroom/ledger"
	"mailroom/schedule"
	"mailroom/schedule/plan"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// fixture is a store with a sequence of servers on it, in virtual time, which begins at midnight UTC on 2000-01-01, a
// Saturday.
type fixture struct {
	t        *testing.T
	store    store.Store
	ledger   *ledger.Ledger
	operator *auth.Token
	stop     func()
	// worker is the agent that the schedules start; nil: it repeats its input.
	worker mailroom.AgentFunc
}

// nightly is the thread of the schedule that most tests use.
const nightly = "schedule:admin:nightly"

func withFixture(t *testing.T, f func(h *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		h := &fixture{t: t, store: memory.New(), operator: auth.NewOperator("secret"), stop: func() {}}
		h.serve(h.store)
		defer func() { h.stop() }() // also if the test fails early
		f(h)
		h.stop()
		found, err := storetest.Check(context.Background(), h.store)
		h.must(err)
		for _, bad := range found {
			t.Error(bad)
		}
		h.must(h.store.Close())
	})
}

func (h *fixture) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// serve starts a server that writes through st; h.stop stops it.
func (h *fixture) serve(st store.Store) {
	b := bus.New()
	l := ledger.New(st, ledger.Options{
		CheckOptions: takesNoLoudness,
		Publish: func(thread string, entries []mailroom.Entry) {
			b.Publish(bus.Notice{Thread: thread, Entries: entries})
		},
	})
	h.ledger = l
	e := engine.New(l.Workers(), b, engine.Options{
		Local: true, Lease: time.Hour, Renew: 20 * time.Minute, Sweep: 10 * time.Minute, // days pass in few steps
		Agents: map[string]engine.Agent{
			reserved.Scheduler: {Agent: schedule.New(l, h.operator)},
			"coder":            {Agent: mailroom.AgentFunc(h.work), Deadline: 24 * time.Hour},
		},
	})
	engineCtx, quit := context.WithCancel(context.Background())
	ledgerCtx, end := context.WithCancel(context.Background())
	var both sync.WaitGroup
	ended := func(err error) {
		if err != nil && !errors.Is(err, store.ErrClosed) {
			h.t.Error(err)
		}
	}
	both.Go(func() { ended(l.Run(ledgerCtx)) })
	h.must(l.Workers().EndLocalWorkers(h.t.Context(), false))
	both.Go(func() {
		defer end()
		ended(e.Run(engineCtx))
	})
	h.stop = func() {
		quit()
		both.Wait()
	}
	h.rest(2 * time.Second) // longer than the grace of a lost claim
}

// takesNoLoudness refuses options of the agent coder that have the word loud.
func takesNoLoudness(agent string, options json.RawMessage) error {
	if agent == "coder" && bytes.Contains(options, []byte("loud")) {
		return errors.New(`agent coder does not take the option "loud"; use model`)
	}
	return nil
}

func (h *fixture) work(ctx context.Context, s mailroom.Session) error {
	if h.worker != nil {
		return h.worker(ctx, s)
	}
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	return s.Stream(ctx, input[0].Text)
}

// rest lets virtual time pass, and then waits until all goroutines are idle.
func (h *fixture) rest(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// sleep lets virtual time pass while an agent works.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// spec returns a checked spec that sends to the thread work.
func (h *fixture) spec(edit func(*plan.Spec)) *plan.Spec {
	h.t.Helper()
	s := &plan.Spec{Every: time.Minute, Thread: "work", Agent: "coder", Text: "go"}
	edit(s)
	h.must(s.Check(time.Now()))
	return s
}

// command submits a command as the server does, with the rights of an owner, and with a key once for each key.
func (h *fixture) command(id string, c plan.Command, key ...string) error {
	parts, err := c.Parts()
	h.must(err)
	owner, _ := reserved.SchedulePlace(id)
	_, err = h.ledger.Submit(h.t.Context(), thread.Submit{
		Thread: id, Agent: reserved.Scheduler, Messages: []thread.NewMessage{{Parts: parts}}, Sender: owner, Owner: owner,
		Key: strings.Join(key, ""), By: auth.RunToken(owner), ByServer: true,
		Origin: mailroom.Origin{Via: reserved.ViaSchedule, Sender: owner},
	})
	return err
}

// do carries out a command of the operator.
func (h *fixture) do(c plan.Command) {
	h.t.Helper()
	c.By, c.Source = "admin", h.operator.ID()
	h.must(h.command(nightly, c))
	h.rest(time.Second)
}

func (h *fixture) set(edit func(*plan.Spec)) {
	h.t.Helper()
	h.do(plan.Command{Op: plan.OpSet, Spec: h.spec(edit)})
}

// state returns the state of a schedule.
func (h *fixture) state(id string) (s *plan.State) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{id}})
		if err != nil {
			return err
		}
		all, err := schedule.Read(r, rows, time.Now())
		if len(all) > 0 {
			s = all[0]
		}
		return err
	}))
	return s
}

// story returns what happened to the schedule: "00:01 sent", "00:02 overlap".
func (h *fixture) story(id string) string {
	h.t.Helper()
	var all []string
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		entries, err := r.Entries(store.EntryQuery{Thread: id, Kinds: []string{"x.schedule.sent", "x.schedule.skipped",
			"x.schedule.paused"}, Limit: 1000})
		for _, e := range entries {
			all = append(all, h.told(e))
		}
		return err
	}))
	return strings.Join(all, ", ")
}

// told returns an entry as text.
func (h *fixture) told(e mailroom.Entry) string {
	h.t.Helper()
	var body struct {
		Nominal, First time.Time
		Reason         string
		Count          int
		Note           string
	}
	h.must(json.Unmarshal(e.Body, &body))
	switch e.Kind {
	case "x.schedule.sent":
		return body.Nominal.Format("15:04") + " sent"
	case "x.schedule.paused":
		return "paused: " + body.Note
	}
	out := body.First.Format("15:04") + " " + body.Reason
	if body.Count != 1 {
		out += fmt.Sprintf(" ×%d", body.Count)
	}
	return out
}

// received returns the nominal times of the runs in a thread, oldest first.
func (h *fixture) received(id string) string {
	h.t.Helper()
	var all []string
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		entries, err := r.Entries(store.EntryQuery{Thread: id, Kinds: []string{entry.KindMessage}, Limit: 1000})
		if err != nil {
			return err
		}
		for _, e := range entries {
			var m mailroom.Message
			h.must(e.Decode(&m))
			if m.Role != mailroom.RoleUser {
				continue
			}
			runs, err := r.Runs(store.RunQuery{IDs: []string{m.Run}})
			if err != nil || len(runs) != 1 {
				return errors.Join(err, fmt.Errorf("%d runs", len(runs)))
			}
			at, err := time.Parse(time.RFC3339, runs[0].Metadata["nominal"])
			h.must(err)
			all = append(all, at.Format("15:04"))
		}
		return nil
	}))
	return strings.Join(all, ", ")
}
