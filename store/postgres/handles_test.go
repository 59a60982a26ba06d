package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/storetest"
)

// handles opens so many handles on one new schema.
func handles(t *testing.T, n int) (all []*Store) {
	t.Helper()
	schema := pgtest.Shared(t).Schema(t)
	for i := range n {
		s := openIn(t, schema, fmt.Sprint("node", i))
		t.Cleanup(func() { closeStore(t, s) })
		all = append(all, s)
	}
	return all
}

func update(t *testing.T, s *Store, f func(tx store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), f); err != nil {
		t.Errorf("update: %v", err)
	}
}

func write(t *testing.T, s *Store, c *store.Changes) {
	t.Helper()
	update(t, s, func(tx store.Tx) error { return tx.Write(c) })
}

func writerOf(t store.Tx) *tx { return t.(*tx) }

func due(id, agent string, at time.Time) *mailroom.Thread {
	return &mailroom.Thread{ID: id, Due: mailroom.Due{At: at, Agent: agent}}
}

func TestTwoHandlesCreateAThreadOnce(t *testing.T) {
	both := handles(t, 2)
	calls, others := 0, 0
	update(t, both[0], func(tx store.Tx) error {
		calls++
		_, rows, err := storetest.Lock(tx, nil, []string{"t"})
		if err != nil {
			return err
		}
		if calls == 1 {
			if err := count(t, both[1], "t", &others); err != nil {
				return err
			}
		}
		rows[0].NextPlace++
		return tx.Write(&store.Changes{Threads: rows})
	})
	if got := counted(t, both[0], "t"); got != 2 || calls != 2 {
		t.Errorf("got count %d after %d calls, want 2 after 2", got, calls)
	}
}

// Each try of the first handle finds that the second one has created another one of its threads.
func TestAnUpdateMeetsAnotherHandleAtEachOfItsThreads(t *testing.T) {
	both := handles(t, 2)
	names := []string{"a", "b", "c", "d", "e"}
	calls, others := 0, 0
	update(t, both[0], func(tx store.Tx) error {
		_, rows, err := storetest.Lock(tx, nil, names)
		if err != nil {
			return err
		}
		if calls < len(names) {
			if err := count(t, both[1], names[calls], &others); err != nil {
				return err
			}
		}
		calls++
		for _, row := range rows {
			row.NextPlace++
		}
		return tx.Write(&store.Changes{Threads: rows})
	})
	if calls != len(names)+1 || others != len(names) {
		t.Errorf("the second handle created %d threads in %d calls of the first one, want %d in %d", others, calls,
			len(names), len(names)+1)
	}
	for _, name := range names {
		if got := counted(t, both[0], name); got != 2 {
			t.Errorf("%s has count %d, want 2", name, got)
		}
	}
}

func TestALockAfterTheFirstDoesNotWait(t *testing.T) {
	both := handles(t, 2)
	write(t, both[0], &store.Changes{Threads: []*mailroom.Thread{{ID: "a"}, {ID: "b"}}})
	calls := 0
	locked, release := make(chan struct{}), make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		update(t, both[1], func(tx store.Tx) error {
			_, _, err := storetest.Lock(tx, nil, []string{"b"})
			close(locked)
			<-release
			return err
		})
	})
	<-locked
	update(t, both[0], func(tx store.Tx) error {
		calls++
		if _, _, err := storetest.Lock(tx, nil, []string{"a"}); err != nil {
			return err
		}
		_, rows, err := storetest.Lock(tx, nil, []string{"b"})
		if calls == 1 {
			if err == nil {
				t.Error("a row that another transaction has locked was locked too")
			}
			close(release)
			other.Wait()
		}
		if err != nil {
			return err
		}
		rows[0].NextPlace = 7
		return tx.Write(&store.Changes{Threads: rows})
	})
	if got := counted(t, both[0], "b"); got != 7 || calls != 2 {
		t.Errorf("got count %d after %d calls, want 7 after 2", got, calls)
	}
}

// LockTimeout lets a handle wait a minute for its first lock. A wait for a later lock would end its connection, because
// a trip may take eight seconds at most.
func TestALoadAfterTheFirstDoesNotWaitForALock(t *testing.T) {
	for name, need := range map[string]store.Need{
		"a thread": {Threads: []string{"b"}}, "a worker": {Workers: []string{"w"}}, "a topic": {Topics: []string{"tokens"}},
		"a meter": {Meters: []string{"m"}},
	} {
		t.Run(name, func(t *testing.T) {
			schema := pgtest.Shared(t).Schema(t)
			other := openIn(t, schema, "other")
			defer closeStore(t, other)
			patient, err := Open(t.Context(), Options{URL: pgtest.Shared(t).URL(), Schema: schema, Node: "patient",
				LockTimeout: time.Minute, IdleInTransaction: 5 * time.Minute, AllowUnsafe: true})
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, patient)
			write(t, patient, &store.Changes{Threads: []*mailroom.Thread{{ID: "a"}, {ID: "b"}},
				Workers: []*store.Worker{{ID: "w"}}, Meters: []store.Meter{{Key: "m"}}})
			epoch, calls := patient.Epoch(), 0
			locked, release := make(chan struct{}), make(chan struct{})
			var holder sync.WaitGroup
			holder.Go(func() {
				update(t, other, func(tx store.Tx) error {
					_, err := tx.Load(need)
					close(locked)
					<-release
					return err
				})
			})
			<-locked
			update(t, patient, func(tx store.Tx) error {
				calls++
				if _, err := tx.Load(store.Need{Threads: []string{"a"}}); err != nil {
					return err
				}
				_, err := tx.Load(need)
				if calls == 1 {
					if err == nil {
						t.Error("what another transaction has locked was locked too")
					}
					close(release)
					holder.Wait()
				}
				return err
			})
			if calls != 2 || patient.Epoch() != epoch {
				t.Errorf("%d calls, epoch %d after %d, want 2 calls over one connection", calls, patient.Epoch(), epoch)
			}
		})
	}
}

// A Load that waits for the lock of a thread returns what the other transaction wrote: the thread's row, and the rows
// of its runs and keys.
func TestALoadThatWaitedForALockReturnsTheRowsOfTheOtherTransaction(t *testing.T) {
	both := handles(t, 2)
	write(t, both[0], &store.Changes{Threads: []*mailroom.Thread{{ID: "t"}}})
	var loaded *store.Loaded
	var waiting sync.WaitGroup
	update(t, both[0], func(tx store.Tx) error {
		_, rows, err := storetest.Lock(tx, nil, []string{"t"})
		if err != nil {
			return err
		}
		waiting.Go(func() {
			update(t, both[1], func(tx store.Tx) (err error) {
				loaded, err = tx.Load(store.Need{Threads: []string{"t"}, Queues: []string{"t"},
					Keys: []store.KeyRef{{Thread: "t", Key: "k"}}})
				return err
			})
		})
		for waits := 0; waits == 0; {
			err := writerOf(tx).query("find the waiting transaction", func(c *columns) error {
				waits = c.Int()
				return nil
			}, "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))")
			if err != nil {
				return err
			}
		}
		rows[0].Current, rows[0].Revision = "r", 1
		return tx.Write(&store.Changes{
			Threads: rows, Keys: []store.SubmitKey{{Thread: "t", Key: "k"}},
			Runs: []*mailroom.Run{{ID: "r", Thread: "t", Status: mailroom.StatusRunning},
				{ID: "q", Thread: "t", Status: mailroom.StatusQueued}},
		})
	})
	waiting.Wait()
	if len(loaded.Threads) != 1 || loaded.Threads[0].Current != "r" || len(loaded.Keys) != 1 ||
		len(loaded.Runs) != 1 || loaded.Runs[0].ID != "r" || len(loaded.Heads) != 1 || len(loaded.Heads[0].Runs) != 1 {
		t.Errorf("got %+v after the wait, want the thread with its run, its queue and the key", loaded)
	}
}

func TestALockThatIsNotReleasedNamesItsThreads(t *testing.T) {
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	holder := openIn(t, schema, "a")
	defer closeStore(t, holder)
	for name, c := range map[string]struct {
		timeout time.Duration
		noWait  []string
	}{
		"waits for the timeout":         {time.Millisecond, nil},
		"does not wait if asked not to": {time.Hour, []string{"held"}},
	} {
		t.Run(name, func(t *testing.T) {
			waiting, err := Open(t.Context(), Options{URL: cluster.URL(), Schema: schema, Node: "b", LockTimeout: c.timeout,
				AllowUnsafe: true})
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, waiting)
			write(t, holder, &store.Changes{Threads: []*mailroom.Thread{{ID: "held"}, {ID: "free"}},
				DropThreads: []string{"held", "free"}})
			update(t, holder, func(tx store.Tx) error {
				if _, _, err := storetest.Lock(tx, nil, []string{"held"}); err != nil {
					return err
				}
				need := store.Need{Threads: []string{"free", "held", "none"}, NoWait: c.noWait}
				err := waiting.Update(t.Context(), func(tx store.Tx) error {
					_, err := tx.Load(need)
					return err
				})
				locked, ok := errors.AsType[*store.LockedError](err)
				if !ok || !slices.Equal(locked.Threads, []string{"held"}) {
					t.Errorf("got error %v, want one that names the locked thread", err)
				}
				calls := 0
				return count(t, waiting, "free", &calls) // its connection is usable
			})
		})
	}
}

func TestDueSkipsWhatOthersHaveLocked(t *testing.T) {
	both := handles(t, 2)
	at := time.UnixMicro(1_000_000).UTC()
	write(t, both[0],
		&store.Changes{Threads: []*mailroom.Thread{due("a", "x", at), due("b", "x", at), due("c", "x", at),
			due("d", "x", at)}})
	ask := func(tx store.Tx, want store.Capacity) (ids []string) {
		rows, _, err := storetest.Due(tx, at, []store.Capacity{want})
		if err != nil {
			t.Error(err)
		}
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		return ids
	}
	for _, share := range []*store.Share{nil, {Most: 9}} {
		update(t, both[0], func(tx store.Tx) error {
			first := ask(tx, store.Capacity{Agent: "x", Slots: 2, Share: share})
			update(t, both[1], func(tx store.Tx) error {
				second := ask(tx, store.Capacity{Agent: "x", Slots: 9, Share: share})
				if got, want := slices.Concat(first, second), []string{"a", "b", "c", "d"}; !slices.Equal(got, want) {
					t.Errorf("got due threads %v and %v, want %v in all", first, second, want)
				}
				return nil
			})
			return nil
		})
	}
}

func TestATopicIsHeldByOneTransaction(t *testing.T) {
	all := handles(t, 3)
	const each = 20
	var writers sync.WaitGroup
	for _, s := range all {
		writers.Go(func() {
			for range each {
				update(t, s, func(tx store.Tx) error {
					if _, err := tx.Load(store.Need{Topics: []string{"tokens", "other"}}); err != nil {
						return err
					}
					rows, err := tx.Tokens("n")
					if err != nil {
						return err
					}
					row := &auth.Token{Name: "n"}
					if len(rows) > 0 {
						row = rows[0]
					}
					row.Agents = append(row.Agents, "x")
					return tx.Write(&store.Changes{Tokens: []*auth.Token{row}})
				})
			}
		})
	}
	writers.Wait()
	err := all[0].View(t.Context(), func(r store.Reader) error {
		rows, err := r.Tokens()
		if len(rows) != 1 || len(rows[0].Agents) != len(all)*each {
			t.Errorf("got tokens %v, want one with %d changes", rows, len(all)*each)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Each handle adds to counts of its own, so that no commit waits for another's; readers add them up.
func TestHandlesAddUpTheirCountsAndTheirUse(t *testing.T) {
	all := handles(t, 3)
	write(t, all[0], &store.Changes{Tokens: []*auth.Token{{Name: "ann", Used: auth.Use{Bytes: 5}}}})
	var writers sync.WaitGroup
	for i, s := range all {
		writers.Go(func() {
			for n := range 10 {
				id := fmt.Sprint(i, " ", n)
				write(t, s, &store.Changes{
					Threads: []*mailroom.Thread{{ID: id, Owner: "ann", LastSeq: 1}},
					Runs:    []*mailroom.Run{{ID: id, Thread: id, Agent: "x", Status: mailroom.StatusQueued, FirstSeq: 1}},
					Use:     []store.UseChange{{Token: "ann", Add: auth.Use{Threads: 1}}},
				})
			}
		})
	}
	writers.Wait()
	// One handle drops what another wrote.
	write(t, all[1], &store.Changes{DropThreads: []string{"0 0", "2 5"},
		Use: []store.UseChange{{Token: "ann", Add: auth.Use{Threads: -2}}}})
	for _, s := range all {
		err := s.View(t.Context(), func(r store.Reader) error {
			owner := "ann"
			got, err := r.Count(store.CountQuery{Owner: &owner})
			tokens, e := r.Tokens("ann")
			if len(tokens) != 1 || tokens[0].Used != (auth.Use{Threads: 28, Bytes: 5}) || got.Threads != 28 ||
				got.Runs[mailroom.StatusQueued] != 28 {
				t.Errorf("got counts %+v and tokens %v, want 28 threads and runs", got, tokens)
			}
			return errors.Join(err, e)
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestRunsOfAThreadHaveGrowingKeysWhicheverHandleWrites(t *testing.T) {
	all := handles(t, 3)
	write(t, all[0], &store.Changes{Threads: []*mailroom.Thread{{ID: "t"}}})
	const each = 15
	var writers sync.WaitGroup
	for _, s := range all {
		writers.Go(func() {
			for range each {
				update(t, s, func(tx store.Tx) error {
					_, rows, err := storetest.Lock(tx, nil, []string{"t"})
					if err != nil {
						return err
					}
					rows[0].LastSeq++
					return tx.Write(&store.Changes{Threads: rows, Runs: []*mailroom.Run{{
						ID: fmt.Sprint(rows[0].LastSeq), Thread: "t", FirstSeq: rows[0].LastSeq, Status: mailroom.StatusQueued,
					}}})
				})
			}
		})
	}
	writers.Wait()
	err := all[0].View(t.Context(), func(r store.Reader) error {
		runs, err := r.Runs(store.RunQuery{Thread: "t", Oldest: true})
		for i, run := range runs {
			if run.FirstSeq != int64(i+1) {
				t.Errorf("the run with the %d. key has FirstSeq %d", i+1, run.FirstSeq)
			}
		}
		if len(runs) != len(all)*each {
			t.Errorf("got %d runs, want %d", len(runs), len(all)*each)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Handles that lock the same threads in different orders do not wait in a cycle.
func TestLocksInAnyOrderCauseNoDeadlock(t *testing.T) {
	all := handles(t, 3)
	ids := []string{"a", "b", "c", "d", "e"}
	var writers sync.WaitGroup
	for i, s := range all {
		writers.Go(func() {
			for n := range 20 {
				order := slices.Clone(ids)
				for j := range order { // another order in each round
					k := (j*7 + i + n) % len(order)
					order[j], order[k] = order[k], order[j]
				}
				update(t, s, func(tx store.Tx) error {
					_, rows, err := storetest.Lock(tx, nil, order)
					if err != nil {
						return err
					}
					for _, row := range rows {
						row.NextPlace++
					}
					return tx.Write(&store.Changes{Threads: rows})
				})
			}
		})
	}
	writers.Wait()
	for _, id := range ids {
		if got, want := counted(t, all[0], id), int64(len(all)*20); got != want {
			t.Errorf("thread %s: got count %d, want %d", id, got, want)
		}
	}
	var deadlocks int
	if err := all[0].writer.conn.QueryRow(context.Background(),
		"SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks); err != nil ||
		deadlocks > 0 {
		t.Errorf("got %d deadlocks and error %v, want none", deadlocks, err)
	}
}

// The second call locks what the first one needed late, with its first rows.
func TestALateLockThatIsNotReleasedIsNamedAfterASecondCall(t *testing.T) {
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	holder := openIn(t, schema, "a")
	defer closeStore(t, holder)
	other, err := Open(t.Context(), Options{URL: cluster.URL(), Schema: schema, Node: "b", LockTimeout: time.Millisecond,
		AllowUnsafe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, other)
	write(t, holder, &store.Changes{Threads: []*mailroom.Thread{{ID: "first"}, {ID: "late"}}})
	calls := 0
	update(t, holder, func(tx store.Tx) error {
		if _, _, err := storetest.Lock(tx, nil, []string{"late"}); err != nil {
			return err
		}
		err := other.Update(t.Context(), func(tx store.Tx) error {
			calls++
			if _, _, err := storetest.Lock(tx, nil, []string{"first"}); err != nil {
				return err
			}
			_, _, err := storetest.Lock(tx, nil, []string{"late"})
			return err
		})
		locked, ok := errors.AsType[*store.LockedError](err)
		if !ok || !slices.Equal(locked.Threads, []string{"late"}) || calls != 2 {
			t.Errorf("got error %v after %d calls, want one that names the thread after 2", err, calls)
		}
		return nil
	})
}
