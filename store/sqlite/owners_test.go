package sqlite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
)

// Runs that are older than the column of owners are in the lists of all owners.
func TestRunsWrittenBeforeTheOwnerMigrationAreFound(t *testing.T) {
	thread := func(key int, id, owner string) string {
		return fmt.Sprintf("INSERT INTO thread (key, id, agent, owner, body) VALUES (%d, '%s', 'echo', '%s', x'%x')",
			key, id, owner, format.AppendThread(nil, &mailroom.Thread{ID: id, Owner: owner}))
	}
	run := func(key, of int, thread string) string {
		row := mailroom.Run{ID: fmt.Sprint("r", key), Thread: thread, Status: mailroom.StatusFailed}
		return fmt.Sprintf(
			"INSERT INTO run (key, id, thread, agent, status, first_seq, body) VALUES (%d, '%s', %d, 'echo', 'failed', 1, x'%x')",
			key, row.ID, of, format.AppendRun(nil, &row))
	}
	s := openAt(t, oldFile(t, 17,
		thread(1, "t", "ann"), thread(2, "u", "bob"), run(1, 1, "t"), run(2, 2, "u"), run(3, 1, "t"),
		"INSERT INTO tally VALUES ('failed', 'ann', 'echo', 2), ('failed', 'bob', 'echo', 1), ('thread', 'ann', '', 1), ('thread', 'bob', '', 1)",
		"UPDATE given SET thread = 2, run = 3",
	), Options{})
	var old *mailroom.Run
	err := s.Update(t.Context(), func(tx store.Tx) error {
		l, err := tx.Load(store.Need{Threads: []string{"t", "u"}, Runs: []string{"r1"}})
		if err != nil {
			return err
		}
		old = l.Runs[0]
		old.ErrorGroup = "x" // retried and failed again
		c := &store.Changes{Threads: l.Threads, Runs: []*mailroom.Run{old}}
		for i := 4; i < 8; i++ {
			c.Runs = append(c.Runs, &mailroom.Run{ID: fmt.Sprint("r", i), Thread: []string{"t", "u"}[i%2],
				Status: mailroom.StatusFailed, ErrorGroup: "x", FinishedAt: time.Unix(1, 0)})
		}
		return tx.Write(c)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), func(r store.Reader) error {
		for _, tc := range []struct {
			query store.RunQuery
			want  []string
		}{
			{store.RunQuery{Owner: "ann"}, []string{"r6", "r4", "r3", "r2", "r1"}},
			{store.RunQuery{Owner: "ann", Limit: 3}, []string{"r6", "r4", "r3"}},
			{store.RunQuery{Owner: "ann", Limit: 2}, []string{"r6", "r4"}},
			{store.RunQuery{Owner: "ann", Bytes: 1}, []string{"r6"}},
			{store.RunQuery{Owner: "bob", From: 7}, []string{"r5", "r3", "r2", "r1"}},
			{store.RunQuery{Owner: "bob", From: 3}, []string{"r2", "r1"}},
			{store.RunQuery{Owner: "bob", Oldest: true}, []string{"r1", "r2", "r3", "r5", "r7"}},
			{store.RunQuery{Owner: "bob", Oldest: true, From: 2, Limit: 2}, []string{"r3", "r5"}},
			{store.RunQuery{Group: "x"}, []string{"r7", "r6", "r5", "r4", "r1"}},
		} {
			rows, err := r.Runs(tc.query)
			if err != nil {
				return err
			}
			var got []string
			for _, run := range rows {
				got = append(got, run.ID)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%+v: got %q, want %q", tc.query, got, tc.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
