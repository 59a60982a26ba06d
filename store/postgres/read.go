package postgres

import (
	"strconv"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/store/internal/format"
	"mailroom/store/internal/sqlstore"
)

// reader answers queries in a transaction.
type reader struct {
	send  func(doing string, t trip) error
	clock func() time.Time
	unpin string // undoes a pin
}

// A pin lets the queries of one trip use certain plans only, whatever the statistics say.
const (
	// All later entries must not be read to sort them: the order of the index is completed for each position
	// alone, by an incremental sort.
	pinSeek = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)"
	// Only the index of words is used.
	pinWords = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'on', true)"

	unpinReader = "SELECT set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true), set_config('enable_sort', 'on', true)"
	unpinWriter = "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'on', true)" // see pinPlans
)

// sendPinned sends queries with a pin.
func (r reader) sendPinned(doing, pin string, t trip) error {
	return r.send(doing, append(append(trip{{text: pin}}, t...), statement{text: r.unpin}))
}

// Now implements [store.Reader].
func (r reader) Now() time.Time { return r.clock() }

func (r reader) query(doing string, each func(c *columns) error, text string, args ...any) error {
	return r.send(doing, trip{{text, args, each}})
}

// micros encodes a time; 0 is the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func scanThread(c *columns) (*mailroom.Thread, error) {
	t := &mailroom.Thread{Key: c.Int64()}
	return t, format.ParseThread(c.Text(), t)
}

func scanRun(c *columns) (*mailroom.Run, error) {
	r := &mailroom.Run{Key: c.Int64()}
	return r, format.ParseRun(c.Text(), r)
}

func scanTicket(c *columns) (*mailroom.Ticket, error) {
	k := &mailroom.Ticket{Key: c.Int64()}
	return k, format.ParseTicket(c.Text(), k)
}

func scanToken(c *columns) (*auth.Token, error) {
	t := &auth.Token{Key: c.Int64()}
	err := format.ParseToken(c.Text(), t)
	t.Used = auth.Use{Threads: c.Int64(), Bytes: c.Int64(), Workers: c.Int64(), Notifications: c.Int64()}
	return t, err
}

// pageRows are the rows of the first page of a list that is limited in bytes; later pages are
// larger.
const pageRows = 64

// list runs s up to the limits. PostgreSQL sends all rows that a statement selects, so a list that is
// limited in bytes is read in pages.
func list[T any](r reader, doing string, s *sqlstore.Select, limit, budget int, scan func(c *columns) (T, error)) ([]T, error) {
	var found []T
	text, args := s.Numbered(), s.Args()
	if budget <= 0 {
		if limit > 0 {
			text, args = text+" LIMIT $"+strconv.Itoa(len(args)+1), append(args, int64(limit))
		}
		return found, r.query(doing, func(c *columns) error {
			row, err := scan(c)
			found = append(found, row)
			return err
		}, text, args...)
	}
	text += " LIMIT $" + strconv.Itoa(len(args)+1) + " OFFSET $" + strconv.Itoa(len(args)+2)
	g, more := sqlstore.Gauge{Limit: limit, Budget: budget}, true
	for page := pageRows; ; page *= 2 {
		rows := 0
		err := r.query(doing, func(c *columns) error {
			if rows++; !more {
				return nil
			}
			row, err := scan(c)
			found = append(found, row)
			more = g.Add(c.size)
			return err
		}, text, append(args[:len(args):len(args)], int64(page), int64(g.Rows))...)
		if err != nil || !more || rows < page {
			return found, err
		}
	}
}

// Threads implements [store.Reader].
func (r reader) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	var s sqlstore.Select
	if q.OnePerAgent {
		s.Add("SELECT t.key, t.body FROM due_each() WITH ORDINALITY u (key, n) JOIN thread t ON t.key = u.key ORDER BY u.n")
		return list(r, "read due agents", &s, 0, 0, scanThread)
	}
	s.Add("SELECT t.key, t.body FROM thread t")
	budget := q.Bytes
	if q.Prefix != "" {
		s.Cond("t.id >= ? AND t.id > ? AND t.deleted IS NULL", q.Prefix, q.After)
		if end := prefixEnd(q.Prefix); end != "" {
			s.Cond("t.id < ?", end)
		}
		s.Add(" ORDER BY t.id")
		return list(r, "read threads", &s, q.Limit, budget, scanThread)
	}
	if len(q.IDs) > 0 {
		s.Cond("t.id = ANY (?::text[])", sqlstore.Distinct(q.IDs))
		budget = 0
	}
	s.Equal("t.worker", q.Worker)
	s.Equal("t.agent", q.Agent)
	s.Equal("t.owner", q.Owner)
	s.Equal("t.deliver_to", q.DeliverTo)
	if q.Deleted {
		s.Cond("t.deleted")
	} else {
		s.Cond("t.deleted IS NULL")
	}
	s.ByKey("t.key", q.From, q.Oldest)
	return list(r, "read threads", &s, q.Limit, budget, scanThread)
}

// prefixEnd returns the first text behind all texts with a prefix, in the order of bytes; "" if there
// is none. It is valid UTF-8: it has the next code point in place of the prefix's last one.
func prefixEnd(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		next := runes[i] + 1
		if next == 0xD800 {
			next = 0xE000 // behind the surrogates
		}
		if next <= 0x10FFFF {
			return string(runes[:i]) + string(next)
		}
	}
	return ""
}

// Tickets implements [store.Reader].
func (r reader) Tickets(q store.TicketQuery) ([]*mailroom.Ticket, error) {
	if q.Owner != "" || len(q.Threads) > 0 {
		return r.ticketsWithin(q)
	}
	var s sqlstore.Select
	s.Add("SELECT k.key, k.body FROM ticket k")
	budget := q.Bytes
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

// Keys implements [store.Reader].
func (r reader) Keys(q store.KeyQuery) ([]store.SubmitKey, error) {
	var s sqlstore.Select
	if q.All {
		s.Add("SELECT k.key, k.digest, k.result, k.joined_seq FROM submit_key k")
		s.Cond("k.thread = (SELECT key FROM thread WHERE id = ?) AND k.key > ?", q.Thread, q.After)
		s.Add(" ORDER BY k.key")
	} else {
		q.Limit = 0
		s.Add(`SELECT u.key, k.digest, k.result, k.joined_seq FROM unnest(?::text[]) WITH ORDINALITY u (key, n)
			JOIN submit_key k ON k.key = u.key AND k.thread = (SELECT key FROM thread WHERE id = ?) ORDER BY u.n`, append([]string{}, q.Keys...), q.Thread)
	}
	return list(r, "read submit keys", &s, q.Limit, 0, func(c *columns) (store.SubmitKey, error) {
		k := store.SubmitKey{Thread: q.Thread, Key: c.Text(), Digest: c.Text()}
		c.json(&k.Result)
		k.JoinedSeq = c.Int64()
		return k, c.err
	})
}

// Partials implements [store.Reader].
func (r reader) Partials(runs ...string) ([]store.Partial, error) {
	var s sqlstore.Select
	s.Add(`SELECT t.id, r.id, p.attempt, p.message, p.start, p.content FROM run r JOIN thread t ON t.key = r.thread
		JOIN partial p ON p.run = r.key WHERE r.id = ANY (?::text[]) ORDER BY p.run, p.start`, sqlstore.Distinct(runs))
	return list(r, "read partials", &s, 0, 0, func(c *columns) (store.Partial, error) {
		return store.Partial{Thread: c.Text(), Run: c.Text(), Attempt: c.Int(), Message: c.Text(), Offset: c.Int(), Text: c.Text()}, nil
	})
}

// Workers implements [store.Reader].
func (r reader) Workers() ([]*store.Worker, error) {
	var s sqlstore.Select
	s.Add("SELECT body FROM worker ORDER BY id")
	return list(r, "read workers", &s, 0, 0, func(c *columns) (*store.Worker, error) {
		w := &store.Worker{}
		return w, format.ParseWorker(c.Text(), w)
	})
}

const (
	tokenColumns = `SELECT t.key, t.body, coalesce(sum(u.threads), 0)::bigint, coalesce(sum(u.bytes), 0)::bigint,
		coalesce(sum(u.workers), 0)::bigint, coalesce(sum(u.notifications), 0)::bigint
		FROM token t LEFT JOIN token_use u ON u.token = t.name`
	tokensNamed = tokenColumns + " WHERE t.name = ANY ($1::text[]) GROUP BY t.key ORDER BY t.name"
	allTokens   = tokenColumns + " GROUP BY t.key ORDER BY t.name"
)

// Tokens implements [store.Reader].
func (r reader) Tokens(names ...string) ([]*auth.Token, error) {
	var s sqlstore.Select
	if len(names) == 0 {
		s.Add(allTokens)
	} else {
		s.Add(tokensNamed, names)
	}
	return list(r, "read tokens", &s, 0, 0, scanToken)
}

// Agents implements [store.Reader].
func (r reader) Agents() (rows store.AgentRows, err error) {
	t := trip{{"SELECT agent, version, body FROM definition ORDER BY agent, version", nil, func(c *columns) error {
		rows.Definitions = append(rows.Definitions, store.Definition{Agent: c.Text(), Version: c.Text(), Body: c.raw()})
		return nil
	}}}
	t.add(scanPauses(&rows.Pauses), readPauses)
	return rows, r.send("read agents", t)
}

const readPauses = "SELECT agent, by, reason, at, probe FROM pause ORDER BY agent"

func scanPauses(into *[]store.Pause) func(c *columns) error {
	return func(c *columns) error {
		*into = append(*into, store.Pause{Agent: c.Text(), By: c.Text(), Reason: c.Text(), At: c.Time(), Probe: c.Time()})
		return nil
	}
}

// Cursors implements [store.Reader].
func (r reader) Cursors(q store.CursorQuery) ([]store.Cursor, error) {
	var s sqlstore.Select
	s.Add("SELECT channel, identity, position, moved_at FROM cursor")
	s.Equal("channel", q.Channel)
	if len(q.Identities) > 0 {
		s.Cond("identity = ANY (?::text[])", q.Identities)
		q.Limit = 0
	}
	if q.After != (store.CursorRef{}) {
		s.Cond("(channel, identity) > (?, ?)", q.After.Channel, q.After.Identity)
	}
	s.Add(" ORDER BY channel, identity")
	return list(r, "read cursors", &s, q.Limit, 0, func(c *columns) (store.Cursor, error) {
		return store.Cursor{Channel: c.Text(), Identity: c.Text(), Position: c.raw(), MovedAt: c.Time()}, nil
	})
}

// Reservations implements [store.Reader].
func (r reader) Reservations(q store.ReservationQuery) ([]store.Reservation, error) {
	var s sqlstore.Select
	s.Add("SELECT v.body FROM reservation v JOIN thread t ON t.key = v.thread")
	s.Equal("v.id", q.ID)
	s.Equal("t.id", q.Thread)
	s.Add(" ORDER BY t.id, v.fence, v.id")
	return list(r, "read reservations", &s, 0, 0, func(c *columns) (v store.Reservation, err error) {
		return v, format.ParseReservation(c.Text(), &v)
	})
}
