package storetest

import (
	"reflect"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
)

// timesAreCut checks that a store keeps each time of each row in UTC and whole microseconds, as all stores
// do: a copy of the rows in another store is equal.
func timesAreCut(t *testing.T, s *handle) {
	want, c := fullChanges(), fullChanges()
	elsewhere := time.FixedZone("elsewhere", 5*3600+1800)
	if n := changeTimes(reflect.ValueOf(c), func(at time.Time) time.Time {
		return at.Add(999 * time.Nanosecond).In(elsewhere)
	}); n < 30 {
		t.Fatalf("changed %d times, want those of all rows", n)
	}
	c.Entries = nil // entries keep their bytes
	s.write(c)
	got := s.everything()
	for i := range want.Threads {
		want.Threads[i].Key = c.Threads[i].Key
	}
	want.Runs[0].Key, want.Tickets[0].Key, want.Tokens[0].Key = c.Runs[0].Key, c.Tickets[0].Key, c.Tokens[0].Key
	wantSame(t, "threads", got.Threads, []*mailroom.Thread{want.Threads[1], want.Threads[0]})
	wantSame(t, "runs", got.Runs, want.Runs)
	wantSame(t, "tickets", got.Tickets, want.Tickets)
	wantSame(t, "tokens", got.Tokens, want.Tokens)
	wantSame(t, "workers", got.Workers, want.Workers)
	wantSame(t, "pauses", got.Pauses, want.Pauses)
	wantSame(t, "cursors", got.Cursors, want.Cursors)
	wantSame(t, "reservations", got.Reserved, want.Reservations)
	wantSame(t, "summaries", got.Ended, want.Summaries)
	wantSame(t, "meters", got.Meters, want.Meters)
	changeTimes(reflect.ValueOf(&got), func(at time.Time) time.Time {
		if at.Location() != time.UTC {
			t.Errorf("read %v, want UTC", at)
		}
		return at
	})

	zero := time.Time{}
	s.write(
		&store.Changes{Tickets: []*mailroom.Ticket{{ID: "zero", Thread: "t", Run: "r", ExpiresAt: &zero, DecidedAt: &zero}},
			Tokens: []*auth.Token{{Name: "empty", Scopes: []auth.Permission{}, Agents: []string{},
				Terms: auth.Terms{Scopes: []auth.Permission{}, Threads: []string{}}}}})
	got = s.everything()
	for _, k := range got.Tickets {
		if k.ID == "zero" && (k.ExpiresAt != nil || k.DecidedAt != nil) {
			t.Errorf("a zero time was read as %v and %v, want none", k.ExpiresAt, k.DecidedAt)
		}
	}
	for _, row := range got.Tokens {
		if row.Name == "empty" && (row.Terms.Scopes != nil || row.Terms.Threads != nil) {
			t.Errorf("empty terms were read as %+v, want nil", row.Terms)
		}
	}
}

// changeTimes calls change for each time in v that is not zero, and returns how many there are.
func changeTimes(v reflect.Value, change func(time.Time) time.Time) (n int) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return changeTimes(v.Elem(), change)
	case reflect.Slice:
		for i := range v.Len() {
			n += changeTimes(v.Index(i), change)
		}
	case reflect.Struct:
		if !v.CanAddr() {
			return 0
		}
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			if !at.IsZero() {
				*at = change(*at)
				n = 1
			}
			return n
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				n += changeTimes(f, change)
			}
		}
	}
	return n
}
