package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/pgtest"
	"mailroom/store"
)

// openCopy opens the copy in a schema of the shared cluster.
func openCopy(t *testing.T, schema string) (*Copy, error) {
	t.Helper()
	return OpenCopy(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, AllowUnsafe: true})
}

// wantOpen opens the store in a schema, or wants an error.
func wantOpen(t *testing.T, schema string, want error) {
	t.Helper()
	for _, exists := range []bool{true, false} {
		s, err := Open(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, AllowUnsafe: true,
			MustExist: exists})
		if !errors.Is(err, want) {
			t.Errorf("open with MustExist=%t: got %v, want %v", exists, err, want)
		}
		if err == nil {
			closeStore(t, s)
		}
	}
}

func countThreads(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) error {
		c, err := r.Count(store.CountQuery{})
		n = c.Threads
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNoHandleOpensACopyBeforeItIsFinished(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	c, err := openCopy(t, schema)
	if err != nil {
		t.Fatal(err)
	}
	wantOpen(t, schema, ErrUnfinished)
	first := usual(t, time.UnixMicro(1_000_000).UTC())
	write(t, c.Store, first)
	wantOpen(t, schema, ErrUnfinished)
	closeStore(t, c.Store) // as a process that is killed does
	wantOpen(t, schema, ErrUnfinished)

	if c, err = openCopy(t, schema); err != nil {
		t.Fatalf("the second copy: %v", err)
	}
	if n := countThreads(t, c.Store); n != 0 {
		t.Errorf("the second copy begins with %d threads, want none", n)
	}
	second := usual(t, time.UnixMicro(1_000_000).UTC())
	write(t, c.Store, second)
	if second.Threads[0].Key != first.Threads[0].Key || second.Runs[0].Key != first.Runs[0].Key {
		t.Errorf("keys are %d and %d, want those of the first copy, %d and %d", second.Threads[0].Key, second.Runs[0].Key,
			first.Threads[0].Key, first.Runs[0].Key)
	}
	if err := c.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeStore(t, c.Store)
	wantOpen(t, schema, nil)
	if _, err := openCopy(t, schema); !errors.Is(err, ErrHasData) {
		t.Errorf("a copy into a store with data: %v, want %v", err, ErrHasData)
	}
	wantOpen(t, schema, nil)
}

func TestOneProcessAtATimeCopies(t *testing.T) {
	t.Parallel()
	schema := pgtest.Shared(t).Schema(t)
	c, err := openCopy(t, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, c.Store)
	write(t, c.Store, usual(t, time.UnixMicro(1_000_000).UTC()))
	if _, err := openCopy(t, schema); !errors.Is(err, ErrCopying) {
		t.Errorf("a second copy: %v, want %v", err, ErrCopying)
	}
	if n := countThreads(t, c.Store); n == 0 {
		t.Error("the second copy removed the rows of the first one")
	}
}

// A copy that has lost its connection has lost its lock too, so another process may copy.
func TestACopyDoesNotReconnect(t *testing.T) {
	c, err := openCopy(t, pgtest.Shared(t).Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, c.Store)
	c.Store.writer.close()
	err = c.Store.Update(t.Context(), func(tx store.Tx) error {
		return tx.Write(&store.Changes{Workers: []*store.Worker{{ID: "w"}}})
	})
	if mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestAStoreThatIsUsedOrHasDataReceivesNoCopy(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	used := func(err error) bool {
		e, ok := errors.AsType[*store.InUseError](err)
		return ok && strings.Contains(e.Error(), "a server on host h with process id 7 uses the store")
	}
	data := func(err error) bool { return errors.Is(err, ErrHasData) }
	for name, x := range map[string]struct {
		rows store.Changes
		want func(error) bool
	}{
		"a server": {store.Changes{Workers: []*store.Worker{{ID: "w", Node: "n", Host: "h", PID: 7,
			LeaseUntil: now.Add(time.Minute)}}}, used},
		"a thread": {store.Changes{Threads: []*mailroom.Thread{{ID: "t"}}}, data},
		"a token":  {store.Changes{Tokens: []*auth.Token{{Name: "ann"}}}, data},
		"a cursor": {store.Changes{Cursors: []store.Cursor{{Channel: "c"}}}, data},
		"what a stopped server leaves": {store.Changes{Workers: []*store.Worker{{ID: "w", Node: "n",
			LeaseUntil: now.Add(time.Minute), Dead: true}, {ID: "v", Node: "n", LeaseUntil: now.Add(-time.Minute)}},
			Definitions: []store.Definition{{Agent: "a"}}}, func(err error) bool {
			return err == nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			schema := pgtest.Shared(t).Schema(t)
			s := openIn(t, schema, "node")
			write(t, s, &x.rows)
			closeStore(t, s)
			c, err := openCopy(t, schema)
			if !x.want(err) {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				wantOpen(t, schema, nil)
				return
			}
			if err := errors.Join(c.Finish(t.Context()), c.Store.Close()); err != nil {
				t.Error(err)
			}
			wantOpen(t, schema, nil)
		})
	}
}

// A copy empties the tables that this list has.
func TestTheListOfTablesIsComplete(t *testing.T) {
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	closeStore(t, openIn(t, schema, "node"))
	conn, err := pgx.Connect(t.Context(), cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for kind, want := range map[string][]string{
		"r": append(rowTables(), "schema_version", "schema_copying", "schema_migrating", "topic", "entry_order", "file",
			"file_piece"), "S": append(keySequences(), "file_key"),
	} {
		rows, err := conn.Query(t.Context(),
			"SELECT relname::text FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = $2", schema, kind)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("relations of kind %s: got %q, want %q", kind, got, want)
		}
	}
}
