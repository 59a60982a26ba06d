package postgres

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/storetest"
)

// count is an Update that adds 1 to a thread's NextPlace. calls counts the calls of its function.
func count(t *testing.T, s *Store, id string, calls *int) error {
	return s.Update(t.Context(), func(tx store.Tx) error {
		*calls++
		_, rows, err := storetest.Lock(tx, nil, []string{id})
		if err != nil {
			return err
		}
		rows[0].NextPlace++
		rows[0].Revision++
		return tx.Write(&store.Changes{Threads: rows})
	})
}

func counted(t *testing.T, s *Store, id string) (n int64) {
	t.Helper()
	err := s.View(t.Context(), func(r store.Reader) error {
		rows, err := r.Threads(store.ThreadQuery{IDs: []string{id}})
		if len(rows) == 1 {
			n = rows[0].NextPlace
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.ending.Wait() // until the view's connection has ended its last trip
	return n
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// An Update has two trips; the second one sends COMMIT. If the connection is lost in the first trip, the store runs the
// function again. If it is lost in the second trip, the outcome of the Update is unknown.
func TestALostConnectionNeverHidesAnOutcome(t *testing.T) {
	cluster := pgtest.Shared(t)
	for _, c := range []struct {
		name    string
		trip    int
		with    pgtest.Fate
		code    mailroom.Code // "": the caller does not notice
		written int64
	}{
		{"the request to lock is lost", 1, pgtest.DropRequest, "", 2},
		{"the request to lock arrives in part", 1, pgtest.HalfRequest, "", 2},
		{"the answer to the lock is lost", 1, pgtest.LoseAnswer, "", 2},
		{"the server leaves before the lock", 1, pgtest.ServerLeaves, "", 2},
		{"the commit is lost", 2, pgtest.DropRequest, mailroom.CodeUnavailable, 1},
		{"the writes arrive without the commit", 2, pgtest.HalfRequest, mailroom.CodeUnavailable, 1},
		{"the answer to the commit is lost", 2, pgtest.LoseAnswer, mailroom.CodeUnavailable, 2},
		{"the server leaves before the commit", 2, pgtest.ServerLeaves, mailroom.CodeUnavailable, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pgtest.StartProxy(t, cluster)
			s, err := Open(t.Context(), Options{URL: p.URL(), Schema: cluster.Schema(t), AllowUnsafe: true})
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, s)
			calls := 0
			for range 2 { // prepares the statements: the first calls make other trips than later ones
				if err := count(t, s, "t", &calls); err != nil {
					t.Fatal(err)
				}
			}
			before := counted(t, s, "t")
			epoch := s.Epoch()
			calls = 0
			p.Cut(c.trip, c.with)
			err = count(t, s, "t", &calls)
			if got := mailroom.CodeOf(err); got != c.code {
				t.Errorf("got error %v, want one of code %q", err, c.code)
			}
			if want := c.trip%2 + 1; calls != want {
				t.Errorf("got %d calls of the function, want %d", calls, want)
			}
			p.Cut(0, pgtest.Pass)
			if got, want := counted(t, s, "t"), before+c.written-1; got != want {
				t.Errorf("got count %d after the fault, want %d", got, want)
			}
			if err := count(t, s, "t", &calls); err != nil {
				t.Errorf("after the fault: %v", err)
			}
			if s.Epoch() == epoch {
				t.Error("the epoch did not change with the connection")
			}
		})
	}
}

// A store whose process is paused between its trips holds its locks until the server ends the
// session. Its transaction runs again.
func TestAPausedTransactionReleasesItsLocksAndRunsAgain(t *testing.T) {
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	paused, err := Open(t.Context(), Options{URL: cluster.URL(), Schema: schema, Node: "a",
		IdleInTransaction: 50 * time.Millisecond, AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, paused)
	other := openIn(t, schema, "b")
	defer closeStore(t, other)
	calls, others := 0, 0
	err = paused.Update(t.Context(), func(tx store.Tx) error {
		calls++
		_, rows, err := storetest.Lock(tx, nil, []string{"t"})
		if err != nil {
			return err
		}
		if others == 0 { // also in a later call, if this process got no processor for 50 ms before
			if err := tx.Write(&store.Changes{Threads: rows}); err != nil {
				return err
			}
			if _, err := tx.Threads(store.ThreadQuery{}); err != nil { // sends the write: the row is locked
				return err
			}
			return count(t, other, "t", &others) // waits for the lock
		}
		rows[0].NextPlace += 10
		return tx.Write(&store.Changes{Threads: rows})
	})
	// A process that gets no processor for 50 ms is silent too, so the second call can be ended as well.
	if err != nil || calls < 2 {
		t.Errorf("got error %v after %d calls, want none after a second one", err, calls)
	}
	if got := counted(t, other, "t"); got != 11 {
		t.Errorf("got count %d, want 11: one of the other handle and ten of the call that was not silent", got)
	}
}

// PostgreSQL does not know that a store will not send the rest of a trip, because its process is paused
// or the network lost it, and its limit for silent transactions does not apply within a trip.
func TestAStoreEndsATripOfAnotherThatArrivedInPart(t *testing.T) {
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	p := pgtest.StartProxy(t, cluster)
	options := Options{URL: p.URL(), Schema: schema, Node: "a", AllowUnsafe: true}
	stalled, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, stalled)
	options.URL, options.Node, options.IdleInTransaction, options.LockTimeout = cluster.URL(), "b", 50*time.Millisecond,
		50*time.Millisecond
	other, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, other)
	ids := []string{"t"}
	for i := range flushBytes / 10 { // their ids need more than one write
		ids = append(ids, fmt.Sprintf("thread-%04d", i))
	}
	update := func() error {
		return stalled.Update(t.Context(), func(tx store.Tx) error {
			_, rows, err := storetest.Lock(tx, nil, ids)
			if err != nil {
				return err
			}
			for _, row := range rows {
				row.NextPlace++
				row.Revision++
			}
			return tx.Write(&store.Changes{Threads: rows})
		})
	}
	calls := 0
	for range 2 { // prepares the statements
		if err := update(); err != nil {
			t.Fatal(err)
		}
	}
	for trip := 1; trip <= 2; trip++ {
		p.Cut(trip, pgtest.StallRequest)
		done := make(chan error, 1)
		go func() { done <- update() }()
		waitLocked(t, cluster, schema, done)
		for tries := 0; tries == 0 || tries < 100 && isLocked(err); tries++ {
			err = count(t, other, "t", &calls)
		}
		if err != nil {
			t.Errorf("trip %d: another handle: %v", trip, err)
		}
		p.Cut(0, pgtest.Pass)
		if err := <-done; trip == 1 && err != nil || trip == 2 && mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			t.Errorf("trip %d: got error %v", trip, err)
		}
	}
}

// waitLocked waits until another session has locked thread t. The test fails if done receives first, which means that
// the Update of this session has ended.
func waitLocked(t *testing.T, cluster *pgtest.Cluster, schema string, done <-chan error) {
	t.Helper()
	for {
		free, err := cluster.Select(t.Context(), "SELECT id FROM "+schema+
			".thread WHERE id = 't' FOR NO KEY UPDATE SKIP LOCKED")
		if err != nil {
			t.Fatal(err)
		}
		if len(free) == 0 {
			return
		}
		select {
		case err := <-done:
			t.Fatalf("the trip was not stalled: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

func isLocked(err error) bool {
	var locked *store.LockedError
	return errors.As(err, &locked)
}

func TestAViewSurvivesTheEndOfIdleConnections(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Durable(t)
	s, err := Open(t.Context(), Options{URL: cluster.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	calls := 0
	if err := count(t, s, "t", &calls); err != nil {
		t.Fatal(err)
	}
	counted(t, s, "t")
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := counted(t, s, "t"); got != 1 {
		t.Errorf("after a restart of the server: got count %d, want 1", got)
	}
	if err := count(t, s, "t", &calls); err != nil {
		t.Errorf("after a restart of the server: %v", err)
	}
}

// Three handles count while the test kills the server and ends their connections. The final count includes every
// acknowledged commit, and beyond these at most the commits with an unknown outcome.
func TestAcknowledgedCommitsSurviveKillsOfTheServer(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Durable(t)
	const handles, each = 3, 40
	var acknowledged, unknown [handles]int64
	var all sync.WaitGroup
	done := make(chan struct{}, handles*each)
	for i := range handles {
		s, err := Open(t.Context(), Options{URL: cluster.URL(), Node: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		defer closeStore(t, s)
		all.Go(func() {
			calls := 0
			for range each {
				for {
					err := count(t, s, "t", &calls)
					if err == nil {
						acknowledged[i]++
						break
					}
					if mailroom.CodeOf(err) != mailroom.CodeUnavailable {
						t.Errorf("got error %v", err)
						return
					}
					unknown[i]++
					<-time.After(5 * time.Millisecond)
				}
				done <- struct{}{}
			}
		})
	}
	for round := range 4 {
		for range handles * 5 {
			<-done
		}
		var err error
		if round%2 == 0 {
			err = errors.Join(cluster.Kill(), cluster.Restart(t.Context()))
		} else {
			_, err = cluster.Terminate(t.Context(), "mailroom")
		}
		if err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	s, err := Open(t.Context(), Options{URL: cluster.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	least, most := int64(0), int64(0)
	for i := range handles {
		least, most = least+acknowledged[i], most+acknowledged[i]+unknown[i]
	}
	if got := counted(t, s, "t"); got < least || got > most {
		t.Errorf("got count %d, want %d acknowledged, and at most %d with the unknown ones", got, least, most)
	}
}

// TestAStoreEndsATripOfAnotherThatHoldsOtherRows stalls a store in the middle of a trip, after it has locked the row of
// a topic or of a worker, and before it locks a thread.
func TestAStoreEndsATripOfAnotherThatHoldsOtherRows(t *testing.T) {
	cluster := pgtest.Shared(t)
	for name, need := range map[string]store.Need{
		"topic": {Topics: []string{"x"}}, "worker": {Workers: []string{"w"}, Pauses: true},
	} {
		t.Run(name, func(t *testing.T) {
			schema := cluster.Schema(t)
			p := pgtest.StartProxy(t, cluster)
			options := Options{URL: p.URL(), Schema: schema, Node: "a", AllowUnsafe: true}
			stalled, err := Open(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, stalled)
			options.URL, options.Node, options.IdleInTransaction, options.LockTimeout = cluster.URL(), "b",
				50*time.Millisecond, 50*time.Millisecond
			other, err := Open(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, other)
			write(t, other, &store.Changes{Workers: []*store.Worker{{ID: "w"}}})
			load := func(s *Store, need store.Need) error {
				return s.Update(t.Context(), func(tx store.Tx) error {
					_, err := tx.Load(need)
					return err
				})
			}
			for range 2 { // prepares the statements
				if err := load(stalled, need); err != nil {
					t.Fatal(err)
				}
			}
			p.Cut(1, pgtest.StallRequest)
			done := make(chan error, 1)
			go func() { done <- load(stalled, need) }()
			awaitStalled(t, cluster, schema, done)
			if err := load(other, need); err != nil {
				t.Errorf("another handle: %v", err)
			}
			p.Cut(0, pgtest.Pass)
			if err := <-done; err != nil {
				t.Errorf("the stalled handle, which tries again: %v", err)
			}
		})
	}
}

// awaitStalled waits until a session has locked rows of the schema and PostgreSQL waits for the rest of the session's
// trip. The test fails if done receives first, which means that the Update of this session has ended.
func awaitStalled(t *testing.T, cluster *pgtest.Cluster, schema string, done <-chan error) {
	t.Helper()
	for {
		held, err := cluster.Select(t.Context(), `SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			JOIN pg_class c ON c.oid = l.relation WHERE c.relnamespace = '`+schema+`'::regnamespace
			AND l.mode = 'RowShareLock' AND a.state = 'active' AND a.wait_event = 'ClientRead'`)
		if err != nil {
			t.Fatal(err)
		}
		if len(held) > 0 {
			return
		}
		select {
		case err := <-done:
			t.Fatalf("the trip was not stalled: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}
