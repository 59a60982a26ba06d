package postgres

import (
	"math"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// Lists of the rows of an owner and of some threads are merged by their keys: each of the indexes has the order of
// the list, and a row of another thread is never read. The bodies are read last, because a merge drops most keys.

// keysWithin selects the keys of rows of a table, of each condition and then of each thread.
type keysWithin struct {
	table, thread, key string // with the alias, and two columns of it
	from               int64
	oldest             bool
	limit              int
	which              func(s *sqlstore.Select) // adds conditions
}

func (k keysWithin) add(s *sqlstore.Select, threads []int64, conds ...func(s *sqlstore.Select)) {
	begin := func() { s.Begin("(SELECT " + k.key + " FROM " + k.table) }
	end := func() { s.Add(" LIMIT nullif(?::bigint, 0))", int64(k.limit)) }
	for _, cond := range conds {
		begin()
		cond(s)
		k.which(s)
		s.ByKey(k.key, k.from, k.oldest)
		end()
		s.Add(" UNION ")
	}
	s.Add("SELECT l.key FROM unnest(?::bigint[]) u (key) CROSS JOIN LATERAL ", append([]int64{}, threads...))
	begin()
	// With thread = u.key and the order of keys, PostgreSQL may read the newest rows of all threads to find those of
	// one. Only the index of threads has this order.
	if k.oldest {
		s.Cond("("+k.thread+", "+k.key+") > (u.key, ?::bigint) AND "+k.thread+" <= u.key", k.from)
		k.which(s)
		s.Add(" ORDER BY " + k.thread + ", " + k.key)
	} else {
		from := k.from
		if from == 0 {
			from = math.MaxInt64
		}
		s.Cond("("+k.thread+", "+k.key+") < (u.key, ?::bigint) AND "+k.thread+" >= u.key", from)
		k.which(s)
		s.Add(" ORDER BY " + k.thread + " DESC, " + k.key + " DESC")
	}
	end()
	s.Add(" l")
}

// runsWithin reads the runs of an owner and of threads.
func (r reader) runsWithin(q store.RunQuery) ([]*mailroom.Run, error) {
	var s sqlstore.Select
	s.Add("SELECT w.key, (SELECT r.body FROM run r WHERE r.key = w.key) FROM (")
	var conds []func(s *sqlstore.Select)
	if q.Owner != "" {
		conds = append(conds,
			func(s *sqlstore.Select) { s.Cond("r.owner = ?", q.Owner) },
			func(s *sqlstore.Select) { s.Cond("r.owner IS NULL") })
	}
	k := keysWithin{"run r", "r.thread", "r.key", q.From, q.Oldest, q.Limit, func(*sqlstore.Select) {}}
	k.add(&s, q.Threads, conds...)
	s.Begin(") w")
	s.ByKey("w.key", 0, q.Oldest)
	return list(r, "read runs", &s, q.Limit, q.Bytes, scanRun)
}

// ticketsWithin reads the tickets of an owner and of threads.
func (r reader) ticketsWithin(q store.TicketQuery) ([]*mailroom.Ticket, error) {
	var s sqlstore.Select
	s.Add("SELECT (SELECT a.agent FROM ticket k JOIN run a ON a.key = k.run WHERE k.key = w.key), w.key, " +
		"(SELECT k.body FROM ticket k WHERE k.key = w.key) FROM (")
	var conds []func(s *sqlstore.Select)
	if q.Owner != "" {
		conds = append(conds, func(s *sqlstore.Select) { s.Cond("k.owner = ?", q.Owner) })
	}
	which := func(s *sqlstore.Select) { whichTickets(s, q) }
	k := keysWithin{"ticket k", "k.thread", "k.key", q.From, q.Oldest, q.Limit, which}
	k.add(&s, q.Threads, conds...)
	s.Begin(") w")
	s.ByKey("w.key", 0, q.Oldest)
	return list(r, "read tickets", &s, q.Limit, q.Bytes, scanTicket)
}
