package operate

import (
	"context"
	"slices"

	"mailroom"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// groupThreads is how many threads of a namespace one list merges. A list of a larger namespace has the rows of one
// group after the other: the threads in the order of their ids, the rows of a group in the order of the list.
//
// A merge of all threads of a namespace would have no bound. Rejected are also a word or a column
// for each prefix of an id, because any text is a namespace, and one can be made after the rows;
// and a scan of all rows with a bound in time, because its cursor would reveal how far it got.
const groupThreads = 1000

// searchThreads is the limit for a search. It is lower than groupThreads, because an index of words looks up each
// thread.
const searchThreads = 200

// place is where a list or search continues, see the package comment.
type place struct {
	group string // the threads of the namespace behind this id; "": the first ones, and those of the caller
	key   int64  // key of the last row, 0 at the begin of a group
}

// scope has the rows that a list may read for its caller, of one group: see "Rows of others" in the package comment.
type scope struct {
	all     bool               // the scope has all threads
	owner   string             // the scope has the threads of this owner; "": of no owner
	threads []*mailroom.Thread // the scope has these threads too
	next    string             // the group behind this one; "": no further group
}

// scopeOf returns the rows that the token who may see in one group of threads. The group has up to most threads.
func scopeOf(rd store.Reader, who *auth.Token, group string, most int) (scope, error) {
	if who.SeesAll() {
		return scope{all: true}, nil
	}
	s := scope{}
	if group == "" {
		s.owner = who.Name
	}
	if who.Namespace == "" {
		return s, nil
	}
	rows, err := rd.Threads(store.ThreadQuery{Prefix: who.Namespace, After: group, Limit: most})
	if len(rows) == most {
		s.next = rows[most-1].ID
	}
	s.threads = slices.DeleteFunc(rows, func(t *mailroom.Thread) bool { return t.Owner == who.Name || !who.CanSee(t) })
	return s, err
}

// isEmpty reports whether the group has no rows.
func (s scope) isEmpty() bool { return !s.all && s.owner == "" && len(s.threads) == 0 }

func (s scope) keys() (keys []int64) {
	for _, t := range s.threads {
		keys = append(keys, t.Key)
	}
	return keys
}

// words returns the words of the group. Each of its messages has one of them.
func (s scope) words() (words []string) {
	if s.owner != "" {
		words = append(words, store.OwnerWord(s.owner))
	}
	for _, t := range s.threads {
		words = append(words, store.ThreadWord(t.ID))
	}
	return words
}

// threadsWithin returns threads of the scope, the newest first.
func (s scope) threadsWithin(rd store.Reader, from int64, limit int) ([]*mailroom.Thread, error) {
	var found []*mailroom.Thread
	var err error
	last := int64(0)
	if s.owner != "" {
		found, err = rd.Threads(store.ThreadQuery{Owner: s.owner, From: from, Limit: limit, Bytes: scanBytes})
		if len(found) > 0 {
			last = found[len(found)-1].Key // the next page continues below this key
		}
	}
	for _, t := range s.threads {
		if t.Key > last && (from == 0 || t.Key < from) {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b *mailroom.Thread) int { return int(min(max(b.Key-a.Key, -1), 1)) })
	return found[:min(len(found), limit)], err
}

// runSource is where a list of runs reads its rows.
type runSource struct {
	// query selects rows by one condition, unless scoped is set.
	query  store.RunQuery
	scoped bool // the source has the rows of the scope
	none   bool // no row can match the conditions
}

// runsFrom returns the source with the fewest rows that has all runs that match the conditions and that the caller
// sees. For a caller that does not see all threads it depends only on what it sees.
func (h *ListHandlers) runsFrom(ctx context.Context, conditions store.RunQuery) (s runSource, err error) {
	who := request.CallerOf(ctx)
	if who.SeesAll() {
		s.query, err = narrowest(ctx, h.find, conditions)
		return s, err
	}
	err = h.find.View(ctx, func(rd store.Reader) error {
		switch {
		case conditions.Thread != "":
			_, err := request.FindThread(rd, who, conditions.Thread)
			s.query = store.RunQuery{Thread: conditions.Thread}
			if mailroom.CodeOf(err) == mailroom.CodeNotFound {
				s.none, err = true, nil
			}
			return err
		case conditions.Parent != "":
			_, t, err := request.FindRun(rd, who, conditions.Parent)
			if err == nil && t.Owner == who.Name { // the runs that it made are of the same owner
				s.query = store.RunQuery{Parent: conditions.Parent}
				return nil
			}
			if mailroom.CodeOf(err) != mailroom.CodeNotFound && err != nil {
				return err
			}
		case conditions.Group != "" && who.Namespace == "":
			s.query = store.RunQuery{Owner: who.Name, Group: conditions.Group}
			return nil
		}
		s.scoped = true
		return nil
	})
	return s, err
}

// read returns runs of the source, of one group if it is scoped.
func (s runSource) read(rd store.Reader, in scope, from int64, oldest bool, limit int) ([]*mailroom.Run, error) {
	if s.none || s.scoped && in.isEmpty() {
		return nil, nil
	}
	q := s.query
	if s.scoped {
		q.Owner, q.Threads = in.owner, in.keys()
	}
	q.From, q.Oldest, q.Limit, q.Bytes = from, oldest, limit, scanBytes
	return rd.Runs(q)
}

// ticketSource is runSource for tickets.
type ticketSource struct {
	query  store.TicketQuery
	scoped bool // query has the conditions that all rows of a group must meet
	none   bool
}

// ticketsFrom returns where to read the tickets that a filter matches and the caller sees.
func (h *ListHandlers) ticketsFrom(ctx context.Context, f request.Filter) (s ticketSource, err error) {
	s.query = ticketQuery(f)
	who := request.CallerOf(ctx)
	if who.SeesAll() {
		return s, nil
	}
	err = h.find.View(ctx, func(rd store.Reader) (err error) {
		switch {
		case len(s.query.Runs) > 0:
			_, _, err = request.FindRun(rd, who, s.query.Runs[0])
		case s.query.Thread != "":
			_, err = request.FindThread(rd, who, s.query.Thread)
		default:
			s.scoped = true
		}
		if mailroom.CodeOf(err) == mailroom.CodeNotFound {
			s.none, err = true, nil
		}
		return err
	})
	return s, err
}

func (s ticketSource) read(rd store.Reader, in scope, from int64, limit int) ([]*mailroom.Ticket, error) {
	if s.none || s.scoped && in.isEmpty() {
		return nil, nil
	}
	q := s.query
	if s.scoped {
		q.Owner, q.Threads = in.owner, in.keys()
	}
	q.From, q.Limit, q.Bytes = from, limit, scanBytes
	return rd.Tickets(q)
}
