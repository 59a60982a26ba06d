package mailroom

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Reservation is the row of a lease on a name in a project: while it lasts, whoever
// respects it leaves alone what it names. It ends by itself at ExpiresAt; the row of
// one that has ended says nothing any more.
type Reservation struct {
	ID       string `json:"id"`
	Thread   string `json:"thread"` // of its project
	Name     string `json:"name"`   // a glob, see Overlap
	Holder   string `json:"holder"` // the agent, by the name it gives itself
	Owner    string `json:"owner"`  // name of the token that it was made with
	Shared   bool   `json:"shared"` // goes with others that are shared
	Advisory bool   `json:"advisory"`
	Reason   string `json:"reason"`
	// Fence grows with each reservation of the project: the seq of the entry that
	// tells of it. What is written under a reservation carries it, so that who takes
	// the writes can refuse those under one that has ended.
	Fence     int64     `json:"fence"`
	TakenAt   time.Time `json:"taken_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// ReservationEnd is the body of the entry that tells of a reservation's end. By is
// the token that ended it, "" if it ended by itself.
type ReservationEnd struct {
	Reservation string `json:"reservation"`
	Name        string `json:"name"`
	Holder      string `json:"holder"`
	Fence       int64  `json:"fence"`
	By          string `json:"by,omitempty"`
}

// Limits of reservations.
const (
	MaxReservations    = 10_000 // of one project
	MaxWild            = 1000   // of them with * or ?
	MaxReserve         = 100    // names in one Reserve
	MaxReservationName = 500    // characters
	MaxReason          = 500    // characters

	MinTTL     = time.Second
	MaxTTL     = 7 * 24 * time.Hour
	DefaultTTL = time.Hour
)

func (r *Reservation) said() string {
	return fmt.Sprintf("%s is reserved by %s until %s", r.Name, r.Holder, r.ExpiresAt.UTC().Format(time.RFC3339))
}

// Live reports whether the reservation holds at now.
func (r *Reservation) Live(now time.Time) bool { return r.ExpiresAt.After(now) }

// of reports whether it is of this agent of this token.
func (r *Reservation) of(holder, owner string) bool { return r.Holder == holder && r.Owner == owner }

// against reports whether two agents want what only one can have.
func (r *Reservation) against(n *Reservation) bool {
	return !r.of(n.Holder, n.Owner) && !(r.Shared && n.Shared) && Overlap(r.Name, n.Name)
}

// AtOdds reports whether two reservations hold at now that cannot both do so.
func (r *Reservation) AtOdds(n *Reservation, now time.Time) bool {
	return r.Live(now) && n.Live(now) && !r.Advisory && !n.Advisory && r.against(n)
}

// Held is the cause of a Conflict: others hold what was asked for.
type Held struct{ By []Reservation }

func (h *Held) Error() string {
	return fmt.Sprintf("wait until it ends, or ask %s to release it", h.By[0].Holder)
}

// Reserve asks for some names, all of them or none. A name that the same agent
// holds already is renewed, and keeps its Fence.
type Reserve struct {
	Project  string
	Names    []string
	Holder   string
	By       *Token // who asks, and owns the project if this makes it
	Shared   bool
	Advisory bool // refuses nobody and is not refused: the answer tells who else holds the names
	Reason   string
	TTL      time.Duration // 0 is DefaultTTL
}

// Reserved is the answer to a Reserve: a reservation for each name, in their order,
// and those of others that they overlap. Of two at odds at least one is advisory.
type Reserved struct {
	Granted   []Reservation `json:"granted"`
	Conflicts []Reservation `json:"conflicts"`
}

// Check fills in defaults and refuses what breaks a rule by itself.
func (in *Reserve) Check() error {
	if in.TTL == 0 {
		in.TTL = DefaultTTL
	}
	switch {
	case len(in.Names) == 0 || len(in.Names) > MaxReserve:
		return invalid("names", fmt.Sprintf("must be 1 to %d", MaxReserve), len(in.Names))
	case !cleanText(in.Reason) || utf8.RuneCountInString(in.Reason) > MaxReason:
		return invalid("reason", fmt.Sprintf("must be text of at most %d characters", MaxReason), in.Reason)
	}
	names := make([]string, len(in.Names))
	for i, name := range in.Names {
		names[i] = strings.TrimPrefix(name, "./")
		switch {
		case names[i] == "" || !cleanText(name) || utf8.RuneCountInString(name) > MaxReservationName:
			return invalid("names", fmt.Sprintf("must each be text of 1 to %d characters", MaxReservationName), name)
		case slices.Contains(names[:i], names[i]):
			return invalid("names", "must not have the same one twice", name)
		}
	}
	in.Names = names
	return checkTTL(in.TTL)
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return invalid("ttl", "must be between 1s and 168h (7 days)", ttl.String())
	}
	return nil
}

// Reserve takes names. What others hold is refused as a Conflict whose cause is
// Held, and then nothing is taken.
func (p *Project) Reserve(in Reserve, now time.Time) (out Reserved, err error) {
	if err := in.Check(); err != nil {
		return out, err
	}
	if err := p.MayEnter(in.By, "holder", in.Holder); err != nil {
		return out, err
	}
	conflicts := p.atOdds(&in, now)
	if held := slices.DeleteFunc(slices.Clone(conflicts), func(r Reservation) bool { return in.Advisory || r.Advisory }); len(held) > 0 {
		return out, &Error{Code: Conflict, Message: held[0].said(), Cause: &Held{held}}
	}
	if err := p.room(in.Names, now); err != nil {
		return out, err
	}
	p.endLapsed(in.By, now)
	out.Conflicts = conflicts
	for _, name := range in.Names {
		out.Granted = append(out.Granted, p.hold(&in, name, now))
	}
	return out, nil
}

// atOdds are the reservations of others that overlap what is asked for.
func (p *Project) atOdds(in *Reserve, now time.Time) (found []Reservation) {
	for _, r := range p.reservations {
		if r.Live(now) && slices.ContainsFunc(in.Names, func(name string) bool {
			return r.against(&Reservation{Name: name, Holder: in.Holder, Owner: in.By.Name, Shared: in.Shared})
		}) {
			found = append(found, r)
		}
	}
	return found
}

// room refuses more than a project can have: each is compared with all others.
func (p *Project) room(names []string, now time.Time) error {
	all, wilds := len(names), 0
	for _, r := range p.reservations {
		if !r.Live(now) {
			continue
		}
		if all++; wild(r.Name) {
			wilds++
		}
	}
	for _, name := range names {
		if wild(name) {
			wilds++
		}
	}
	if all > MaxReservations || wilds > MaxWild {
		return Errorf(TooLarge, "a project has at most %d reservations, %d of them with * or ?: release some", MaxReservations, MaxWild)
	}
	return nil
}

// hold renews the agent's reservation of a name, or makes one.
func (p *Project) hold(in *Reserve, name string, now time.Time) Reservation {
	i := slices.IndexFunc(p.reservations, func(r Reservation) bool { return r.Name == name && r.of(in.Holder, in.By.Name) })
	taken := i < 0
	if taken {
		fence := p.LastSeq + 1
		i = len(p.reservations)
		p.reservations = append(p.reservations, Reservation{
			ID: DeriveID("reservation", p.ID, fmt.Sprint(fence)), Thread: p.ID, Name: name,
			Holder: in.Holder, Owner: in.By.Name, Fence: fence, TakenAt: now,
		})
	}
	r := p.reservations[i]
	r.Shared, r.Advisory, r.Reason, r.ExpiresAt = in.Shared, in.Advisory, in.Reason, now.Add(in.TTL)
	if taken {
		p.tell(in.By, KindReserved, r, now)
	}
	p.put(r)
	return r
}

// Renew lets a reservation last for ttl from now, 0 for DefaultTTL. One that has
// ended is not renewed, because others may have had it since: NotFound.
func (p *Project) Renew(id string, by *Token, ttl time.Duration, now time.Time) (Reservation, error) {
	if ttl == 0 {
		ttl = DefaultTTL
	}
	if err := checkTTL(ttl); err != nil {
		return Reservation{}, err
	}
	r, err := p.find(id, by, now)
	switch {
	case err != nil:
		return r, err
	case r.Owner != by.Name:
		return r, Errorf(Forbidden, "reservation %s was made with another token, which alone can renew it", id)
	}
	r.ExpiresAt = now.Add(ttl)
	p.put(r)
	return r, nil
}

// Release ends a reservation. That of another token is ended by an admin alone,
// and with force.
func (p *Project) Release(id string, by *Token, force bool, now time.Time) (Reservation, error) {
	r, err := p.find(id, by, now)
	switch {
	case err != nil:
		return r, err
	case r.Owner == by.Name || force && by.Has(MayAdmin):
	default:
		return r, Errorf(Forbidden, "reservation %s was made with another token: that one ends it, or an admin with force", id)
	}
	p.endLapsed(by, now)
	p.end(KindReleased, r, by, now)
	return r, nil
}

// ReleaseNames ends what an agent holds under these very names. What it does not
// hold is no error.
func (p *Project) ReleaseNames(holder string, names []string, by *Token, now time.Time) []Reservation {
	var ended []Reservation
	for _, r := range p.reservations {
		if r.Live(now) && r.of(holder, by.Name) && slices.Contains(names, r.Name) {
			ended = append(ended, r)
		}
	}
	for _, r := range ended {
		p.end(KindReleased, r, by, now)
	}
	return ended
}

// find returns a reservation that holds, if by may know of it.
func (p *Project) find(id string, by *Token, now time.Time) (Reservation, error) {
	i := slices.IndexFunc(p.reservations, func(r Reservation) bool { return r.ID == id && r.Live(now) })
	if i < 0 || !by.Sees(&p.Thread) {
		return Reservation{}, NoReservation(id)
	}
	return p.reservations[i], nil
}

// NoReservation is the refusal of what can only be done while a reservation holds.
func NoReservation(id string) error {
	return Errorf(NotFound, "no reservation %q: it has ended, or never was", id)
}

// endLapsed tells of the reservations that have ended by themselves, together with
// what is written anyway: whether one holds is for the clock to say, and for nobody
// to sweep.
func (p *Project) endLapsed(by *Token, now time.Time) {
	for _, r := range slices.Clone(p.reservations) {
		if !r.Live(now) {
			p.end(KindLapsed, r, by, now)
		}
	}
}

func (p *Project) end(kind string, r Reservation, by *Token, now time.Time) {
	body := ReservationEnd{Reservation: r.ID, Name: r.Name, Holder: r.Holder, Fence: r.Fence}
	if kind == KindReleased {
		body.By = by.Name
	}
	p.tell(by, kind, body, now)
	same := func(x Reservation) bool { return x.ID == r.ID }
	p.reservations = slices.DeleteFunc(p.reservations, same)
	p.changed = slices.DeleteFunc(p.changed, same)
	p.dropped = append(p.dropped, r.ID)
}

// put keeps r as it is now.
func (p *Project) put(r Reservation) {
	same := func(x Reservation) bool { return x.ID == r.ID }
	p.reservations[slices.IndexFunc(p.reservations, same)] = r
	p.changed = append(slices.DeleteFunc(p.changed, same), r)
	p.change()
}
