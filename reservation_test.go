package mailroom

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// agreed is a project in a test, at noon.
type agreed struct {
	*Project
	t   *testing.T
	now time.Time
}

func agree(t *testing.T) *agreed {
	p := LoadProject(Load(&Thread{ID: "project:p"}), "echo", nil)
	return &agreed{p, t, time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
}

func tokenOf(name string, scopes ...Permission) *Token { return &Token{Name: name, Scopes: scopes} }

// owner is who made the project and shares it.
func owner() *Token { return tokenOf("ann", MaySubmit) }

func (a *agreed) ask(holder string, names ...string) Reserve {
	return Reserve{Project: "p", Names: names, Holder: holder, By: owner(), TTL: time.Minute}
}

func (a *agreed) must(in Reserve) Reserved {
	a.t.Helper()
	out, err := a.Reserve(in, a.now)
	if err != nil {
		a.t.Fatalf("%s reserves %v: %v", in.Holder, in.Names, err)
	}
	return out
}

func (a *agreed) refused(in Reserve, code Code, message string) {
	a.t.Helper()
	seq := a.LastSeq
	_, err := a.Reserve(in, a.now)
	if CodeOf(err) != code || !strings.Contains(err.Error(), message) {
		a.t.Errorf("%s reserves %v: got %v, want %s with %q", in.Holder, in.Names, err, code, message)
	}
	if a.LastSeq != seq {
		a.t.Error("what was refused has written something")
	}
}

func (a *agreed) kinds() string {
	var kinds []string
	for _, e := range a.Entries() {
		kinds = append(kinds, strings.TrimPrefix(e.Kind, "reservation."))
	}
	return strings.Join(kinds, " ")
}

func TestOneHoldsWhatOthersMayNot(t *testing.T) {
	a := agree(t)
	first := a.must(a.ask("x", "src/**", "./docs/a.md")).Granted
	if len(first) != 2 || first[0].Fence != 1 || first[1].Fence != 2 || first[1].Name != "docs/a.md" || first[0].ExpiresAt != a.now.Add(time.Minute) {
		t.Errorf("granted %+v", first)
	}
	a.refused(a.ask("y", "src/main.go"), Conflict, "src/** is reserved by x until 2026-01-02T12:01:00Z")
	a.refused(a.ask("y", "free", "docs/*"), Conflict, "docs/a.md is reserved by x") // all or none
	_, err := a.Reserve(a.ask("y", "src/main.go"), a.now)
	if held, ok := errors.AsType[*Held](err); !ok || len(held.By) != 1 || held.By[0].ID != first[0].ID {
		t.Errorf("the refusal does not tell who holds it: %v", err)
	}
	a.must(a.ask("y", "srcs"))
	a.must(a.ask("x", "src/main.go")) // one's own is in nobody's way
	other := a.ask("x", "src/main.go")
	other.By = tokenOf("bob", MayAdmin)
	a.refused(other, Conflict, "reserved by x") // the same name of another token is another agent
}

func TestReservingAgainRenews(t *testing.T) {
	a := agree(t)
	first := a.must(a.ask("x", "n")).Granted[0]
	a.now = a.now.Add(30 * time.Second)
	again := a.must(a.ask("x", "n")).Granted[0]
	if again.ID != first.ID || again.Fence != first.Fence || again.TakenAt != first.TakenAt || again.ExpiresAt != a.now.Add(time.Minute) {
		t.Errorf("got %+v after %+v", again, first)
	}
	if got, want := a.kinds(), "taken"; got != want {
		t.Errorf("the log says %q, want %q", got, want)
	}
	renewed, err := a.Renew(first.ID, owner(), time.Hour, a.now)
	if err != nil || renewed.ExpiresAt != a.now.Add(time.Hour) {
		t.Errorf("got %+v, %v", renewed, err)
	}
}

func TestAReservationEndsByItself(t *testing.T) {
	a := agree(t)
	first := a.must(a.ask("x", "n")).Granted[0]
	a.now = a.now.Add(time.Minute)
	if _, err := a.Renew(first.ID, owner(), 0, a.now); CodeOf(err) != NotFound {
		t.Errorf("renewed after its end: %v", err)
	}
	if _, err := a.Release(first.ID, owner(), false, a.now); CodeOf(err) != NotFound {
		t.Errorf("released after its end: %v", err)
	}
	if err := a.Free(a.now); err != nil {
		t.Errorf("it holds up the project: %v", err)
	}
	next := a.must(a.ask("y", "n")).Granted[0]
	if next.Fence <= first.Fence || next.ID == first.ID {
		t.Errorf("fence %d after %d", next.Fence, first.Fence)
	}
	if got, want := a.kinds(), "taken lapsed taken"; got != want {
		t.Errorf("the log says %q, want %q", got, want)
	}
}

func TestSharedGoesWithShared(t *testing.T) {
	a := agree(t)
	shared := func(holder string) Reserve {
		in := a.ask(holder, "n")
		in.Shared = true
		return in
	}
	a.must(shared("x"))
	a.must(shared("y"))
	a.refused(a.ask("z", "n"), Conflict, "reserved by x")
	a.refused(a.ask("x", "n"), Conflict, "reserved by y") // not alone while the other is there
	a.ReleaseNames("y", []string{"n"}, owner(), a.now)
	a.must(a.ask("x", "n"))
	a.refused(shared("y"), Conflict, "reserved by x")
}

func TestAdvisoryTellsAndRefusesNobody(t *testing.T) {
	a := agree(t)
	a.must(a.ask("x", "n"))
	in := a.ask("y", "n")
	in.Advisory = true
	if out := a.must(in); len(out.Conflicts) != 1 || out.Conflicts[0].Holder != "x" {
		t.Errorf("got conflicts %+v, want that of x", out.Conflicts)
	}
	a.ReleaseNames("x", []string{"n"}, owner(), a.now)
	if out := a.must(a.ask("z", "n")); len(out.Conflicts) != 1 || out.Conflicts[0].Holder != "y" {
		t.Errorf("got conflicts %+v, want that of y", out.Conflicts)
	}
}

func TestWhoMayEndAReservation(t *testing.T) {
	a := agree(t)
	inside := func(name string, scopes ...Permission) *Token {
		by := tokenOf(name, scopes...)
		by.Namespace = "project:p"
		return by
	}
	for _, c := range []struct {
		name  string
		by    *Token
		force bool
		want  Code
	}{
		{"its own token", owner(), false, ""},
		{"another of the project", inside("bob", MaySubmit), false, Forbidden},
		{"another, with force", inside("bob", MaySubmit), true, Forbidden},
		{"an admin", tokenOf("root", MayAdmin), false, Forbidden},
		{"an admin, with force", tokenOf("root", MayAdmin), true, ""},
		{"a stranger", tokenOf("eve", MaySubmit), true, NotFound},
	} {
		id := a.must(a.ask("x", "n")).Granted[0].ID
		if _, err := a.Release(id, c.by, c.force, a.now); CodeOf(err) != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	a.refused(Reserve{Project: "p", Names: []string{"m"}, Holder: "x", By: tokenOf("eve", MaySubmit)}, Forbidden, "project:p")
	if got := a.ReleaseNames("x", []string{"n"}, inside("bob", MaySubmit), a.now); len(got) != 0 {
		t.Errorf("another token ended %v", got)
	}
}

func TestWhatIsNoReservation(t *testing.T) {
	a := agree(t)
	many := make([]string, MaxReserve+1)
	for i := range many {
		many[i] = strings.Repeat("n", i+1)
	}
	for location, in := range map[string]Reserve{
		"names":  a.ask("x"),
		"names:": a.ask("x", ""),
		"names ": a.ask("x", many...),
		"twice":  a.ask("x", "n", "./n"),
		"each":   a.ask("x", "a\x00"),
		"holder": a.ask("", "n"),
		"blanks": a.ask("x ", "n"),
		"slash":  a.ask("x/y", "n"),
		"reason": {Project: "p", Names: []string{"n"}, Holder: "x", By: owner(), Reason: strings.Repeat("r", MaxReason+1)},
		"ttl":    {Project: "p", Names: []string{"n"}, Holder: "x", By: owner(), TTL: MaxTTL + 1},
		"1s":     {Project: "p", Names: []string{"n"}, Holder: "x", By: owner(), TTL: -1},
	} {
		a.refused(in, Invalid, strings.TrimRight(location, ": "))
	}
	for _, project := range []string{"", " p", "p ", "a/b", "a\nb", strings.Repeat("p", MaxProject+1)} {
		if _, err := ProjectThread(project); CodeOf(err) != Invalid {
			t.Errorf("project %q: got %v", project, err)
		}
	}
}

func TestAProjectHasRoomForSoMany(t *testing.T) {
	a := agree(t)
	for i := range MaxReservations {
		a.reservations = append(a.reservations, Reservation{ID: string(rune(i)), Name: "x", Holder: "x", Owner: "ann", ExpiresAt: a.now.Add(time.Second)})
	}
	a.refused(a.ask("x", "one more"), TooLarge, "release some")
	for i := range MaxReservations - MaxWild {
		a.reservations[i].ExpiresAt = a.now
	}
	a.must(a.ask("x", "*"))
	for i := range a.reservations {
		a.reservations[i].Name = "w*"
	}
	a.refused(a.ask("x", "*?"), TooLarge, "with * or ?")
}
