package thread

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/internal/check"
)

// Tickets are the loaded and new tickets of a thread: the tickets of its current run, and the tickets that an
// operation names.
type Tickets struct {
	byID      map[string]*mailroom.Ticket
	byName    map[ticketName]*mailroom.Ticket // the same; the id of a name is a hash
	changed   []string                        // ids, in order of their first change
	isChanged map[string]bool                 // changed tickets by id
}

// ticketName identifies a ticket within its run.
type ticketName struct{ run, name string }

// Add adds a loaded ticket, unless a value for it exists.
func (s *Tickets) Add(row *mailroom.Ticket) {
	if s.byID[row.ID] == nil {
		s.set(row)
	}
}

func (s *Tickets) set(k *mailroom.Ticket) {
	if s.byID == nil {
		s.byID, s.byName = map[string]*mailroom.Ticket{}, map[ticketName]*mailroom.Ticket{}
	}
	s.byID[k.ID] = k
	s.byName[ticketName{k.Run, k.Name}] = k
}

// touch marks k, which may be new, as changed.
func (s *Tickets) touch(k *mailroom.Ticket) {
	s.set(k)
	if s.isChanged[k.ID] {
		return
	}
	if s.isChanged == nil {
		s.isChanged = map[string]bool{}
	}
	s.isChanged[k.ID] = true
	s.changed = append(s.changed, k.ID)
}

// Find returns the ticket with an id, or nil.
func (s *Tickets) Find(id string) *mailroom.Ticket { return s.byID[id] }

// named returns the ticket of a run under a name, or nil.
func (s *Tickets) named(run, name string) *mailroom.Ticket { return s.byName[ticketName{run, name}] }

// of returns the tickets of a run, ordered by id.
func (s *Tickets) of(run string) []*mailroom.Ticket {
	var of []*mailroom.Ticket
	for _, k := range s.byID {
		if k.Run == run {
			of = append(of, k)
		}
	}
	slices.SortFunc(of, func(a, b *mailroom.Ticket) int { return strings.Compare(a.ID, b.ID) })
	return of
}

// void closes the open tickets of a run.
func (s *Tickets) void(run string) {
	for _, k := range s.of(run) {
		if k.State == mailroom.TicketOpen {
			k.State = mailroom.TicketVoid
			s.touch(k)
		}
	}
}

// expire expires the due tickets of a run and returns them.
func (s *Tickets) expire(run string, now time.Time) []*mailroom.Ticket {
	var due []*mailroom.Ticket
	for _, k := range s.of(run) {
		if k.State == mailroom.TicketOpen && k.ExpiresAt != nil && !k.ExpiresAt.After(now) {
			k.State = mailroom.TicketExpired
			s.touch(k)
			due = append(due, k)
		}
	}
	return due
}

// expiry returns the earliest time at which an open ticket of a run expires or fires.
func (s *Tickets) expiry(run string) time.Time {
	var first time.Time
	for _, k := range s.byID {
		if k.Run == run && k.State == mailroom.TicketOpen && k.ExpiresAt != nil &&
			(first.IsZero() || k.ExpiresAt.Before(first)) {
			first = *k.ExpiresAt
		}
	}
	return first
}

// checkAsks returns an error if an ask of a run contradicts an earlier one with the same name, or if
// the run would have more tickets than each of its transitions can load.
func (s *Tickets) checkAsks(run string, asks []ask) error {
	first, count, size := map[string]string{}, 0, 0 // first: digests by name
	for i := range asks {
		a := &asks[i]
		old := s.named(run, a.Name)
		known := old != nil && old.State != mailroom.TicketVoid
		before, repeat := first[a.Name]
		if known && old.Digest != a.digest || repeat && before != a.digest {
			return mailroom.Errorf(mailroom.CodeConflict,
				"ticket %q of run %s exists with other content; use another name", a.Name, run)
		}
		first[a.Name] = a.digest
		if old == nil && !repeat {
			count++
			size += len(a.Name) + len(a.Prompt) + len(a.Action) + len(a.Arguments)
		}
	}
	if count == 0 {
		return nil
	}
	for _, k := range s.byID {
		if k.Run == run {
			count++
			size += len(k.Name) + len(k.Prompt) + len(k.Action) + len(k.Arguments)
		}
	}
	if count > MaxTickets || size > MaxTicketsSize {
		return check.TooLarge("tickets", fmt.Sprintf(
			"of one run are at most %d, with %d bytes together; continue in another run", MaxTickets, MaxTicketsSize), count)
	}
	return nil
}

// waitEnded reports whether the run may continue, by the recorded states of its tickets.
func (s *Tickets) waitEnded(r *mailroom.Run) bool {
	return r.Wait == nil || r.Wait.Ended(func(name string) bool {
		k := s.named(r.ID, name)
		return k != nil && k.State == mailroom.TicketOpen
	})
}

// waitExpired reports whether the wait of a parked run has ended by expiry, although no transition
// has recorded it yet.
func (s *Tickets) waitExpired(r *mailroom.Run, now time.Time) bool {
	return r.Wait.Ended(func(name string) bool { return isOpen(s.named(r.ID, name), now) })
}

// waitKind classifies a parked run by its open tickets: TicketInput if a message can answer one,
// TicketApproval if messages must queue, TicketEvent otherwise.
func (s *Tickets) waitKind(r *mailroom.Run, now time.Time) mailroom.TicketKind {
	kind := mailroom.TicketEvent
	for _, name := range r.Wait.Names {
		k := s.named(r.ID, name)
		switch {
		case !isOpen(k, now):
		case k.Kind == mailroom.TicketInput:
			return mailroom.TicketInput
		case k.Kind == mailroom.TicketApproval, k.Holds:
			kind = mailroom.TicketApproval
		}
	}
	return kind
}

// firstQuestion returns the first ticket of a wait that a message can answer, or nil.
func (s *Tickets) firstQuestion(r *mailroom.Run, now time.Time) *mailroom.Ticket {
	for _, name := range r.Wait.Names {
		if k := s.named(r.ID, name); isOpen(k, now) && k.Kind == mailroom.TicketInput {
			return k
		}
	}
	return nil
}

// answered returns the ids of the tickets in the run's Wait that are no longer open.
func (s *Tickets) answered(r *mailroom.Run) []string {
	var ids []string
	if r.Wait == nil {
		return nil
	}
	for _, name := range r.Wait.Names {
		if k := s.named(r.ID, name); k != nil && k.State != mailroom.TicketOpen {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

// isOpen reports whether a ticket, which may be nil, can still be decided at now.
func isOpen(k *mailroom.Ticket, now time.Time) bool {
	return k != nil && k.StateAt(now) == mailroom.TicketOpen
}
