package engine_test

import (
	"context"
	"fmt"

	"mailroom"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/thread"
)

// An agent is a function that handles one run: it reads the run's messages, and the text that it
// streams becomes the reply.
func Example() {
	greeter := func(ctx context.Context, s mailroom.Session) error {
		input, err := s.Input(ctx)
		if err != nil {
			return err
		}
		return s.Stream(ctx, "Hello, "+input[0].Text+"!")
	}
	o := openFixture(map[string]mailroom.AgentFunc{"greeter": greeter})
	defer o.close()

	run := o.send("letters", "greeter", "Anna")
	fmt.Println(o.reply(run))
	// Output: Hello, Anna!
}

// exampleFixture is a store with ledger, bus and engine, wired as a program wires them.
type exampleFixture struct {
	ledger *ledger.Ledger
	log    chan mailroom.Entry // all committed entries, in order
	close  func()
}

func openFixture(agents map[string]mailroom.AgentFunc) *exampleFixture {
	o := &exampleFixture{log: make(chan mailroom.Entry, 1000)}
	b := bus.New()
	o.ledger = ledger.New(memory.New(), ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: thread, Entries: entries})
		for _, e := range entries {
			o.log <- e
		}
	}})
	served := map[string]engine.Agent{}
	for name, f := range agents {
		served[name] = engine.Agent{Agent: f}
	}
	worker := engine.New(o.ledger.Workers(), b, engine.Options{Agents: served})

	// The engine stops first, because it settles its runs through the ledger.
	engineCtx, stopEngine := context.WithCancel(context.Background())
	ledgerCtx, stopLedger := context.WithCancel(context.Background())
	engineEnded, ledgerEnded := make(chan error, 1), make(chan error, 1)
	go func() { ledgerEnded <- o.ledger.Run(ledgerCtx) }()
	go func() { engineEnded <- worker.Run(engineCtx) }()
	o.close = func() {
		stopEngine()
		check(<-engineEnded)
		stopLedger()
		check(<-ledgerEnded)
	}
	return o
}

// send submits a message and returns the run that it created or joined.
func (o *exampleFixture) send(threadID, agent, text string) string {
	out, err := o.ledger.Submit(context.Background(), thread.Submit{
		Thread: threadID, Agent: agent,
		Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}},
	})
	check(err)
	return out.Run
}

// until waits for the next entry of a kind of a run.
func (o *exampleFixture) until(run, kind string) mailroom.Entry {
	for e := range o.log {
		if e.Run == run && e.Kind == kind {
			return e
		}
	}
	return mailroom.Entry{}
}

// run returns the row of a run.
func (o *exampleFixture) run(id string) (found *mailroom.Run) {
	check(o.ledger.View(context.Background(), func(r store.Reader) error {
		rows, err := r.Runs(store.RunQuery{IDs: []string{id}})
		if err == nil {
			found = rows[0]
		}
		return err
	}))
	return found
}

// reply waits for a run to complete and returns its last message.
func (o *exampleFixture) reply(run string) string {
	var end entry.RunCompleted
	check(o.until(run, entry.KindCompleted).Decode(&end))
	return *end.Reply
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
