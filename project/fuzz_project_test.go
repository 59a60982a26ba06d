package project

import (
	"slices"
	"testing"
	"time"

	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
)

// FuzzProject runs random operations of agents in a project, two bytes for each. Incompatible
// reservations are never active together, fences grow, the rows agree with the log, and a refusal
// changes nothing.
func FuzzProject(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x01\x01\x00\x02\x00\x03\x00"))
	f.Add([]byte("\x00\x01\x05\x00\x00\x05\x00\x8a\x04\xff\x04\xff\x00\x8a\x00\x87"))
	f.Add([]byte("\x00\x11\x00\x22\x04\xff\x00\x33\x01\x01"))
	names := []string{"a", "a/b", "a/*", "**", "b", "?"}
	holders, tokens := []string{"x", "y"}, []*auth.Token{tokenOf("ann", auth.PermissionSubmit),
		tokenOf("bob", auth.PermissionAdmin)}
	f.Fuzz(func(t *testing.T, script []byte) {
		a := newProjectFixture(t)
		a.Create(tokens[0], a.now)
		a.Thread.Key = 1
		var seen []store.Reservation // reservations of an earlier snapshot
		for len(script) > 1 {
			op, detail := script[0]%6, int(script[1])
			script = script[2:]
			by, holder, name := tokens[detail&1], holders[detail>>1&1], names[detail>>2%8%len(names)]
			before, entries := a.rows(), len(a.Thread.Entries())
			var err error
			switch op {
			case 0:
				in := Reserve{Project: "p", Names: []string{name}, Holder: holder, By: by, TTL: time.Minute, Shared: detail&32 > 0,
					Advisory: detail&64 > 0}
				if detail&128 > 0 {
					if err = in.Check(); err == nil {
						in.Compare(&a.Thread.Thread, seen)
					}
				}
				_, err = a.Reserve(in, a.now)
			case 1:
				_, err = a.Renew(a.any(detail), by, time.Duration(detail)*time.Second, a.now)
			case 2:
				_, err = a.Release(a.any(detail), by, detail&4 > 0, a.now)
			case 3:
				_, err = a.ReleaseNames(holder, []string{name}, by, a.now)
			case 5:
				seen = a.rows()
			case 4:
				a.now = a.now.Add(time.Duration(detail) * time.Second)
			}
			if err != nil && (!slices.Equal(before, a.rows()) || len(a.Thread.Entries()) != entries) {
				t.Fatalf("operation %d was refused (%v) but changed %+v to %+v", op, err, before, a.rows())
			}
			a.checkInvariants()
		}
	})
}

// any returns the id of a reservation, or an unknown id.
func (a *projectFixture) any(n int) string {
	if n %= a.held.Len() + 1; n < a.held.Len() {
		return a.held.rows[n].ID
	}
	return "none"
}

// checkInvariants compares the rows with each other, with the log, and with the collected changes.
func (a *projectFixture) checkInvariants() {
	a.t.Helper()
	logged, last := map[string]bool{}, int64(0)
	for _, e := range a.Thread.Entries() {
		var taken store.Reservation
		var end store.ReservationEnd
		switch e.Kind {
		case entry.KindReserved:
			if err := e.Decode(&taken); err != nil || taken.Fence != e.Seq || taken.Fence <= last {
				a.t.Fatalf("entry %d reserves %+v, %v; want fence %d, greater than %d", e.Seq, taken, err, e.Seq, last)
			}
			last, logged[taken.ID] = taken.Fence, true
		default:
			if err := e.Decode(&end); err != nil || !logged[end.Reservation] {
				a.t.Fatalf("entry %d ends an unknown reservation: %+v, %v", e.Seq, end, err)
			}
			delete(logged, end.Reservation)
		}
	}
	var c store.Changes
	a.Collect(&c)
	written := map[string]bool{}
	for _, r := range c.Reservations {
		written[r.ID] = true
	}
	for i, r := range a.rows() {
		if !logged[r.ID] || !written[r.ID] {
			a.t.Fatalf("reservation %s: in the log %t, written %t; want both", r.ID, logged[r.ID], written[r.ID])
		}
		for _, other := range a.rows()[:i] {
			if Conflict(&r, &other, a.now) {
				a.t.Fatalf("conflicting reservations: %+v and %+v", r, other)
			}
		}
	}
	if len(logged) != a.held.Len() || len(c.Reservations) != a.held.Len() {
		a.t.Fatalf("%d reservations in the log, %d written, %d rows", len(logged), len(c.Reservations), a.held.Len())
	}
}
