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

// Limits of reservations. Sizes are bytes. They bound what comparing the names of a
// request with those of a project costs: the sizes of both are multiplied.
const (
	MaxReservations    = 10_000   // of one project
	MaxWild            = 1000     // of them with * or ?
	MaxHeldSize        = 1 << 20  // their names and reasons
	MaxHeldWildSize    = 64 << 10 // names of those with * or ?
	MaxReserve         = 100      // names in one request
	MaxReserveSize     = 16 << 10
	MaxReserveWild     = 50 // of them with * or ?
	MaxReserveWildSize = 4 << 10
	MaxReservationName = 500 // characters
	MaxReason          = 500 // characters
	MaxConflicts       = 100 // reservations of others that an answer names

	// MaxEnded is how many reservations that have ended by themselves one
	// transition tells of: more than it can take.
	MaxEnded = 256

	MinTTL     = time.Second
	MaxTTL     = 7 * 24 * time.Hour
	DefaultTTL = time.Hour
)

func (r *Reservation) describe() string {
	return fmt.Sprintf("%s is reserved by %s until %s", r.Name, r.Holder, r.ExpiresAt.UTC().Format(time.RFC3339))
}

// Live reports whether the reservation holds at now.
func (r *Reservation) Live(now time.Time) bool { return r.ExpiresAt.After(now) }

// belongsTo reports whether it is of this agent of this token.
func (r *Reservation) belongsTo(holder, owner string) bool {
	return r.Holder == holder && r.Owner == owner
}

// overlaps reports whether two agents want what only one can have.
func (r *Reservation) overlaps(n *Reservation) bool {
	return !r.belongsTo(n.Holder, n.Owner) && !(r.Shared && n.Shared) && Overlap(r.Name, n.Name)
}

// ConflictsWith reports whether two reservations hold at now that cannot both do so.
func (r *Reservation) ConflictsWith(n *Reservation, now time.Time) bool {
	return r.Live(now) && n.Live(now) && !r.Advisory && !n.Advisory && r.overlaps(n)
}

// ReservedError is the cause of a Conflict: others hold what was asked for.
type ReservedError struct{ By []Reservation }

func (h *ReservedError) Error() string {
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

	// Once checked: the names without * and ?, those with one, and all of them.
	plain      map[string]bool
	wilds, all *globs
	compared   comparison
}

// Reserved is the answer to a Reserve: a reservation for each name, in their order,
// and those of others that they overlap, at most MaxConflicts. Of two at odds at
// least one is advisory.
type Reserved struct {
	Granted   []Reservation `json:"granted"`
	Conflicts []Reservation `json:"conflicts"`
}

// Check fills in defaults and refuses what breaks a rule by itself.
func (in *Reserve) Check() error {
	if in.TTL == 0 {
		in.TTL = DefaultTTL
	}
	if !cleanText(in.Reason) || utf8.RuneCountInString(in.Reason) > MaxReason {
		return invalid("reason", fmt.Sprintf("must be text of at most %d characters", MaxReason), in.Reason)
	}
	if err := checkTTL(in.TTL); err != nil {
		return err
	}
	return in.checkNames()
}

// checkNames writes the names as reservations have them, and compiles them.
func (in *Reserve) checkNames() error {
	if len(in.Names) == 0 || len(in.Names) > MaxReserve {
		return invalid("names", fmt.Sprintf("must be 1 to %d", MaxReserve), len(in.Names))
	}
	var t tally
	names, plain, wilds := make([]string, len(in.Names)), map[string]bool{}, []string{}
	for i, name := range in.Names {
		names[i] = strings.TrimPrefix(name, "./")
		switch {
		case names[i] == "" || !cleanText(name) || utf8.RuneCountInString(name) > MaxReservationName:
			return invalid("names", fmt.Sprintf("must each be text of 1 to %d characters", MaxReservationName), name)
		case slices.Contains(names[:i], names[i]):
			return invalid("names", "must not have the same one twice", name)
		}
		if hasWildcard(names[i]) {
			wilds = append(wilds, names[i])
		} else {
			plain[names[i]] = true
		}
		t.add(names[i], "")
	}
	switch {
	case t.size > MaxReserveSize:
		return invalid("names", fmt.Sprintf("have more than %d bytes together; reserve them in several requests", MaxReserveSize), t.size)
	case t.wilds > MaxReserveWild || t.wildSize > MaxReserveWildSize:
		why := fmt.Sprintf("with * or ? are more than %d, or have more than %d bytes together; reserve them in several requests", MaxReserveWild, MaxReserveWildSize)
		return invalid("names", why, t.wilds)
	}
	in.Names, in.plain, in.wilds, in.all = names, plain, newGlobs(wilds...), newGlobs(names...)
	return nil
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
	if in.all == nil {
		if err := in.Check(); err != nil {
			return out, err
		}
	}
	if err := p.CheckAccess(in.By, "holder", in.Holder); err != nil {
		return out, err
	}
	conflicts, refusing := p.conflicts(&in, now)
	if len(refusing) > 0 {
		return out, &Error{Code: CodeConflict, Message: refusing[0].describe(), Cause: &ReservedError{refusing}}
	}
	if err := p.checkLimits(&in, now); err != nil {
		return out, err
	}
	p.endLapsed(in.By, now, p.ownReservations(&in)...)
	out.Conflicts = conflicts
	for _, name := range in.Names {
		out.Granted = append(out.Granted, p.grant(&in, name, now))
	}
	return out, nil
}

// ownReservations are the reservations that the agent has under the names already.
func (p *Project) ownReservations(in *Reserve) (own []*Reservation) {
	for _, name := range in.Names {
		if r := p.held.find(name, in.Holder, in.By.Name); r != nil {
			own = append(own, r)
		}
	}
	return own
}

// grant renews the agent's reservation of a name, or makes one.
func (p *Project) grant(in *Reserve, name string, now time.Time) Reservation {
	r := p.held.find(name, in.Holder, in.By.Name)
	taken := r == nil
	if taken {
		fence := p.LastSeq + 1
		r = &Reservation{
			ID: DeriveID("reservation", p.ID, fmt.Sprint(fence)), Thread: p.ID, Name: name,
			Holder: in.Holder, Owner: in.By.Name, Fence: fence, TakenAt: now,
		}
		p.held.add(r)
	}
	r.Shared, r.Advisory, r.Reason, r.ExpiresAt = in.Shared, in.Advisory, in.Reason, now.Add(in.TTL)
	if taken {
		p.appendEvent(in.By, KindReserved, *r, now)
	}
	p.save(r)
	return *r
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
		return Reservation{}, err
	case r.Owner != by.Name:
		return *r, Errorf(CodeForbidden, "reservation %s was made with another token, which alone can renew it", id)
	}
	r.ExpiresAt = now.Add(ttl)
	p.save(r)
	return *r, nil
}

// Release ends a reservation. That of another token is ended by an admin alone,
// and with force.
func (p *Project) Release(id string, by *Token, force bool, now time.Time) (Reservation, error) {
	r, err := p.find(id, by, now)
	switch {
	case err != nil:
		return Reservation{}, err
	case r.Owner == by.Name || force && by.Has(PermissionAdmin):
	default:
		return *r, Errorf(CodeForbidden, "reservation %s was made with another token: that one ends it, or an admin with force", id)
	}
	p.endLapsed(by, now)
	p.endReservations(KindReleased, by, now, r)
	return *r, nil
}

// ReleaseNames ends what an agent holds under these names, at most MaxReserve.
// What it does not hold is no error.
func (p *Project) ReleaseNames(holder string, names []string, by *Token, now time.Time) ([]Reservation, error) {
	if len(names) > MaxReserve {
		return nil, invalid("names", fmt.Sprintf("must be at most %d", MaxReserve), len(names))
	}
	var rows []*Reservation
	for _, name := range names {
		r := p.held.find(strings.TrimPrefix(name, "./"), holder, by.Name)
		if r != nil && r.Live(now) && !slices.Contains(rows, r) {
			rows = append(rows, r)
		}
	}
	p.endReservations(KindReleased, by, now, rows...)
	ended := make([]Reservation, 0, len(rows))
	for _, r := range rows {
		ended = append(ended, *r)
	}
	return ended, nil
}

// find returns a reservation that holds, if by may know of it.
func (p *Project) find(id string, by *Token, now time.Time) (*Reservation, error) {
	r := p.held.ids[id]
	if r == nil || !r.Live(now) || !by.CanSee(&p.Thread) {
		return nil, ReservationNotFound(id)
	}
	return r, nil
}

// ReservationNotFound is the refusal of what can only be done while a reservation holds.
func ReservationNotFound(id string) error {
	return Errorf(CodeNotFound, "no reservation %q: it has ended, or never was", id)
}

// endLapsed tells of reservations that have ended by themselves, together with what
// is written anyway: whether one holds is for the clock to say, and for nobody to
// sweep. They are the oldest MaxEnded, and those of the names that are taken again.
func (p *Project) endLapsed(by *Token, now time.Time, again ...*Reservation) {
	var lapsed []*Reservation
	for _, r := range p.held.rows {
		if !r.Live(now) && (len(lapsed) < MaxEnded || slices.Contains(again, r)) {
			lapsed = append(lapsed, r)
		}
	}
	p.endReservations(KindLapsed, by, now, lapsed...)
}

func (p *Project) endReservations(kind string, by *Token, now time.Time, ended ...*Reservation) {
	if len(ended) == 0 {
		return
	}
	for _, r := range ended {
		body := ReservationEnd{Reservation: r.ID, Name: r.Name, Holder: r.Holder, Fence: r.Fence}
		if kind == KindReleased {
			body.By = by.Name
		}
		p.appendEvent(by, kind, body, now)
		delete(p.changed, r.ID)
		p.dropped = append(p.dropped, r.ID)
	}
	p.held.remove(ended)
}

// save has r written as it is now.
func (p *Project) save(r *Reservation) {
	p.changed[r.ID] = r
	p.touchRow()
}
