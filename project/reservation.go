package project

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/internal/digest"
	"mailroom/store"
)

// Limits of reservations. Sizes are in bytes. They bound the cost of comparing the names of a
// request with the names of a project, which grows with the product of both sizes.
const (
	MaxReservations    = 10_000   // most reservations of one project
	MaxWild            = 1000     // most reservations with * or ? in the name
	MaxHeldSize        = 1 << 20  // names and reasons
	MaxHeldWildSize    = 64 << 10 // names with * or ?
	MaxReserve         = 100      // names in one request
	MaxReserveSize     = 16 << 10
	MaxReserveWild     = 50 // names with * or ? in one request
	MaxReserveWildSize = 4 << 10
	MaxReservationName = 500 // characters
	MaxReason          = 500 // characters
	MaxConflicts       = 100 // conflicting reservations in an answer

	// MaxEnded is the number of expired reservations that one transition records. It exceeds the
	// number that one transition can add.
	MaxEnded = 256

	MinTTL     = time.Second
	MaxTTL     = 7 * 24 * time.Hour
	DefaultTTL = time.Hour
)

func describe(r *store.Reservation) string {
	return fmt.Sprintf("%s is reserved by %s until %s", r.Name, r.Holder, r.ExpiresAt.UTC().Format(time.RFC3339))
}

// belongsTo reports whether the agent made the reservation with the token named owner.
func belongsTo(r *store.Reservation, holder, owner string) bool {
	return r.Holder == holder && r.Owner == owner
}

// overlap reports whether two agents hold incompatible reservations of overlapping names.
func overlap(r, n *store.Reservation) bool {
	return !belongsTo(r, n.Holder, n.Owner) && !(r.Shared && n.Shared) && Overlap(r.Name, n.Name)
}

// Conflict reports whether r and n must not both be active at now.
func Conflict(r, n *store.Reservation, now time.Time) bool {
	return r.Live(now) && n.Live(now) && !r.Advisory && !n.Advisory && overlap(r, n)
}

// ReservedError is the cause of a CodeConflict error: other agents hold some of the requested
// names.
type ReservedError struct{ By []store.Reservation }

func (h *ReservedError) Error() string {
	return fmt.Sprintf("wait until it ends, or ask %s to release it", h.By[0].Holder)
}

// Reserve is a request for names, all of them or none. A name that the same agent holds already is
// renewed and keeps its Fence.
type Reserve struct {
	Project  string
	Names    []string
	Holder   string
	By       *auth.Token // caller; owns the project if the request creates it
	Shared   bool
	Advisory bool // never conflicts; the answer lists the other holders
	Reason   string
	TTL      time.Duration // how long the reservation lasts; 0: DefaultTTL

	// Set by Check: the names without wildcards, those with wildcards, and all of them.
	plain      map[string]bool
	wilds, all *globs
	compared   comparison
}

// Reserved is the answer to a Reserve: one reservation per name, in the order of the request, and
// the overlapping reservations of others, at most MaxConflicts. Where both overlap, at least one is
// advisory.
type Reserved struct {
	Granted   []store.Reservation `json:"granted"`
	Conflicts []store.Reservation `json:"conflicts"`
}

// Check fills in defaults and validates in.
func (in *Reserve) Check() error {
	if in.TTL == 0 {
		in.TTL = DefaultTTL
	}
	if !check.IsClean(in.Reason) || utf8.RuneCountInString(in.Reason) > MaxReason {
		return check.Invalid("reason", fmt.Sprintf("must be text of at most %d characters", MaxReason), in.Reason)
	}
	if err := checkTTL(in.TTL); err != nil {
		return err
	}
	return in.checkNames()
}

// checkNames validates, normalizes and compiles the names.
func (in *Reserve) checkNames() error {
	if len(in.Names) == 0 || len(in.Names) > MaxReserve {
		return check.Invalid("names", fmt.Sprintf("must be 1 to %d", MaxReserve), len(in.Names))
	}
	var t tally
	names, plain, wilds := make([]string, len(in.Names)), map[string]bool{}, []string{}
	for i, name := range in.Names {
		names[i] = strings.TrimPrefix(name, "./")
		switch {
		case names[i] == "" || !check.IsClean(name) || utf8.RuneCountInString(name) > MaxReservationName:
			return check.Invalid("names", fmt.Sprintf("must each be text of 1 to %d characters", MaxReservationName), name)
		case slices.Contains(names[:i], names[i]):
			return check.Invalid("names", "must not contain duplicates", name)
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
		return check.Invalid("names", fmt.Sprintf("have more than %d bytes together; reserve them in several requests",
			MaxReserveSize), t.size)
	case t.wilds > MaxReserveWild || t.wildSize > MaxReserveWildSize:
		why := fmt.Sprintf(
			"with * or ? are more than %d, or have more than %d bytes together; reserve them in several requests",
			MaxReserveWild, MaxReserveWildSize)
		return check.Invalid("names", why, t.wilds)
	}
	in.Names, in.plain, in.wilds, in.all = names, plain, newGlobs(wilds...), newGlobs(names...)
	return nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return check.Invalid("ttl", "must be between 1s and 168h (7 days)", ttl.String())
	}
	return nil
}

// Reserve reserves the names for the agent. If other agents hold conflicting reservations it
// changes nothing and returns CodeConflict with a ReservedError as its cause.
func (p *State) Reserve(in Reserve, now time.Time) (out Reserved, err error) {
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
		return out, &mailroom.Error{Code: mailroom.CodeConflict, Message: describe(&refusing[0]),
			Cause: &ReservedError{refusing}}
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

// ownReservations returns the agent's reservations of the requested names.
func (p *State) ownReservations(in *Reserve) (own []*store.Reservation) {
	for _, name := range in.Names {
		if r := p.held.find(name, in.Holder, in.By.Name); r != nil {
			own = append(own, r)
		}
	}
	return own
}

// grant renews the agent's reservation of a name, or makes one.
func (p *State) grant(in *Reserve, name string, now time.Time) store.Reservation {
	r := p.held.find(name, in.Holder, in.By.Name)
	taken := r == nil
	if taken {
		fence := p.Thread.LastSeq + 1
		r = &store.Reservation{
			ID: digest.ID("reservation", p.Thread.ID, fmt.Sprint(fence)), Thread: p.Thread.ID, Name: name,
			Holder: in.Holder, Owner: in.By.Name, Fence: fence, TakenAt: now,
		}
		p.held.add(r)
	}
	r.Shared, r.Advisory, r.Reason, r.ExpiresAt = in.Shared, in.Advisory, in.Reason, now.Add(in.TTL)
	if taken {
		p.appendEvent(in.By, entry.KindReserved, *r, now)
	}
	p.save(r)
	return *r
}

// Renew extends a reservation to ttl from now; 0 means DefaultTTL. An expired reservation returns
// CodeNotFound, because another agent may have held the name since.
func (p *State) Renew(id string, by *auth.Token, ttl time.Duration, now time.Time) (store.Reservation, error) {
	if ttl == 0 {
		ttl = DefaultTTL
	}
	if err := checkTTL(ttl); err != nil {
		return store.Reservation{}, err
	}
	r, err := p.find(id, by, now)
	switch {
	case err != nil:
		return store.Reservation{}, err
	case r.Owner != by.Name:
		return *r, mailroom.Errorf(mailroom.CodeForbidden,
			"reservation %s was made with another token; only that token can renew it", id)
	}
	r.ExpiresAt = now.Add(ttl)
	p.save(r)
	return *r, nil
}

// Release ends a reservation. One made with another token requires an admin and force.
func (p *State) Release(id string, by *auth.Token, force bool, now time.Time) (store.Reservation, error) {
	r, err := p.find(id, by, now)
	switch {
	case err != nil:
		return store.Reservation{}, err
	case r.Owner == by.Name || force && by.Has(auth.PermissionAdmin):
	default:
		return *r, mailroom.Errorf(mailroom.CodeForbidden,
			"reservation %s was made with another token: only that token can release it, or an admin with force", id)
	}
	p.endLapsed(by, now)
	p.endReservations(entry.KindReleased, by, now, r)
	return *r, nil
}

// ReleaseNames ends the agent's reservations of these names, at most MaxReserve. Names that it does
// not hold are skipped.
func (p *State) ReleaseNames(
	holder string, names []string, by *auth.Token, now time.Time,
) ([]store.Reservation, error) {
	if len(names) > MaxReserve {
		return nil, check.Invalid("names", fmt.Sprintf("must be at most %d", MaxReserve), len(names))
	}
	var rows []*store.Reservation
	for _, name := range names {
		r := p.held.find(strings.TrimPrefix(name, "./"), holder, by.Name)
		if r != nil && r.Live(now) && !slices.Contains(rows, r) {
			rows = append(rows, r)
		}
	}
	p.endReservations(entry.KindReleased, by, now, rows...)
	ended := make([]store.Reservation, 0, len(rows))
	for _, r := range rows {
		ended = append(ended, *r)
	}
	return ended, nil
}

// find returns the active reservation with this id, or CodeNotFound if there is none or the token cannot see its
// project.
func (p *State) find(id string, by *auth.Token, now time.Time) (*store.Reservation, error) {
	r := p.held.ids[id]
	if r == nil || !r.Live(now) || !by.CanSee(&p.Thread.Thread) {
		return nil, NotFound(id)
	}
	return r, nil
}

// NotFound returns the error for a reservation that is not active.
func NotFound(id string) error {
	return mailroom.Errorf(mailroom.CodeNotFound, "no active reservation %q: it has ended or never existed", id)
}

// endLapsed records expired reservations in the log, together with another write: their expiry needs no write of
// its own, and no sweep. It ends the oldest MaxEnded of them, and the expired ones in again, which are reserved
// again.
func (p *State) endLapsed(by *auth.Token, now time.Time, again ...*store.Reservation) {
	var lapsed []*store.Reservation
	for _, r := range p.held.rows {
		if !r.Live(now) && (len(lapsed) < MaxEnded || slices.Contains(again, r)) {
			lapsed = append(lapsed, r)
		}
	}
	p.endReservations(entry.KindLapsed, by, now, lapsed...)
}

func (p *State) endReservations(kind string, by *auth.Token, now time.Time, ended ...*store.Reservation) {
	if len(ended) == 0 {
		return
	}
	for _, r := range ended {
		body := store.ReservationEnd{Reservation: r.ID, Name: r.Name, Holder: r.Holder, Fence: r.Fence}
		if kind == entry.KindReleased {
			body.By = by.Name
		}
		p.appendEvent(by, kind, body, now)
		delete(p.changed, r.ID)
		p.dropped = append(p.dropped, r.ID)
	}
	p.held.remove(ended)
}

// save marks r as changed.
func (p *State) save(r *store.Reservation) {
	p.changed[r.ID] = r
	p.Thread.Touch()
}
