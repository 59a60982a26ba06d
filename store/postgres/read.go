package postgres

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/store/internal/format"
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

// distinct sorts ids and removes duplicates. Its result is not nil, which would be NULL.
func distinct(ids []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(append([]string{}, ids...))))
}

func scanThread(c *columns) (*mailroom.Thread, error) {
	t := &mailroom.Thread{Key: c.int64()}
	return t, format.ParseThread(c.text(), t)
}

func scanRun(c *columns) (*mailroom.Run, error) {
	r := &mailroom.Run{Key: c.int64()}
	return r, format.ParseRun(c.text(), r)
}

func scanTicket(c *columns) (*mailroom.Ticket, error) {
	k := &mailroom.Ticket{Key: c.int64()}
	return k, format.ParseTicket(c.text(), k)
}

func scanToken(c *columns) (*auth.Token, error) {
	t := &auth.Token{Key: c.int64()}
	err := format.ParseToken(c.text(), t)
	t.Used = auth.Use{Threads: c.int64(), Bytes: c.int64(), Workers: c.int64(), Notifications: c.int64()}
	return t, err
}

// selection builds a SELECT. Its variable parts are arguments, so that there are few distinct
// statements to prepare.
type selection struct {
	text  strings.Builder
	args  []any
	where bool
}

// cond adds a condition, in which each ? is the place of an argument.
func (s *selection) cond(text string, args ...any) {
	if s.where {
		s.text.WriteString(" AND ")
	} else {
		s.text.WriteString(" WHERE ")
	}
	s.where = true
	s.add(text, args...)
}

func (s *selection) add(text string, args ...any) {
	for _, arg := range args {
		before, after, _ := strings.Cut(text, "?")
		s.args = append(s.args, arg)
		s.text.WriteString(before + "$" + strconv.Itoa(len(s.args)))
		text = after
	}
	s.text.WriteString(text)
}

// gauge tracks the rows and bytes of a result against its limits.
type gauge struct {
	rows, bytes   int // so far
	limit, budget int // 0: no limit
}

// add counts a row, and reports whether the limits allow another.
func (g *gauge) add(size int) bool {
	g.rows++
	g.bytes += size
	return (g.limit <= 0 || g.rows < g.limit) && (g.budget <= 0 || g.bytes <= g.budget)
}

// pageRows are the rows of the first page of a list that is limited in bytes; later pages are
// larger.
const pageRows = 64

// list runs s up to the limits. PostgreSQL sends all rows that a statement selects, so a list that is
// limited in bytes is read in pages.
func list[T any](r reader, doing string, s *selection, limit, budget int, scan func(c *columns) (T, error)) ([]T, error) {
	var found []T
	text, args := s.text.String(), s.args
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
	g, more := gauge{limit: limit, budget: budget}, true
	for page := pageRows; ; page *= 2 {
		rows := 0
		err := r.query(doing, func(c *columns) error {
			if rows++; !more {
				return nil
			}
			row, err := scan(c)
			found = append(found, row)
			more = g.add(c.size)
			return err
		}, text, append(args[:len(args):len(args)], int64(page), int64(g.rows))...)
		if err != nil || !more || rows < page {
			return found, err
		}
	}
}

// Threads implements [store.Reader].
func (r reader) Threads(q store.ThreadQuery) ([]*mailroom.Thread, error) {
	var s selection
	if q.OnePerAgent {
		s.add("SELECT t.key, t.body FROM due_each() WITH ORDINALITY u (key, n) JOIN thread t ON t.key = u.key ORDER BY u.n")
		return list(r, "read due agents", &s, 0, 0, scanThread)
	}
	s.add("SELECT t.key, t.body FROM thread t")
	budget := q.Bytes
	if q.Prefix != "" {
		s.cond("t.id >= ? AND t.id > ? AND t.deleted IS NULL", q.Prefix, q.After)
		if end := prefixEnd(q.Prefix); end != "" {
			s.cond("t.id < ?", end)
		}
		s.add(" ORDER BY t.id")
		return list(r, "read threads", &s, q.Limit, budget, scanThread)
	}
	if len(q.IDs) > 0 {
		s.cond("t.id = ANY (?::text[])", distinct(q.IDs))
		budget = 0
	}
	if q.Worker != "" {
		s.cond("t.worker = ?", q.Worker)
	}
	if q.Agent != "" {
		s.cond("t.agent = ?", q.Agent)
	}
	if q.Owner != "" {
		s.cond("t.owner = ?", q.Owner)
	}
	if q.DeliverTo != "" {
		s.cond("t.deliver_to = ?", q.DeliverTo)
	}
	if q.Deleted {
		s.cond("t.deleted")
	} else {
		s.cond("t.deleted IS NULL")
	}
	s.byKey("t.key", q.From, q.Oldest)
	return list(r, "read threads", &s, q.Limit, budget, scanThread)
}

// byKey adds the order of lists, newest first unless oldest is set, and the key to begin behind.
func (s *selection) byKey(column string, from int64, oldest bool) {
	if from != 0 && oldest {
		s.cond(column+" > ?", from)
	} else if from != 0 {
		s.cond(column+" < ?", from)
	}
	s.add(" ORDER BY " + column)
	if !oldest {
		s.add(" DESC")
	}
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
	var s selection
	s.add("SELECT k.key, k.body FROM ticket k")
	budget := q.Bytes
	if len(q.IDs) > 0 {
		s.cond("k.id = ANY (?::text[])", distinct(q.IDs))
		budget = 0
	}
	if len(q.Runs) > 0 {
		s.cond("k.run = ANY (ARRAY(SELECT key FROM run WHERE id = ANY (?::text[])))", distinct(q.Runs))
		budget = 0
	}
	if q.Thread != "" {
		s.cond("k.thread = (SELECT key FROM thread WHERE id = ?)", q.Thread)
	}
	s.whichTickets(q)
	s.byKey("k.key", q.From, q.Oldest)
	return list(r, "read tickets", &s, q.Limit, budget, scanTicket)
}

// whichTickets adds the conditions of states and kinds.
func (s *selection) whichTickets(q store.TicketQuery) {
	if len(q.States) == 1 && q.States[0] == mailroom.TicketOpen {
		s.cond("k.state = 'open'") // the condition of a partial index
	} else if len(q.States) > 0 {
		s.cond("k.state = ANY (?::text[])", plainTexts(q.States))
	}
	if len(q.Kinds) > 0 {
		s.cond("k.kind = ANY (?::text[])", plainTexts(q.Kinds))
	}
}

// Keys implements [store.Reader].
func (r reader) Keys(q store.KeyQuery) ([]store.SubmitKey, error) {
	var s selection
	if q.All {
		s.add("SELECT k.key, k.digest, k.result, k.joined_seq FROM submit_key k")
		s.cond("k.thread = (SELECT key FROM thread WHERE id = ?) AND k.key > ?", q.Thread, q.After)
		s.add(" ORDER BY k.key")
	} else {
		q.Limit = 0
		s.add(`SELECT u.key, k.digest, k.result, k.joined_seq FROM unnest(?::text[]) WITH ORDINALITY u (key, n)
			JOIN submit_key k ON k.key = u.key AND k.thread = (SELECT key FROM thread WHERE id = ?) ORDER BY u.n`, append([]string{}, q.Keys...), q.Thread)
	}
	return list(r, "read submit keys", &s, q.Limit, 0, func(c *columns) (store.SubmitKey, error) {
		k := store.SubmitKey{Thread: q.Thread, Key: c.text(), Digest: c.text()}
		c.json(&k.Result)
		k.JoinedSeq = c.int64()
		return k, c.err
	})
}

// Partials implements [store.Reader].
func (r reader) Partials(runs ...string) ([]store.Partial, error) {
	var s selection
	s.add(`SELECT t.id, r.id, p.attempt, p.message, p.start, p.content FROM run r JOIN thread t ON t.key = r.thread
		JOIN partial p ON p.run = r.key WHERE r.id = ANY (?::text[]) ORDER BY p.run, p.start`, distinct(runs))
	return list(r, "read partials", &s, 0, 0, func(c *columns) (store.Partial, error) {
		return store.Partial{Thread: c.text(), Run: c.text(), Attempt: c.int(), Message: c.text(), Offset: c.int(), Text: c.text()}, nil
	})
}

// Workers implements [store.Reader].
func (r reader) Workers() ([]*store.Worker, error) {
	var s selection
	s.add("SELECT body FROM worker ORDER BY id")
	return list(r, "read workers", &s, 0, 0, func(c *columns) (*store.Worker, error) {
		w := &store.Worker{}
		return w, format.ParseWorker(c.text(), w)
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
	s := selection{args: []any{names}}
	if len(names) == 0 {
		s.args = nil
		s.add(allTokens)
	} else {
		s.add(tokensNamed)
	}
	return list(r, "read tokens", &s, 0, 0, scanToken)
}

// Agents implements [store.Reader].
func (r reader) Agents() (rows store.AgentRows, err error) {
	t := trip{{"SELECT agent, version, body FROM definition ORDER BY agent, version", nil, func(c *columns) error {
		rows.Definitions = append(rows.Definitions, store.Definition{Agent: c.text(), Version: c.text(), Body: c.raw()})
		return nil
	}}}
	t.add(scanPauses(&rows.Pauses), readPauses)
	return rows, r.send("read agents", t)
}

const readPauses = "SELECT agent, by, reason, at, probe FROM pause ORDER BY agent"

func scanPauses(into *[]store.Pause) func(c *columns) error {
	return func(c *columns) error {
		*into = append(*into, store.Pause{Agent: c.text(), By: c.text(), Reason: c.text(), At: c.time(), Probe: c.time()})
		return nil
	}
}

// Cursors implements [store.Reader].
func (r reader) Cursors(q store.CursorQuery) ([]store.Cursor, error) {
	var s selection
	s.add("SELECT channel, identity, position, moved_at FROM cursor")
	if q.Channel != "" {
		s.cond("channel = ?", q.Channel)
	}
	if len(q.Identities) > 0 {
		s.cond("identity = ANY (?::text[])", q.Identities)
		q.Limit = 0
	}
	if q.After != (store.CursorRef{}) {
		s.cond("(channel, identity) > (?, ?)", q.After.Channel, q.After.Identity)
	}
	s.add(" ORDER BY channel, identity")
	return list(r, "read cursors", &s, q.Limit, 0, func(c *columns) (store.Cursor, error) {
		return store.Cursor{Channel: c.text(), Identity: c.text(), Position: c.raw(), MovedAt: c.time()}, nil
	})
}

// Reservations implements [store.Reader].
func (r reader) Reservations(q store.ReservationQuery) ([]store.Reservation, error) {
	var s selection
	s.add("SELECT v.body FROM reservation v JOIN thread t ON t.key = v.thread")
	if q.ID != "" {
		s.cond("v.id = ?", q.ID)
	}
	if q.Thread != "" {
		s.cond("t.id = ?", q.Thread)
	}
	s.add(" ORDER BY t.id, v.fence, v.id")
	return list(r, "read reservations", &s, 0, 0, func(c *columns) (v store.Reservation, err error) {
		return v, format.ParseReservation(c.text(), &v)
	})
}
