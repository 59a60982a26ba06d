package postgres

import (
	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

const (
	// ticketColumns are the values that scanTicket reads. The agent is not in the row, which is older than the field.
	ticketColumns = "(SELECT a.agent FROM run a WHERE a.key = k.run), k.key, k.body"
	insertTickets = `WITH w AS (INSERT INTO ticket (id, thread, run, owner, kind, state, body) SELECT u.id, t.key,
		r.key, t.owner, u.kind, u.state, u.body
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[]) WITH ORDINALITY u (id,
		thread, run, kind, state, body, n)
			JOIN run r ON r.id = u.run JOIN thread t ON t.key = r.thread AND t.id = u.thread
		ORDER BY u.n RETURNING key)` + checkKeys
	updateTickets = `WITH w AS (UPDATE ticket k SET kind = u.kind, state = u.state, body = u.body
		FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[]) u (key, id, kind, state, body)
		WHERE k.key = u.key AND k.id = u.id RETURNING 1)` + checkRows
)

func scanTicket(c *columns) (*mailroom.Ticket, error) {
	k := &mailroom.Ticket{Agent: c.Text(), Key: c.Int64()}
	return k, format.ParseTicket(c.Text(), k)
}

// Tickets implements [store.Reader].
func (r reader) Tickets(q store.TicketQuery) ([]*mailroom.Ticket, error) {
	if q.Owner != "" || len(q.Threads) > 0 {
		return r.ticketsWithin(q)
	}
	var s sqlstore.Select
	s.Add("SELECT " + ticketColumns + " FROM ticket k")
	budget := q.Bytes
	if q.Prefix != "" {
		s.Under("k.id", q.Prefix, q.After)
		return list(r, "read tickets", &s, q.Limit, budget, scanTicket)
	}
	if len(q.IDs) > 0 {
		s.Cond("k.id = ANY (?::text[])", sqlstore.Distinct(q.IDs))
		budget = 0
	}
	if len(q.Runs) > 0 {
		s.Cond("k.run = ANY (ARRAY(SELECT key FROM run WHERE id = ANY (?::text[])))", sqlstore.Distinct(q.Runs))
		budget = 0
	}
	if q.Thread != "" {
		s.Cond("k.thread = (SELECT key FROM thread WHERE id = ?)", q.Thread)
	}
	whichTickets(&s, q)
	s.ByKey("k.key", q.From, q.Oldest)
	return list(r, "read tickets", &s, q.Limit, budget, scanTicket)
}

// whichTickets adds the conditions of states and kinds.
func whichTickets(s *sqlstore.Select, q store.TicketQuery) {
	if len(q.States) == 1 && q.States[0] == mailroom.TicketOpen {
		s.Cond("k.state = 'open'") // the condition of a partial index
	} else if len(q.States) > 0 {
		s.Cond("k.state = ANY (?::text[])", plainTexts(q.States))
	}
	if len(q.Kinds) > 0 {
		s.Cond("k.kind = ANY (?::text[])", plainTexts(q.Kinds))
	}
}

func (w *writing) writeTickets(tickets []*mailroom.Ticket) {
	var old, fresh struct {
		keys                             []int64
		ids, threads, runs, kinds, state []string
		bodies                           [][]byte
	}
	var inserted []*mailroom.Ticket
	for _, k := range tickets {
		into := &old
		if k.Key == 0 {
			into = &fresh
			inserted = append(inserted, k)
		}
		into.keys, into.ids = append(into.keys, k.Key), append(into.ids, k.ID)
		into.threads, into.runs = append(into.threads, k.Thread), append(into.runs, k.Run)
		into.kinds, into.state = append(into.kinds, string(k.Kind)), append(into.state, string(k.State))
		into.bodies = append(into.bodies, format.AppendTicket(nil, k))
	}
	if len(fresh.ids) > 0 {
		keys := setKeys(inserted, func(k *mailroom.Ticket) *int64 { return &k.Key })
		w.trip.add(keys, insertTickets, len(fresh.ids), fresh.ids, fresh.threads, fresh.runs, fresh.kinds, fresh.state,
			fresh.bodies)
	}
	if len(old.ids) > 0 {
		w.trip.add(nil, updateTickets, len(old.ids), old.keys, old.ids, old.kinds, old.state, old.bodies)
	}
}
