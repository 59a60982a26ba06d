package postgres

import (
	"errors"
	"testing"

	"mailroom/internal/pgtest"
	"mailroom/store"
)

// addOne adds one to a meter in a transaction, after the transaction of between.
func addOne(t *testing.T, s *Store, between func()) (calls int) {
	t.Helper()
	update(t, s, func(tx store.Tx) error {
		calls++
		l, err := tx.Load(store.Need{Meters: []string{"m"}})
		if err != nil {
			return err
		}
		if calls == 1 && between != nil {
			between()
		}
		l.Meters[0].Count++
		return tx.Write(&store.Changes{Meters: l.Meters})
	})
	return calls
}

func wantMeter(t *testing.T, s *Store, want int64) {
	t.Helper()
	if err := s.View(t.Context(), func(r store.Reader) error {
		found, err := r.Count(store.CountQuery{Meters: &store.MeterQuery{Keys: []string{"m"}}})
		if err == nil && (len(found.Meters) != 1 || found.Meters[0].Count != want) {
			t.Errorf("got %+v, want one with count %d", found.Meters, want)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestTwoHandlesAddToAMeterThatHadNoRow(t *testing.T) {
	both := handles(t, 2)
	calls := addOne(t, both[0], func() { addOne(t, both[1], nil) })
	if calls != 2 {
		t.Errorf("the handle that came second ran %d times, want 2", calls)
	}
	wantMeter(t, both[0], 2)
}

// The last user of a key drops its meter and the next one inserts it again, so each try of another handle may find no
// row and then a row.
func TestAMeterThatComesAndGoesIsTriedAgain(t *testing.T) {
	both := handles(t, 2)
	calls := 0
	update(t, both[0], func(tx store.Tx) error {
		if calls++; calls > 1 {
			write(t, both[1], &store.Changes{DropMeters: []string{"m"}})
		}
		l, err := tx.Load(store.Need{Meters: []string{"m"}})
		if err != nil {
			return err
		}
		if calls < store.MaxTries {
			addOne(t, both[1], nil)
		}
		l.Meters[0].Count++
		return tx.Write(&store.Changes{Meters: l.Meters})
	})
	if calls != store.MaxTries {
		t.Errorf("it ran %d times, want %d", calls, store.MaxTries)
	}
	wantMeter(t, both[0], 1)
}

func TestHandlesAddToAMeterOneAfterTheOther(t *testing.T) {
	all := handles(t, 3)
	done := make(chan struct{})
	for _, s := range all {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 20 {
				addOne(t, s, nil)
			}
		}()
	}
	for range all {
		<-done
	}
	wantMeter(t, all[0], 60)
}

// A late lock that is refused makes the transaction run again, and its next try waits for the meter with its first
// locks, although its function asks for it as late as before.
func TestAMeterThatIsNeededLateIsLockedFirstByTheNextTry(t *testing.T) {
	schema := pgtest.Shared(t).Schema(t)
	s, other := openIn(t, schema, "a"), openIn(t, schema, "b")
	defer closeStore(t, s)
	defer closeStore(t, other)
	write(t, s, &store.Changes{Meters: []store.Meter{{Key: "m", Count: 1}}})
	held, free, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		update(t, other, func(tx store.Tx) error {
			l, err := tx.Load(store.Need{Meters: []string{"m"}})
			close(held)
			<-free
			l.Meters[0].Count = 10
			return errors.Join(err, tx.Write(&store.Changes{Meters: l.Meters}))
		})
	}()
	<-held
	calls := 0
	update(t, s, func(tx store.Tx) error {
		calls++
		if _, err := tx.Load(store.Need{Threads: []string{"t"}}); err != nil {
			return err
		}
		l, err := tx.Load(store.Need{Meters: []string{"m"}})
		if calls == 1 {
			if err == nil {
				t.Error("a late lock was granted although another handle holds the meter")
			}
			close(free)
			<-ended
		}
		if err != nil {
			return err
		}
		l.Meters[0].Count++
		return tx.Write(&store.Changes{Meters: l.Meters})
	})
	if calls != 2 {
		t.Errorf("the function ran %d times, want 2", calls)
	}
	wantMeter(t, s, 11)
}
