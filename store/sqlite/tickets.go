package sqlite

import (
	"cmp"
	"slices"
	"strings"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	ticketColumns = `k.key, k.id, t.id, r.id, k.name, k.kind, k.prompt, k.action, k.digest, k.answers, k.holds, k.state,
		k.expires_at, k.decision, k.reason, k.decided_by, k.decided_at, k.arguments, k.answer, k.opened_at, r.agent`

	// CROSS JOIN fixes the order in which SQLite reads the tables.
	ticketOwners  = " CROSS JOIN run r ON r.key = k.run CROSS JOIN thread t ON t.key = k.thread"
	ticketsWith   = "SELECT " + ticketColumns + " FROM ticket k" + ticketOwners + " WHERE k.id " // … IN list
	ticketsOfRuns = "SELECT " + ticketColumns + " FROM run r CROSS JOIN ticket k ON k.run = r.key" +
		" CROSS JOIN thread t ON t.key = k.thread WHERE r.id " // … IN list

	// The run must belong to the thread.
	insertTicket = `INSERT INTO ticket (name, kind, prompt, action, digest, answers, holds, state,
		expires_at, decision, reason, decided_by, decided_at, arguments, answer, opened_at, id, run, thread, owner)
		SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, r.key, t.key, t.owner
		FROM run r CROSS JOIN thread t ON t.key = r.thread WHERE r.id = ? AND t.id = ?`

	updateTicket = `UPDATE ticket SET name = ?, kind = ?, prompt = ?, action = ?, digest = ?, answers = ?, holds = ?,
		state = ?,
		expires_at = ?, decision = ?, reason = ?, decided_by = ?, decided_at = ?, arguments = ?, answer = ?, opened_at = ?
		WHERE id = ? AND key = ?`
)

// bindTicket returns the values of insertTicket without run and thread, or of updateTicket without
// key.
func bindTicket(k *mailroom.Ticket) []any {
	return []any{k.Name, string(k.Kind), k.Prompt, k.Action, k.Digest, bit(k.Answers), bit(k.Holds),
		string(k.State), microsOf(k.ExpiresAt), string(k.Decision), k.Reason, k.DecidedBy, microsOf(k.DecidedAt),
		orNull(k.Arguments), orNull(k.Answer), micros(k.OpenedAt), k.ID}
}

func scanTicket(c *columns) *mailroom.Ticket {
	return &mailroom.Ticket{
		Key: c.Int64(), ID: c.Text(), Thread: c.Text(), Run: c.Text(), Name: c.Text(),
		Kind: mailroom.TicketKind(c.Text()), Prompt: c.Text(), Action: c.Text(), Digest: c.Text(),
		Answers: c.bool(), Holds: c.bool(), State: mailroom.TicketState(c.Text()), ExpiresAt: c.timeOrNil(),
		Decision: mailroom.Verdict(c.Text()),
		Reason:   c.Text(), DecidedBy: c.Text(), DecidedAt: c.timeOrNil(), Arguments: c.raw(), Answer: c.raw(),
		OpenedAt: c.Time(), Agent: c.Text(),
	}
}

func writeTicket(t *tx, k *mailroom.Ticket) error {
	args := bindTicket(k)
	if k.Key != 0 {
		res, err := t.exec(updateTicket, append(args, k.Key)...)
		return wrote(res, err, "ticket", k.ID, k.Key)
	}
	res, err := t.exec(insertTicket, append(args, k.Run, k.Thread)...)
	if err := wrote(res, err, "run", k.Run, 0); err != nil {
		return err
	}
	k.Key = res.lastKey
	return nil
}

// Tickets implements [store.Reader]: by ids or runs if q names any, otherwise by its other
// conditions.
func (r reader) Tickets(q store.TicketQuery) ([]*mailroom.Ticket, error) {
	switch {
	case len(q.IDs) > 0:
		return r.ticketsByName(ticketsWith, q.IDs, q)
	case len(q.Runs) > 0:
		return r.ticketsByName(ticketsOfRuns, q.Runs, q)
	case q.Owner != "" || len(q.Threads) > 0:
		return ticketsWithin(r, q)
	}
	var s sqlstore.Select
	if q.Prefix != "" {
		s.Add("SELECT " + ticketColumns + " FROM ticket k" + ticketOwners)
		s.Under("k.id", q.Prefix, q.After)
	} else if !whichTickets(&s, q) {
		return nil, nil
	}
	var found []*mailroom.Ticket
	g := sqlstore.Gauge{Limit: q.Limit, Budget: q.Bytes}
	err := r.query("read tickets", s.Text(), s.Args(), func(c *columns) (bool, error) {
		found = append(found, scanTicket(c))
		return g.Add(c.size), nil
	})
	return found, err
}

// ticketsByName reads the rows that match names, which are few.
func (r reader) ticketsByName(text string, names []string, q store.TicketQuery) ([]*mailroom.Ticket, error) {
	var found []*mailroom.Ticket
	for args := range inLists(sqlstore.Distinct(names)) {
		err := r.query("read tickets", text+in(args), args, func(c *columns) (bool, error) {
			if k := scanTicket(c); wanted(k, q) {
				found = append(found, k)
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, func(a, b *mailroom.Ticket) int {
		if q.Oldest {
			return cmp.Compare(a.Key, b.Key)
		}
		return cmp.Compare(b.Key, a.Key)
	})
	return first(found, q.Limit), nil
}

func wanted(k *mailroom.Ticket, q store.TicketQuery) bool {
	switch {
	case len(q.Runs) > 0 && !slices.Contains(q.Runs, k.Run),
		q.Thread != "" && k.Thread != q.Thread,
		len(q.States) > 0 && !slices.Contains(q.States, k.State),
		len(q.Kinds) > 0 && !slices.Contains(q.Kinds, k.Kind),
		q.From != 0 && q.Oldest && k.Key <= q.From,
		q.From != 0 && !q.Oldest && k.Key >= q.From:
		return false
	}
	return true
}

// openState is the condition that ticketConditions returns for open tickets.
const openState = "'" + string(mailroom.TicketOpen) + "'"

// ticketConditions returns the states and kinds of q as literals, see known. It reports false if no ticket can match.
func ticketConditions(q store.TicketQuery) (states, kinds string, ok bool) {
	states = known(q.States, mailroom.TicketOpen, mailroom.TicketDecided, mailroom.TicketExpired, mailroom.TicketVoid)
	kinds = known(q.Kinds, mailroom.TicketApproval, mailroom.TicketInput, mailroom.TicketChildren,
		mailroom.TicketTimer, mailroom.TicketEvent)
	return states, kinds, (len(q.States) == 0 || states != "") && (len(q.Kinds) == 0 || kinds != "")
}

// whichTickets builds the statement for a query without ids and runs. It reports false if no ticket
// can match.
func whichTickets(s *sqlstore.Select, q store.TicketQuery) bool {
	states, kinds, ok := ticketConditions(q)
	if !ok {
		return false
	}
	s.Add("SELECT " + ticketColumns + " FROM ticket k")
	switch { // the planner cannot know that open tickets are few
	case states == openState && q.Thread != "":
		s.Add(" INDEXED BY ticket_open_thread")
	case states == openState:
		s.Add(" INDEXED BY ticket_open")
	}
	s.Add(ticketOwners)
	if q.Thread != "" {
		s.Cond("k.thread = (SELECT key FROM thread WHERE id = ?)", q.Thread)
	}
	oneOf(s, "k.state", states)
	oneOf(s, "k.kind", kinds)
	s.ByKey("k.key", q.From, q.Oldest)
	return true
}

// oneOf adds a condition for the values that known returned, if any.
func oneOf(s *sqlstore.Select, column, values string) {
	switch {
	case values == "":
	case strings.Contains(values, ","):
		s.Cond(column + " IN (" + values + ")")
	default:
		s.Cond(column + " = " + values)
	}
}

// known returns, as SQL literals, the elements of all that are in values. They are literals because SQLite cannot use
// a partial index with a parameter.
func known[T ~string](values []T, all ...T) string {
	var found []string
	for _, v := range all {
		if slices.Contains(values, v) {
			found = append(found, "'"+string(v)+"'")
		}
	}
	return strings.Join(found, ", ")
}
