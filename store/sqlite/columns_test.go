package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/store/storetest"
)

// The columns that an update sets depend on what the transaction has seen of the row.
func TestColumnsFollowEveryChangeOfTheBody(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{})
	row := &mailroom.Thread{ID: "t"}
	runs := []*mailroom.Run{{ID: "a", Thread: "t", Status: mailroom.StatusQueued},
		{ID: "b", Thread: "t", Status: mailroom.StatusRunning}}
	err := s.Update(t.Context(), func(tx store.Tx) error {
		return tx.Write(&store.Changes{Threads: []*mailroom.Thread{row}, Runs: runs})
	})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		err := s.Update(t.Context(), func(tx store.Tx) error {
			if random.IntN(4) > 0 { // else the transaction does not know the row
				_, rows, err := storetest.Lock(tx, nil, []string{"t"})
				if err != nil {
					return err
				}
				row = rows[0]
			}
			for range 1 + random.IntN(2) {
				changeThread(random, row)
				changeRun(random, runs[random.IntN(2)])
				if err := tx.Write(&store.Changes{Threads: []*mailroom.Thread{row}, Runs: runs}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if found := faults(t, path); len(found) > 0 {
			t.Fatalf("after transaction %d: %q", i, found)
		}
	}
}

func changeThread(random *rand.Rand, row *mailroom.Thread) {
	at := time.UnixMicro(1 + random.Int64N(3)).UTC()
	switch random.IntN(8) {
	case 0:
		row.Worker, row.Due = "w", mailroom.Due{At: at}
	case 1:
		row.Worker, row.Due = "", mailroom.Due{}
	case 2:
		row.Due = mailroom.Due{At: at, Agent: "a", Priority: random.IntN(2), LastAttempt: random.IntN(2) == 0}
	case 3:
		row.Agent = fmt.Sprint(random.IntN(2))
	case 4:
		row.DeliverTo = fmt.Sprint(random.IntN(2))
	case 5:
		row.Round++
	case 6:
		row.Worker = fmt.Sprint(random.IntN(2))
	case 7:
		row.DeletedAt = time.Time{}
		if random.IntN(2) == 0 {
			row.DeletedAt = at
		}
	}
}

func changeRun(random *rand.Rand, run *mailroom.Run) {
	run.Attempt++
	statuses := []mailroom.Status{run.Status, mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusWaiting,
		mailroom.StatusFailed}
	run.Status = statuses[random.IntN(len(statuses))]
	run.Scheduled, run.Priority = random.IntN(2) == 0, random.IntN(2)
	run.NotBefore, run.StartedAt = time.Time{}, time.Time{}
	if run.Scheduled {
		run.NotBefore = time.UnixMicro(1).UTC()
	}
	if run.Status != mailroom.StatusQueued || random.IntN(2) == 0 {
		run.StartedAt = time.UnixMicro(2).UTC()
	}
}

// faults returns the contradictions in the file.
func faults(t *testing.T, path string) []string {
	t.Helper()
	f, err := OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	found, err := f.Faults(t.Context())
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return found
}

// A step changes neither the claim of its thread nor the claim's end, so the indexes on them must
// not be written.
func TestAStepSetsNoColumnOfAnIndex(t *testing.T) {
	s := openTest(t, Options{})
	row := &mailroom.Thread{ID: "t", Worker: "w", Due: mailroom.Due{At: time.UnixMicro(5).UTC()}}
	run := &mailroom.Run{ID: "r", Thread: "t", Status: mailroom.StatusRunning}
	step := func(tx store.Tx) error {
		_, rows, err := storetest.Lock(tx, nil, []string{"t"})
		if err != nil {
			return err
		}
		rows[0].LastSeq++
		run.Step++
		return tx.Write(&store.Changes{Threads: rows, Runs: []*mailroom.Run{run}})
	}
	for _, f := range []func(store.Tx) error{
		func(tx store.Tx) error {
			return tx.Write(&store.Changes{Threads: []*mailroom.Thread{row}, Runs: []*mailroom.Run{run}})
		}, step,
	} {
		if err := s.Update(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]bool{touchThread: true, moveThread: false, updateThread: false,
		updateStartedRun: true, updateRun: false, moveRun: false} {
		if _, got := s.writer.stmts[text]; got != want {
			t.Errorf("prepared: %v, want %v: %s", got, want, text)
		}
	}
}
