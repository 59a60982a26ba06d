package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/store/storetest"
)

const megabyte = 1 << 20

// fill makes commits of 64 KB and returns the largest length of the WAL file after any of them.
func fill(t *testing.T, s *Store, path string, from, commits int) int64 {
	t.Helper()
	text := strings.Repeat("0123456789abcdef", 4096)
	longest := int64(0)
	for i := range commits {
		err := s.Update(t.Context(), func(tx store.Tx) error {
			_, rows, err := storetest.Lock(tx, nil, []string{"t"})
			if err != nil {
				return err
			}
			run := &mailroom.Run{ID: fmt.Sprint(from + i), Thread: "t", Status: mailroom.StatusCompleted, Reply: &text}
			return tx.Write(&store.Changes{Threads: rows, Runs: []*mailroom.Run{run}})
		})
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, walLength(t, path))
	}
	return longest
}

func walLength(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestTheWALStaysShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{})
	got := fill(t, s, path, 0, 50*megabyte>>16)
	if got > 25*megabyte {
		t.Errorf("50 MB were written: got a WAL of up to %d MB, want at most 25", got/megabyte)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() < 25*megabyte {
		t.Errorf("50 MB were written: got a database of %d MB, want most of them there", info.Size()/megabyte)
	}
}

func TestTheWALIsShortAgainAfterALongView(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{})
	fill(t, s, path, 0, 1)
	err := s.View(t.Context(), func(r store.Reader) error {
		before, err := r.Runs(store.RunQuery{})
		if err != nil {
			return err
		}
		if got := fill(t, s, path, 1, 28*megabyte>>16); got < 26*megabyte {
			t.Errorf("got a WAL of %d MB, want all that the view may still need", got/megabyte)
		}
		again, err := r.Count(store.CountQuery{})
		if again.Sum() != len(before) {
			t.Errorf("runs in the view: got %d, want %d as before", again.Sum(), len(before))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, path, 100_000, 6*megabyte>>16)
	if got := walLength(t, path); got > 25*megabyte {
		t.Errorf("after the view: got a WAL of %d MB, want at most 25", got/megabyte)
	}
}

func TestAShortWALIsCheckpointedWhenIdle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	s := openAt(t, path, Options{})
	fill(t, s, path, 0, 5*megabyte>>16)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	deadline := time.After(5 * time.Minute)
	for {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 2*megabyte {
			return // most pages are in the database
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("got a database of %d bytes, want most of the 5 MB that were written", info.Size())
		}
	}
}
