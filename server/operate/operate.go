// Package operate answers what operators and the console ask of a server: lists, counts and the search, operations on
// many runs, statistics and metrics, alerts and the browsers that get them.
//
// It is a package of its own because these questions are about all threads, while the handlers of package server read
// or change one thread, run or ticket. They share one way to read a list, and need little of a ledger.
//
// # Handlers
//
// A handler is a method with the context of a request and an input, which returns an answer or an error. Package server
// mounts it on a route: it checks the token and its permission and decodes the input by its tags before the call, and
// writes the answer or the problem after it. A handler finds its caller with [request.CallerOf] and what the caller may
// see with [request.Lookup], and refuses with a [mailroom.Error]. It knows neither routes nor responses. So server
// imports this package, and this package needs nothing of server.
//
// # How a list is read
//
// The lists of threads, runs and tickets, the counts, the error groups, the operations on many runs and the search read
// rows in the same way.
//
// Filter: [request.Filter] is the language of q. The store gets one condition of it, which an index answers: that with
// the fewest rows by the store's counts (runquery.go), and for a range of created the range of keys (window.go). The
// filter checks the others row by row, because a store that skipped rows itself would not count them.
//
// Order: rows come in the order of their keys, the newest first. A retry of many runs begins with the oldest. Keys grow
// in the order of creation and never change, so rows that are added while a client reads move no page. A sort by
// another field would need an index for each field and each filter, or read all rows.
//
// Cursor: next is the place of the last row that was read (type place). It is encrypted for its list and its token,
// because a key tells how many rows others have.
//
// Rows of others: a caller that does not see all threads gets its rows from indexes that have its own rows only, and
// from those of the threads of others in its namespace, a bounded group of threads after the other (scope.go). A list
// that read rows that its caller may not see and left them out would tell by the length of its pages, by its cursors
// and by its time what others have. Each row that was read is checked again by its thread.
//
// Bounds: a view of the store reads at most scanPage rows and scanBytes, a request maxScannedRows, one that changes
// runs maxBulkScan, and a search takes searchBudget. A page has at most limit items and the bytes of a page, unless its
// first item alone has more. A page that ends at a bound of the request is short or empty, has a next, and looked_to
// says how far it looked: a time of a row that the caller sees.
//
// Tokens and reservations are few and read whole, see [request.PageAfter]. The entries and messages of one thread are
// read by its seq, in package server.
package operate

import (
	"context"
	"log/slog"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

// Ledger has the parts of a ledger that the handlers use, one for each group of handlers.
type Ledger struct {
	Viewer      request.Viewer
	Runs        Runs
	Search      Searcher
	Tokens      Tokens
	Cursors     Cursors
	Subscribers Subscribers
	Threads     Threads
	Budgets     Budgets
}

// Runs is the part of a ledger that changes runs. Its methods refuse a run that is in no state for the change with the
// code conflict, and one that is gone with not_found.
type Runs interface {
	// Cancel ends a run, or asks it to stop if a worker holds it.
	Cancel(ctx context.Context, run, by string) (*mailroom.Run, error)
	// Retry puts a failed or cancelled run back into the queue of its thread.
	Retry(ctx context.Context, in thread.Retry) (*mailroom.Run, error)
}

// Searcher is the part of a ledger that searches the index of words.
type Searcher interface {
	// Search calls q.Each for the messages that it finds, the newest first, sets q.Next to where the rest of the
	// index begins, and says how far the index is. It looks no longer than q.Budget.
	Search(ctx context.Context, q *ledger.SearchQuery) (ledger.Indexed, error)
}

// Tokens is the part of a ledger that lists tokens.
type Tokens interface {
	// Tokens returns all rows, with what their threads use of the quotas.
	Tokens(ctx context.Context) ([]*auth.Token, error)
}

// Meters gives the values that a server counts in its process.
type Meters interface {
	// OpenStreams returns the number of open streams and waits of all tokens.
	OpenStreams() int
	// UnreadBytes returns how many bytes were sent to streams and sockets and are not read yet.
	UnreadBytes() int64
	// Used returns what a token uses of its quotas: its row, and its open streams here.
	Used(t *auth.Token) api.Used
}

// Options are the parts of a server that the handlers need. Alerts may be nil; all other fields are required.
type Options struct {
	Ledger   Ledger
	Secret   string      // secret of the operator, from which the key of cursors is derived
	Operator *auth.Token // the operator's token
	Quotas   auth.Quotas // the defaults of tokens that set none; read-only
	Metrics  *Metrics
	Meters   Meters
	Agents   func(store.Reader) ([]string, error) // the agents that are known, served or paused, each once, sorted
	Alerts   *Alerts                              // nil: the server sends none
	MaxPage  int                                  // bytes of a page of a list; a larger first item is returned alone
	NoSearch bool                                 // messages are not indexed, so a search is refused
	Label    string                               // metadata key by whose values ended runs are summed up; "": none
	Log      *slog.Logger
}

// Handlers are the groups of handlers that a server mounts.
type Handlers struct {
	Lists  *ListHandlers
	Bulk   *BulkHandlers
	Search *SearchHandlers
	Stats  *StatsHandlers
	Alerts *AlertHandlers
	Push   *PushHandlers
	Audit  *AuditHandlers
}

// New makes the handlers.
func New(o Options) *Handlers {
	find := request.Lookup{Ledger: o.Ledger.Viewer}
	pages := pager{ledger: o.Ledger.Viewer, cursors: newCursorCipher(o.Secret), maxPage: o.MaxPage}
	lists := &ListHandlers{find: find, pages: pages}
	alerts := &AlertHandlers{alerts: o.Alerts, ledger: o.Ledger.Cursors, find: find}
	return &Handlers{
		Lists:  lists,
		Bulk:   &BulkHandlers{lists: lists, ledger: o.Ledger.Runs, log: o.Log},
		Search: &SearchHandlers{ledger: o.Ledger.Search, find: find, pages: pages, noSearch: o.NoSearch},
		Stats: &StatsHandlers{
			alerts: alerts, tokens: o.Ledger.Tokens, find: find, quotas: o.Quotas, metrics: o.Metrics, meters: o.Meters,
			budgets: o.Ledger.Budgets, agents: o.Agents, label: o.Label, started: time.Now().UTC(),
		},
		Alerts: alerts,
		Audit:  &AuditHandlers{find: find, maxPage: o.MaxPage},
		Push: &PushHandlers{
			target: o.Alerts.pushTarget(), operator: o.Operator, ledger: o.Ledger.Subscribers, threads: o.Ledger.Threads,
			find: find, log: o.Log,
		},
	}
}

// body is a response of one JSON value.
type body[T any] struct{ Body T }

// empty is an input or a response without fields.
type empty struct{}
