package fold

import (
	"time"

	"mailroom"
	"mailroom/entry"
)

// Ticket is what the log says about a ticket.
type Ticket struct {
	Opened  []int64 // times of the entries that opened it, in microseconds since 1970
	Run     string
	Kind    mailroom.TicketKind
	State   mailroom.TicketState
	Verdict mailroom.Verdict
	Seq     int64 // seq of the entry that opened the ticket first
	Seen    bool  // the caller compared its row

	expires time.Time
}

// opened folds a ticket that a run opens. A ticket that became void can be opened again.
func (l *Log) opened(e mailroom.Entry, r *Run) {
	var body struct {
		ID        string              `json:"id"`
		Kind      mailroom.TicketKind `json:"kind"`
		ExpiresAt time.Time           `json:"expires_at"`
	}
	l.decode(e, &body)
	l.transition(e, r, StateRunning, StateRunning)
	r.Asked++
	k := l.Tickets[body.ID]
	if k == nil {
		k = &Ticket{Run: e.Run, Seq: e.Seq}
		l.Tickets[body.ID] = k
		r.tickets = append(r.tickets, k)
	} else if k.State != mailroom.TicketVoid {
		l.badTicket(e.Run, body.ID, "entry %d opens ticket %s of run %s again while it is %s", e.Seq, body.ID, e.Run, k.State)
	}
	k.Opened = append(k.Opened, Micros(e.At))
	k.Kind, k.State, k.Verdict, k.expires = body.Kind, mailroom.TicketOpen, "", body.ExpiresAt
}

// decided folds a decision or an expiry. An open ticket gets only one of the two.
func (l *Log) decided(e mailroom.Entry, r *Run) {
	var body struct {
		Ticket   string           `json:"ticket"`
		Decision mailroom.Verdict `json:"decision"`
	}
	l.decode(e, &body)
	id, expiry := body.Ticket, e.Kind == entry.KindTicketExpired
	if expiry {
		l.transition(e, r, StateWaiting, StateWaiting)
	} else if r.State.Ended() {
		l.badTicket(e.Run, id, "entry %d decides ticket %s of run %s, which is %s", e.Seq, id, e.Run, r.State)
	}
	k := l.Tickets[id]
	switch {
	case r.State == StatePurged:
		return
	case k == nil:
		l.badTicket(e.Run, id, "entry %d, %s, is about ticket %s of run %s, which was never opened", e.Seq, e.Kind, id, e.Run)
		return
	case k.State != mailroom.TicketOpen:
		l.badTicket(e.Run, id, "entry %d, %s, is about ticket %s of run %s, which is already %s", e.Seq, e.Kind, id,
			e.Run, k.State)
	}
	if over := !k.expires.IsZero() && !k.expires.After(e.At); over != expiry {
		l.badTicket(e.Run, id, "entry %d, %s, is of %s; ticket %s of run %s expires at %s", e.Seq, e.Kind, e.At, id,
			e.Run, k.expires)
	}
	k.State, k.Verdict = mailroom.TicketDecided, body.Decision
	if expiry {
		k.State = mailroom.TicketExpired
	}
}
