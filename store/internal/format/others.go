package format

import (
	"encoding/json"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/budget"
	"mailroom/store"
)

// Only PostgreSQL stores rows of these kinds as bodies, see pack.go; SQLite has a column for each field.

// AppendTicket appends a ticket to buffer, without its key.
func AppendTicket(buffer []byte, k *mailroom.Ticket) []byte { return pack(buffer, k, (*packer).ticket) }

// ParseTicket sets the fields of k from its body.
func ParseTicket(body string, k *mailroom.Ticket) error { return unpack(body, k, (*packer).ticket) }

// AppendWorker appends a worker to buffer.
func AppendWorker(buffer []byte, w *store.Worker) []byte { return pack(buffer, w, (*packer).worker) }

// ParseWorker sets the fields of w from its body.
func ParseWorker(body string, w *store.Worker) error { return unpack(body, w, (*packer).worker) }

// AppendToken appends a token to buffer, without its key and its use.
func AppendToken(buffer []byte, t *auth.Token) []byte { return pack(buffer, t, (*packer).token) }

// ParseToken sets the fields of t from its body.
func ParseToken(body string, t *auth.Token) error { return unpack(body, t, (*packer).token) }

// AppendReservation appends a reservation to buffer.
func AppendReservation(buffer []byte, v *store.Reservation) []byte {
	return pack(buffer, v, (*packer).reservation)
}

// ParseReservation sets the fields of v from its body.
func ParseReservation(body string, v *store.Reservation) error {
	return unpack(body, v, (*packer).reservation)
}

func (p *packer) ticket(k *mailroom.Ticket) {
	text(p, &k.ID)
	text(p, &k.Thread)
	text(p, &k.Run)
	text(p, &k.Name)
	text(p, &k.Kind)
	text(p, &k.Prompt)
	text(p, &k.Action)
	text(p, &k.Arguments)
	text(p, &k.Digest)
	text(p, &k.State)
	p.timeOrNil(&k.ExpiresAt)
	text(p, &k.Decision)
	text(p, &k.Answer)
	text(p, &k.Reason)
	text(p, &k.DecidedBy)
	p.timeOrNil(&k.DecidedAt)
	p.flag(&k.Answers)
	p.flag(&k.Holds)
	p.time(&k.OpenedAt)
	p.newer(&k.Newer)
}

func (p *packer) worker(w *store.Worker) {
	text(p, &w.ID)
	text(p, &w.Host)
	number(p, &w.PID)
	text(p, &w.Owner)
	p.flag(&w.Local)
	list(p, &w.Agents, text[string])
	p.time(&w.StartedAt)
	p.time(&w.LeaseUntil)
	p.flag(&w.Dead)
	p.flag(&w.Uncharged)
	text(p, &w.Node)
	list(p, &w.Duties, text[string])
	text(p, &w.Version)
	number(p, &w.Tables)
	p.newer(&w.Newer)
}

func (p *packer) token(t *auth.Token) {
	text(p, &t.Name)
	text(p, &t.Sum)
	list(p, &t.Scopes, text[auth.Permission])
	text(p, &t.Namespace)
	list(p, &t.Agents, text[string])
	pairs(p, (*map[auth.Quota]int64)(&t.Quotas), number[int64])
	p.time(&t.CreatedAt)
	p.time(&t.UsedAt)
	p.time(&t.RevokedAt)
	p.terms(&t.Terms)
	text(p, &t.Terms.Source)
	text(p, &t.Terms.Via)
	p.limits(&t.Terms.Budget)
	p.newer(&t.Newer)
}

// limits packs budgets of periods as JSON, so that their format may grow: few tokens have any.
func (p *packer) limits(l *budget.Limits) {
	var body []byte
	if !p.reading && !l.IsZero() {
		var err error
		if body, err = json.Marshal(l); err != nil {
			panic(err) // numbers and times of the years that Budget.Check allows
		}
	}
	text(p, &body)
	if p.reading && len(body) > 0 {
		p.broken = p.broken || json.Unmarshal(body, l) != nil
	}
}

func (p *packer) terms(t *auth.Terms) {
	text(p, &t.Kind)
	text(p, &t.For)
	list(p, &t.Scopes, text[auth.Permission])
	list(p, &t.Threads, text[string])
	text(p, &t.Run)
	p.time(&t.ExpiresAt)
	text(p, &t.Client)
}

func (p *packer) reservation(v *store.Reservation) {
	text(p, &v.ID)
	text(p, &v.Thread)
	text(p, &v.Name)
	text(p, &v.Holder)
	text(p, &v.Owner)
	p.flag(&v.Shared)
	p.flag(&v.Advisory)
	text(p, &v.Reason)
	number(p, &v.Fence)
	p.time(&v.TakenAt)
	p.time(&v.ExpiresAt)
	p.newer(&v.Newer)
}
