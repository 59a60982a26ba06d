package sqlite

import (
	"cmp"
	"slices"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

// Lists of the rows of an owner and of some threads are merged by their keys: each of the indexes has the order of
// the list, and a row of another thread is never read.

const (
	runByKey    = "SELECT r.key, r.body FROM run r WHERE r.key = ?"
	threadByKey = "SELECT t.key, t.body FROM thread t WHERE t.key = ?"
	ticketByKey = "SELECT " + ticketColumns + " FROM ticket k" + ticketOwners + " WHERE k.key = ?"
)

// page is the part of a list that a query asks for.
type page struct {
	from   int64
	oldest bool
	limit  int
	bytes  int
}

// firstKeys merges lists of keys, each with a condition. Each list is read only as far as its keys can be
// among the first.
func firstKeys(r reader, p page, lists []*sqlstore.Select) (keys []int64, err error) {
	for _, s := range lists {
		if sqlstore.Full(len(keys), p.limit) {
			if p.oldest {
				s.Cond("key < ?", keys[p.limit-1])
			} else {
				s.Cond("key > ?", keys[p.limit-1])
			}
		}
		s.ByKey("key", p.from, p.oldest)
		s.Limit(p.limit)
		before := len(keys)
		err := r.query("read keys", s.Text(), s.Args(), func(c *columns) (bool, error) {
			keys = append(keys, c.Int64())
			return true, nil
		})
		if err != nil {
			return nil, err
		}
		if len(keys) == before {
			continue
		}
		slices.SortFunc(keys, func(a, b int64) int {
			if p.oldest {
				return cmp.Compare(a, b)
			}
			return cmp.Compare(b, a)
		})
		keys = first(slices.Compact(keys), p.limit)
	}
	return keys, nil
}

// eachOf reads the rows with keys, in their order, up to the limits.
func eachOf(r reader, p page, text string, keys []int64, each func(c *columns) error) error {
	g := sqlstore.Gauge{Limit: p.limit, Budget: p.bytes}
	for more, i := true, 0; more && i < len(keys); i++ {
		err := r.query("read rows", text, []any{keys[i]}, func(c *columns) (bool, error) {
			err := each(c)
			more = g.Add(c.size)
			return false, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// runsWithin reads the runs of an owner and of threads.
func runsWithin(r reader, q store.RunQuery) ([]*mailroom.Run, error) {
	var lists []*sqlstore.Select
	if q.Owner != "" {
		groups, err := runGroups(r, q.Owner, "")
		if err != nil {
			return nil, err
		}
		lists = groupKeys("run", groups)
	}
	for _, key := range q.Threads {
		var s sqlstore.Select
		s.Add("SELECT key FROM run")
		s.Cond("thread = ?", key)
		lists = append(lists, &s)
	}
	return runsAmong(r, q, lists)
}

// ticketsWithin reads the tickets of an owner and of threads.
func ticketsWithin(r reader, q store.TicketQuery) (found []*mailroom.Ticket, err error) {
	states, kinds, ok := ticketConditions(q)
	if !ok {
		return nil, nil
	}
	list := func(column, openIndex string, arg any) *sqlstore.Select {
		var s sqlstore.Select
		s.Add("SELECT key FROM ticket")
		if states == openState { // the planner cannot know that open tickets are few
			s.Add(" INDEXED BY " + openIndex)
		}
		s.Cond(column+" = ?", arg)
		oneOf(&s, "state", states)
		oneOf(&s, "kind", kinds)
		return &s
	}
	var lists []*sqlstore.Select
	if q.Owner != "" {
		lists = append(lists, list("owner", "ticket_open_owner", q.Owner))
	}
	for _, key := range q.Threads {
		lists = append(lists, list("thread", "ticket_open_thread", key))
	}
	p := page{q.From, q.Oldest, q.Limit, q.Bytes}
	keys, err := firstKeys(r, p, lists)
	if err != nil {
		return nil, err
	}
	return found, eachOf(r, p, ticketByKey, keys, func(c *columns) error {
		found = append(found, scanTicket(c))
		return nil
	})
}
