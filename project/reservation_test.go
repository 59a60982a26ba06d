package project

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// projectFixture is a project at a settable time.
type projectFixture struct {
	*State
	t   *testing.T
	now time.Time
}

func newProjectFixture(t *testing.T) *projectFixture {
	p := Load(thread.NewState(&mailroom.Thread{ID: "project:p"}), "echo", NewIndex(nil))
	return &projectFixture{p, t, time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
}

func tokenOf(name string, scopes ...auth.Permission) *auth.Token {
	return &auth.Token{Name: name, Scopes: scopes}
}

// owner returns the token that owns the project.
func owner() *auth.Token { return tokenOf("ann", auth.PermissionSubmit) }

func (a *projectFixture) request(holder string, names ...string) Reserve {
	return Reserve{Project: "p", Names: names, Holder: holder, By: owner(), TTL: time.Minute}
}

// rows returns copies of the current reservations.
func (a *projectFixture) rows() []store.Reservation {
	rows := []store.Reservation{}
	for _, r := range a.held.rows {
		rows = append(rows, *r)
	}
	return rows
}

// release ends the reservations of x with these names.
func (a *projectFixture) release(by *auth.Token, names ...string) []store.Reservation {
	a.t.Helper()
	ended, err := a.ReleaseNames("x", names, by, a.now)
	if err != nil {
		a.t.Error(err)
	}
	return ended
}

func (a *projectFixture) must(in Reserve) Reserved {
	a.t.Helper()
	out, err := a.Reserve(in, a.now)
	if err != nil {
		a.t.Fatalf("Reserve(%s, %v): %v", in.Holder, in.Names, err)
	}
	return out
}

func (a *projectFixture) refused(in Reserve, code mailroom.Code, message string) {
	a.t.Helper()
	seq := a.Thread.LastSeq
	_, err := a.Reserve(in, a.now)
	if mailroom.CodeOf(err) != code || !strings.Contains(err.Error(), message) {
		a.t.Errorf("Reserve(%s, %v): %v, want %s with %q", in.Holder, in.Names, err, code, message)
	}
	if a.Thread.LastSeq != seq {
		a.t.Error("a refused Reserve wrote entries")
	}
}

func (a *projectFixture) kinds() string {
	var kinds []string
	for _, e := range a.Thread.Entries() {
		kinds = append(kinds, strings.TrimPrefix(e.Kind, "reservation."))
	}
	return strings.Join(kinds, " ")
}

func TestAnExclusiveReservationExcludesOthers(t *testing.T) {
	a := newProjectFixture(t)
	first := a.must(a.request("x", "src/**", "./docs/a.md")).Granted
	if len(first) != 2 || first[0].Fence != 1 || first[1].Fence != 2 || first[1].Name != "docs/a.md" ||
		first[0].ExpiresAt != a.now.Add(time.Minute) {
		t.Errorf("Granted = %+v, want src/** and docs/a.md for a minute", first)
	}
	a.refused(a.request("y", "src/main.go"), mailroom.CodeConflict, "src/** is reserved by x until 2026-01-02T12:01:00Z")
	a.refused(a.request("y", "free", "docs/*"), mailroom.CodeConflict, "docs/a.md is reserved by x") // all or none
	_, err := a.Reserve(a.request("y", "src/main.go"), a.now)
	if held, ok := errors.AsType[*ReservedError](err); !ok || len(held.By) != 1 || held.By[0].ID != first[0].ID {
		t.Errorf("error %v, want a ReservedError with the holder", err)
	}
	a.must(a.request("y", "srcs"))
	a.must(a.request("x", "src/main.go")) // the agent's own reservations do not conflict
	other := a.request("x", "src/main.go")
	other.By = tokenOf("bob", auth.PermissionAdmin)
	a.refused(other, mailroom.CodeConflict, "reserved by x") // the same name of another token is another agent
}

func TestReservingAgainRenews(t *testing.T) {
	a := newProjectFixture(t)
	first := a.must(a.request("x", "n")).Granted[0]
	a.now = a.now.Add(30 * time.Second)
	again := a.must(a.request("x", "n")).Granted[0]
	if again.ID != first.ID || again.Fence != first.Fence || again.TakenAt != first.TakenAt ||
		again.ExpiresAt != a.now.Add(time.Minute) {
		t.Errorf("reserved again: %+v, want %+v with a later end", again, first)
	}
	if got, want := a.kinds(), "taken"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	renewed, err := a.Renew(first.ID, owner(), time.Hour, a.now)
	if err != nil || renewed.ExpiresAt != a.now.Add(time.Hour) {
		t.Errorf("Renew() = %+v, %v; want an end in an hour", renewed, err)
	}
}

func TestAReservationEndsByItself(t *testing.T) {
	a := newProjectFixture(t)
	first := a.must(a.request("x", "n")).Granted[0]
	a.now = a.now.Add(time.Minute)
	if _, err := a.Renew(first.ID, owner(), 0, a.now); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("Renew after the end: %v, want not_found", err)
	}
	if _, err := a.Release(first.ID, owner(), false, a.now); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("Release after the end: %v, want not_found", err)
	}
	if err := a.CheckUnreserved(a.now); err != nil {
		t.Errorf("CheckUnreserved after the end: %v", err)
	}
	next := a.must(a.request("y", "n")).Granted[0]
	if next.Fence <= first.Fence || next.ID == first.ID {
		t.Errorf("fence %d, want more than %d, and another id", next.Fence, first.Fence)
	}
	if got, want := a.kinds(), "taken lapsed taken"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
}

func TestSharedReservationsDoNotConflict(t *testing.T) {
	a := newProjectFixture(t)
	shared := func(holder string) Reserve {
		in := a.request(holder, "n")
		in.Shared = true
		return in
	}
	a.must(shared("x"))
	a.must(shared("y"))
	a.refused(a.request("z", "n"), mailroom.CodeConflict, "reserved by x")
	a.refused(a.request("x", "n"), mailroom.CodeConflict, "reserved by y") // not exclusively while y has a shared one
	if ended, err := a.ReleaseNames("y", []string{"n"}, owner(), a.now); err != nil || len(ended) != 1 {
		t.Errorf("ReleaseNames() = %v, %v; want one", ended, err)
	}
	a.must(a.request("x", "n"))
	a.refused(shared("y"), mailroom.CodeConflict, "reserved by x")
}

func TestAnAdvisoryReservationReportsConflictsAndRefusesNone(t *testing.T) {
	a := newProjectFixture(t)
	a.must(a.request("x", "n"))
	in := a.request("y", "n")
	in.Advisory = true
	if out := a.must(in); len(out.Conflicts) != 1 || out.Conflicts[0].Holder != "x" {
		t.Errorf("got conflicts %+v, want that of x", out.Conflicts)
	}
	a.release(owner(), "n")
	if out := a.must(a.request("z", "n")); len(out.Conflicts) != 1 || out.Conflicts[0].Holder != "y" {
		t.Errorf("got conflicts %+v, want that of y", out.Conflicts)
	}
}

func TestOnlyItsTokenOrAForcingAdminEndsAReservation(t *testing.T) {
	a := newProjectFixture(t)
	inside := func(name string, scopes ...auth.Permission) *auth.Token {
		by := tokenOf(name, scopes...)
		by.Namespace = "project:p"
		return by
	}
	for _, c := range []struct {
		name  string
		by    *auth.Token
		force bool
		want  mailroom.Code
	}{
		{"its own token", owner(), false, ""},
		{"another of the project", inside("bob", auth.PermissionSubmit), false, mailroom.CodeForbidden},
		{"another, with force", inside("bob", auth.PermissionSubmit), true, mailroom.CodeForbidden},
		{"an admin", tokenOf("root", auth.PermissionAdmin), false, mailroom.CodeForbidden},
		{"an admin, with force", tokenOf("root", auth.PermissionAdmin), true, ""},
		{"a stranger", tokenOf("eve", auth.PermissionSubmit), true, mailroom.CodeNotFound},
	} {
		id := a.must(a.request("x", "n")).Granted[0].ID
		if _, err := a.Release(id, c.by, c.force, a.now); mailroom.CodeOf(err) != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	a.refused(Reserve{Project: "p", Names: []string{"m"}, Holder: "x", By: tokenOf("eve", auth.PermissionSubmit)},
		mailroom.CodeNotFound, "project:p")
	if got := a.release(inside("bob", auth.PermissionSubmit), "n"); len(got) != 0 {
		t.Errorf("another token released %v", got)
	}
}

func TestInvalidReservationsAreRefused(t *testing.T) {
	a := newProjectFixture(t)
	many := make([]string, MaxReserve+1)
	for i := range many {
		many[i] = strings.Repeat("n", i+1)
	}
	for location, in := range map[string]Reserve{
		"names":      a.request("x"),
		"names:":     a.request("x", ""),
		"names ":     a.request("x", many...),
		"duplicates": a.request("x", "n", "./n"),
		"each":       a.request("x", "a\x00"),
		"holder":     a.request("", "n"),
		"blanks":     a.request("x ", "n"),
		"slash":      a.request("x/y", "n"),
		"reason": {Project: "p", Names: []string{"n"}, Holder: "x", By: owner(),
			Reason: strings.Repeat("r", MaxReason+1)},
		"ttl": {Project: "p", Names: []string{"n"}, Holder: "x", By: owner(), TTL: MaxTTL + 1},
		"1s":  {Project: "p", Names: []string{"n"}, Holder: "x", By: owner(), TTL: -1},
	} {
		a.refused(in, mailroom.CodeInvalid, strings.TrimRight(location, ": "))
	}
	for _, project := range []string{"", " p", "p ", "a/b", "a\nb", strings.Repeat("p", MaxProject+1)} {
		if _, err := ThreadID(project); mailroom.CodeOf(err) != mailroom.CodeInvalid {
			t.Errorf("ThreadID(%q): %v, want invalid", project, err)
		}
	}
}

// reserveMany adds n reservations of x.
func (a *projectFixture) reserveMany(n int, ttl time.Duration, name func(int) string) {
	for i := range n {
		r := store.Reservation{ID: fmt.Sprint(ttl, i), Thread: a.Thread.ID, Name: name(i), Holder: "x", Owner: "ann",
			ExpiresAt: a.now.Add(ttl)}
		a.held.add(&r)
	}
}

func TestAProjectHasLimits(t *testing.T) {
	numbered := func(i int) string { return fmt.Sprint("n", i) }
	a := newProjectFixture(t)
	a.reserveMany(MaxReservations, time.Second, numbered)
	a.refused(a.request("x", "one more"), mailroom.CodeTooLarge, "release some")
	a.must(a.request("x", "n1", "n2")) // renewals
	a.refused(a.request("x", "n1", "one more"), mailroom.CodeTooLarge, "release some")
	a.release(owner(), "n7", "n8", "n9")
	a.must(a.request("x", "one more"))

	a = newProjectFixture(t)
	a.reserveMany(MaxWild, time.Second, func(i int) string { return fmt.Sprint("w", i, "*") })
	a.must(a.request("x", "plain"))
	a.refused(a.request("x", "*?"), mailroom.CodeTooLarge, "with * or ?")

	a = newProjectFixture(t)
	a.reserveMany(MaxHeldWildSize/400, time.Second, func(i int) string {
		return fmt.Sprint(i, strings.Repeat("w", 400), "*")
	})
	a.refused(a.request("x", strings.Repeat("v", 400)+"*"), mailroom.CodeTooLarge, "names with * or ?")

	a = newProjectFixture(t)
	a.reserveMany(MaxHeldSize/400, time.Second, func(i int) string { return fmt.Sprint(i, strings.Repeat("p", 400)) })
	a.refused(a.request("x", "p"), mailroom.CodeTooLarge, "names and reasons")
}

// These limits bound the comparisons of a transition for all names.
func TestARequestIsBoundedInNamesAndBytes(t *testing.T) {
	a := newProjectFixture(t)
	several := func(n, length int, end string) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("%0*d%s", length-len(end), i, end))
		}
		return names
	}
	a.refused(a.request("x", several(100, 200, "")...), mailroom.CodeInvalid, "in several requests")
	a.refused(a.request("x", several(51, 20, "*")...), mailroom.CodeInvalid, "with * or ?")
	a.refused(a.request("x", several(10, 500, "?")...), mailroom.CodeInvalid, "with * or ?")
	a.must(a.request("x", append(several(50, 80, "*"), several(50, 160, "")...)...))
	if _, err := a.ReleaseNames("x", several(MaxReserve+1, 20, ""), owner(),
		a.now); mailroom.CodeOf(err) != mailroom.CodeInvalid {
		t.Errorf("ReleaseNames of %d names: %v, want invalid", MaxReserve+1, err)
	}
	if got := a.release(owner(), "./"+several(1, 80, "*")[0], "none"); len(got) != 1 {
		t.Errorf("released %v, want one", got)
	}
	for _, name := range []string{strings.Repeat("*a", 250), strings.Repeat("?", 500), strings.Repeat("**/", 166)} {
		if g := newGlobs(name); g.words > 500/64+1 || len(parseGlob(name)) > 500 {
			t.Errorf("%q has %d parts in %d words", name, len(parseGlob(name)), g.words)
		}
	}
}

// Compare runs before the transaction, which then compares only newer reservations.
func TestATransitionComparesOnlyLaterReservations(t *testing.T) {
	a := newProjectFixture(t)
	a.must(a.request("x", "src/**"))
	a.Thread.Key = 1
	in := a.request("y", "src/*.go", "free")
	if err := in.Check(); err != nil {
		t.Fatal(err)
	}
	in.Compare(&a.Thread.Thread, a.rows())
	a.must(a.request("z", "docs/**"))
	in.all, in.wilds = newGlobs(), newGlobs()
	a.refused(in, mailroom.CodeConflict, "src/** is reserved by x")
	a.release(owner(), "src/**")
	a.must(in)

	later := a.request("y", "web/*.go")
	if err := later.Check(); err != nil {
		t.Fatal(err)
	}
	later.Compare(&a.Thread.Thread, a.rows())
	a.must(a.request("z", "web/**"))
	a.refused(later, mailroom.CodeConflict, "web/** is reserved by z")

	made := newProjectFixture(t) // a project with the same id and new fences
	made.must(made.request("z", "web/**"))
	made.Thread.Key = 2
	_, err := made.Reserve(later, made.now)
	if mailroom.CodeOf(err) != mailroom.CodeConflict {
		t.Errorf("Reserve after a Compare with the deleted project: %v, want a conflict", err)
	}
}

func TestExpiredReservationsAreRecordedInSteps(t *testing.T) {
	a := newProjectFixture(t)
	a.reserveMany(5000, time.Second, func(i int) string { return fmt.Sprint("n", i) })
	a.now = a.now.Add(time.Hour)
	if err := a.CheckUnreserved(a.now); err != nil {
		t.Error(err)
	}
	a.must(a.request("y", "n4999", "n1"))
	a.must(a.request("x", "n4998")) // it has ended, which is not in the log yet
	if got, want := len(a.Thread.Entries()), 2*MaxEnded+1+3; got != want {
		t.Errorf("%d entries, want %d: two steps, and one renewed reservation", got, want)
	}
	for a.held.Len() > 3 {
		before := a.held.Len()
		out := a.must(a.request("y", "n1"))
		if a.held.Len() >= before || out.Granted[0].Fence != a.held.find("n1", "y", "ann").Fence {
			t.Fatalf("%d reservations, want less than %d", a.held.Len(), before)
		}
	}
	lapsed := map[string]bool{}
	for _, e := range a.Thread.Entries() {
		var end store.ReservationEnd
		if e.Kind == entry.KindLapsed && (e.Decode(&end) != nil || lapsed[end.Reservation]) {
			t.Errorf("entry %d ends %+v a second time", e.Seq, end)
		}
		lapsed[end.Reservation] = e.Kind == entry.KindLapsed
	}
	if len(lapsed) != 5000+1 {
		t.Errorf("%d reservations have ended, want 5000", len(lapsed)-1)
	}
}

func TestAResponseNamesABoundedNumberOfConflicts(t *testing.T) {
	a := newProjectFixture(t)
	a.reserveMany(MaxConflicts+10, time.Minute, func(i int) string { return fmt.Sprint("n", i) })
	in := a.request("y", "*")
	_, err := a.Reserve(in, a.now)
	if held, ok := errors.AsType[*ReservedError](err); !ok || len(held.By) != MaxConflicts {
		t.Errorf("error %v, want a ReservedError with the maximum number of reservations", err)
	}
	in.Advisory = true
	if out := a.must(in); len(out.Conflicts) != MaxConflicts {
		t.Errorf("%d conflicts, want %d", len(out.Conflicts), MaxConflicts)
	}
}
