package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// Open a store, submit a message and look at the rows. A store only keeps rows: the ledger decides what is
// written, and is the only writer. Several ledgers may share a store in a database.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "mailroom")
	check(err)
	defer os.RemoveAll(folder)

	s, err := sqlite.Open(ctx, filepath.Join(folder, "mailroom.db"), sqlite.Options{})
	check(err)
	l := ledger.New(s, ledger.Options{})
	end := run(l)

	out, err := l.Submit(ctx, text("letters", "Dear Anna"))
	check(err)
	fmt.Println("the run is", out.Disposition)
	end()
	check(s.Close())

	// The submit was on disk when it returned: it is there after a restart, and after a power cut.
	s, err = sqlite.Open(ctx, filepath.Join(folder, "mailroom.db"), sqlite.Options{})
	check(err)
	check(s.View(ctx, func(r store.Reader) error {
		runs, err := r.Runs(store.RunQuery{Thread: "letters"})
		if err != nil {
			return err
		}
		entries, err := r.Entries(store.EntryQuery{Thread: "letters"})
		for _, e := range entries {
			fmt.Println(e.Seq, e.Kind)
		}
		fmt.Println(len(runs), "run,", runs[0].Status)
		return err
	}))
	check(s.Close())
	// Output:
	// the run is queued
	// 1 message
	// 2 run.queued
	// 1 run, queued
}

// Claim a run, write under the claim, and settle it. An engine does this for all its agents; here are the
// operations themselves. Whatever a worker writes names its claim, and a claim that ended writes nothing.
func Example_claim() {
	ctx := context.Background()
	l := ledger.New(memory.New(), ledger.Options{})
	defer run(l)()
	_, err := l.Submit(ctx, text("letters", "Dear Anna"))
	check(err)

	workers := l.Workers()
	_, err = workers.Register(ctx, store.Worker{ID: "worker 1", Agents: []string{"echo"}})
	check(err)
	claimed, err := workers.Claim(ctx, thread.ClaimRequest{
		Worker: "worker 1", Round: 1, Slots: 1, Agents: map[string]int{"echo": 1},
	})
	check(err)
	claim := claimed[0].Claim
	fmt.Println("read:", claimed[0].Input[0].Text)

	_, err = workers.Append(ctx, thread.StepCommit{Claim: claim, Number: 1, Step: mailroom.Step{Name: "thought"}})
	check(err)
	ended, err := workers.Settle(ctx, thread.Settle{
		Claim: claim, Number: 2, Outcome: thread.OutcomeComplete,
		Message: &thread.PartialText{ID: "reply", Text: "Dear Bert"},
	})
	check(err)
	fmt.Println("run:", ended.Status)

	_, err = workers.Append(ctx, thread.StepCommit{Claim: claim, Number: 3, Step: mailroom.Step{Name: "late"}})
	fmt.Println("after the settle:", mailroom.CodeOf(err))
	// Output:
	// read: Dear Anna
	// run: completed
	// after the settle: lease_lost
}

// Find messages by their words. The index is behind the log: IndexMessages reads on from where it stopped, a part
// with each call, so a submit does not pay for it.
func Example_search() {
	ctx := context.Background()
	l := ledger.New(memory.New(), ledger.Options{})
	defer run(l)()
	for _, words := range []string{"the invoice of March", "a letter", "the invoice of April"} {
		_, err := l.Submit(ctx, text("mail", words))
		check(err)
	}
	for read := 1; read > 0; {
		var err error
		read, err = l.IndexMessages(ctx)
		check(err)
	}

	q := &ledger.SearchQuery{
		Search: store.Search{Words: store.Words("Invoice"), Limit: 10},
		CanSee: func(*mailroom.Thread) bool { return true },
		Each:   func(m mailroom.Message, _ int64) { fmt.Println(m.Seq, m.Text) },
	}
	_, err := l.Search(ctx, q)
	check(err)
	// Output:
	// 5 the invoice of April
	// 1 the invoice of March
}

func text(threadID, words string) thread.Submit {
	return thread.Submit{Thread: threadID, Messages: []thread.NewMessage{{Parts: mailroom.Text(words)}}}
}

// run starts the committer of a ledger and returns the function that ends it.
func run(l *ledger.Ledger) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return func() {
		cancel()
		check(<-ended)
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
