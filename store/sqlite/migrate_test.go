package sqlite

import (
	"database/sql"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"mailroom"
)

// oldFile makes a database file with the tables of a version and some rows.
func oldFile(t *testing.T, version int64, rows ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mail.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if _, err := db.ExecContext(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func oldRun(id, key, firstSeq string) string {
	return `INSERT INTO run (id, thread, agent, agent_version, mode, priority, place, submit_key, parent, max_attempts,
		first_seq, status, stop, stop_by, held, attempt, failures, crashes, lost, outages, step, started, reason)
		VALUES ('` + id + `', 1, 'echo', '', 'queue', 1, 1, '` + key + `', '', 5, ` + firstSeq +
		`, 'completed', '', '', 0, 1, 0, 0, 0, 0, 0, 1, '')`
}

func TestRowsOfTheFirstVersionAreReadAndPurged(t *testing.T) {
	key := "INSERT INTO submit_key (thread, key, digest, result) VALUES (1, "
	s := openAt(t, oldFile(t, 1,
		`INSERT INTO thread (id, agent, owner, parent, current_run, round, due_agent, due_priority, due_alone,
			first_seq, last_seq, next_place) VALUES ('t', 'echo', 'me', '', '', 0, '', 0, 0, 1, 0, 4)`,
		oldRun("first", "a", "1"), oldRun("second", "b", "7"), oldRun("late", "c", "3"), oldRun("last", "d", "7"),
		key+`'a', '', '{"run":"first","seq":1,"disposition":"queued"}')`,
		key+`'b', '', '{"run":"second","seq":7,"disposition":"queued"}')`,
		key+`'c', '', '{"run":"first","seq":3,"disposition":"steered"}')`,
		key+`'e', '', '{"run":"second","seq":8,"disposition":"collected"}')`,
	), Options{})
	want := &mailroom.Run{
		Key: 1, ID: "first", Thread: "t", Agent: "echo", Mode: mailroom.ModeQueue, Priority: 1, Place: 1, SubmitKey: "a",
		MaxAttempts: 5, FirstSeq: 1, Status: mailroom.Completed, Attempt: 1, Started: true,
	}
	runs, keys := left(t, s)
	if diff := cmp.Diff(want, runs[len(runs)-1]); diff != "" {
		t.Errorf("the first run (-want +got):\n%s", diff)
	}
	if want := []string{"a", "b", "c", "e"}; !slices.Equal(keys, want) {
		t.Errorf("keys: got %v, want %v", keys, want)
	}
	err := s.Update(t.Context(), func(tx mailroom.Tx) error {
		return tx.Write(&mailroom.Changes{DropEntries: []mailroom.Prefix{{Thread: "t", Seq: 5}}})
	})
	if err != nil {
		t.Fatal(err)
	}
	runs, keys = left(t, s)
	if len(runs) != 2 || runs[0].ID != "last" || runs[1].ID != "second" {
		t.Errorf("runs after a purge below 5: got %d, want last and second", len(runs))
	}
	if want := []string{"b", "e"}; !slices.Equal(keys, want) {
		t.Errorf("keys after a purge below 5: got %v, want %v", keys, want)
	}
}

// left are the runs and the keys of thread t.
func left(t *testing.T, s *Store) (runs []*mailroom.Run, keys []string) {
	t.Helper()
	err := s.View(t.Context(), func(r mailroom.Reader) error {
		found, err := r.Runs(mailroom.RunQuery{Thread: "t"})
		if err != nil {
			return err
		}
		runs = found
		rows, err := r.Keys("t", []string{"a", "b", "c", "d", "e"})
		for _, k := range rows {
			keys = append(keys, k.Key)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return runs, keys
}
