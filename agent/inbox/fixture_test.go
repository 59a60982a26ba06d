package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/agent/inbox"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// fixture is a store with a sequence of servers on it.
type fixture struct {
	t      *testing.T
	store  store.Store
	ledger *ledger.Ledger
	stop   func()
}

// withFixture runs f in a bubble of virtual time, on a server, and checks the invariants of the
// store afterwards.
func withFixture(t *testing.T, f func(h *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		h := &fixture{t: t, store: memory.New(), stop: func() {}}
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

// serve starts a server that writes through store; h.stop stops it.
func (h *fixture) serve(st store.Store) {
	b := bus.New()
	l := ledger.New(st, ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: thread, Entries: entries})
	}})
	h.ledger = l
	e := engine.New(l.Workers(), b, engine.Options{Local: true, Agents: map[string]engine.Agent{
		"inbox": {Agent: inbox.New()}, "parrot": {Agent: mailroom.AgentFunc(parrot)},
	}})
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
	h.rest()
}

// rest waits longer than the grace of a lost claim, and then until all goroutines are idle.
func (h *fixture) rest() {
	<-time.After(2 * time.Second) // virtual time
	synctest.Wait()
}

// parrot repeats its input.
func parrot(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	return s.Stream(ctx, "parrot: "+input[0].Text)
}

// send submits to the inbox of that thread, waits until all goroutines are idle, and returns the
// run.
func (h *fixture) send(threadID, text string, edit ...func(*thread.Submit)) string {
	h.t.Helper()
	in := thread.Submit{
		Thread: threadID, Agent: "inbox", Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}},
		Sender: "ann", Owner: "ann", Origin: mailroom.Origin{Via: "user", Sender: "ann"},
	}
	for _, f := range edit {
		f(&in)
	}
	out, err := h.ledger.Submit(h.t.Context(), in)
	h.must(err)
	h.rest()
	return out.Run
}

// command makes a submit a reader's own command.
func command(json string) func(*thread.Submit) {
	return func(in *thread.Submit) {
		in.Options = []byte(`{"inbox":` + json + `}`)
		in.Messages = []thread.NewMessage{{Parts: mailroom.Text("(a command)"), Visibility: mailroom.VisibleInternal}}
	}
}

// heads returns the open tickets of inboxes.
func (h *fixture) heads() []*mailroom.Ticket {
	h.t.Helper()
	found, err := h.ledger.Workers().Tickets(h.t.Context(),
		store.TicketQuery{States: []mailroom.TicketState{mailroom.TicketOpen}})
	h.must(err)
	return found
}

// head returns the only open ticket.
func (h *fixture) head() *mailroom.Ticket {
	h.t.Helper()
	found := h.heads()
	if len(found) != 1 {
		h.t.Fatalf("%d messages are at a head, want one", len(found))
	}
	return found[0]
}

// do decides the ticket at the head and waits until all goroutines are idle.
func (h *fixture) do(command string) {
	h.t.Helper()
	h.must(h.answer(h.head(), command))
	h.rest()
}

func (h *fixture) answer(k *mailroom.Ticket, command string) error {
	_, err := h.ledger.Decide(h.t.Context(), thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictAnswer,
		Answer: []byte(command), By: "reader"})
	return err
}

func (h *fixture) run(id string) *mailroom.Run {
	h.t.Helper()
	var rows []*mailroom.Run
	h.view(func(r store.Reader) (err error) {
		rows, err = r.Runs(store.RunQuery{IDs: []string{id}})
		return err
	})
	if len(rows) != 1 {
		h.t.Fatalf("%d runs %s", len(rows), id)
	}
	return rows[0]
}

func (h *fixture) view(f func(store.Reader) error) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), f))
}

// replies returns the complete messages of the agent in a thread.
func (h *fixture) replies(thread string) string {
	h.t.Helper()
	var all []string
	for _, e := range h.entries(thread, entry.KindMessage) {
		var m mailroom.Message
		h.must(e.Decode(&m))
		if m.Role == mailroom.RoleAssistant && !m.Partial {
			all = append(all, m.Text)
		}
	}
	return strings.Join(all, "|")
}

func (h *fixture) entries(thread string, kinds ...string) (found []mailroom.Entry) {
	h.t.Helper()
	h.view(func(r store.Reader) (err error) {
		found, err = r.Entries(store.EntryQuery{Thread: thread, Kinds: kinds})
		return err
	})
	return found
}

// outcomes returns the outcomes of the commands in a thread.
func (h *fixture) outcomes(thread string) (all []inbox.Outcome) {
	h.t.Helper()
	for _, e := range h.entries(thread, inbox.KindOutcome) {
		var o inbox.Outcome
		h.must(e.Decode(&o))
		all = append(all, o)
	}
	return all
}

// text returns the text in a ticket.
func text(t *testing.T, k *mailroom.Ticket) string {
	t.Helper()
	var head inbox.Head
	if err := json.Unmarshal(k.Arguments, &head); err != nil {
		t.Fatal(err)
	}
	if head.Activity != k.Run {
		t.Errorf("the ticket of run %s shows activity %s", k.Run, head.Activity)
	}
	return head.Kind + " " + head.Sender + ": " + head.Text
}

// jsonOf reads the first data part.
func jsonOf(parts []mailroom.Part, v any) error {
	for _, p := range parts {
		if p.Type == "data" {
			return json.Unmarshal(p.Data, v)
		}
	}
	return errors.New("no data part")
}
