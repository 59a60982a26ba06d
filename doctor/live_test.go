package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/doctor"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// Every transaction keeps the invariants, so every view satisfies them, also while many goroutines
// write.
func TestAStoreHasNoFindingsWhileItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := ledger.New(s, ledger.Options{DefaultAgent: "a"})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }() // the test waits for it at its end
	if _, err := l.Workers().Register(ctx, store.Worker{ID: "w", Agents: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	busy, quiet := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	for n := range 3 {
		writers.Go(func() {
			for i := 0; busy.Err() == nil; i++ {
				if err := submitSomething(ctx, l, fmt.Sprint("r", n, "-", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Go(func() {
		for round := int64(1); busy.Err() == nil; round++ {
			if err := runSomething(ctx, l, round); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Go(func() {
		for busy.Err() == nil {
			if err := l.Purge(ctx, "t1", 100*time.Millisecond); err != nil {
				t.Error(err)
			}
		}
	})
	seen := 0
	for looks := 0; looks < 3 || seen < 100; looks++ {
		report := checkFile(t, path)
		seen = report.Runs
		for _, f := range report.Findings {
			t.Errorf("check %d: %s: %s", looks, f.Invariant, f)
		}
		if t.Failed() {
			break
		}
	}
	quiet()
	writers.Wait()
	stop()
	if err := errors.Join(<-ended, s.Close()); err != nil {
		t.Fatal(err)
	}
	for _, f := range checkFile(t, path).Findings {
		t.Errorf("last check: %s: %s", f.Invariant, f)
	}
}

func checkFile(t *testing.T, path string) doctor.Report {
	t.Helper()
	f, err := sqlite.OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	report := check(t, f)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return report
}

func submitSomething(ctx context.Context, l *ledger.Ledger, id string) error {
	in := thread.Submit{
		Thread: fmt.Sprint("t", rand.IntN(3)), Run: id, Sender: "ann", Origin: mailroom.Origin{Via: "user", Sender: "ann"},
		Mode: []mailroom.Mode{
			mailroom.ModeQueue, mailroom.ModeQueue, mailroom.ModeQueue, mailroom.ModeSteer, mailroom.ModeCollect,
			mailroom.ModeLatest, mailroom.ModeInterrupt,
		}[rand.IntN(7)],
		Messages: []thread.NewMessage{{Parts: mailroom.Text("do " + id)}},
	}
	if rand.IntN(2) == 0 {
		in.Key = id
	}
	if rand.IntN(4) == 0 {
		p := rand.IntN(3)
		in.Priority = &p
	}
	_, err := l.Submit(ctx, in)
	return err
}

// runSomething claims due runs and ends them in a random way.
func runSomething(ctx context.Context, l *ledger.Ledger, round int64) error {
	work, err := l.Workers().Claim(ctx, thread.ClaimRequest{Worker: "w", Round: round, Slots: 3,
		Agents: map[string]int{"a": 3}})
	for _, w := range work {
		_, e := l.Workers().MarkSteersRead(ctx, w.Claim)
		_, e2 := l.Workers().Append(ctx, thread.StepCommit{Claim: w.Claim, Number: w.Run.Step + 1, Step: mailroom.Step{
			Name: "step",
			Sends: []mailroom.Send{{Name: fmt.Sprint("s", w.Claim.Attempt), Thread: "far", Agent: "b",
				Parts: mailroom.Text("hi")}},
		}})
		s := thread.Settle{Claim: w.Claim, Number: w.Run.Step + 2, Outcome: thread.OutcomeComplete}
		switch rand.IntN(4) {
		case 0:
			s.Outcome, s.Failure = thread.OutcomeFail, &mailroom.Failure{Class: mailroom.ClassTransient,
				Err: errors.New("no luck")}
		case 1:
			s.Outcome = thread.OutcomeRelease
		}
		_, e3 := l.Workers().Settle(ctx, s)
		err = errors.Join(err, e, e2, e3)
	}
	return err
}
