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
	"mailroom/thread"
)

// Ledger is what the handlers use of a ledger: a part for each group of them.
type Ledger struct {
	Viewer      request.Viewer
	Runs        Runs
	Search      Searcher
	Tokens      Tokens
	Cursors     Cursors
	Subscribers Subscribers
	Threads     Threads
}

// Runs is the part of a ledger that changes runs. Both methods refuse with the code conflict a run that is in no state
// for the change, and with not_found one that is gone.
type Runs interface {
	Cancel(ctx context.Context, run, by string) (*mailroom.Run, error)
	Retry(ctx context.Context, in thread.Retry) (*mailroom.Run, error)
}

// Searcher is the part of a ledger that searches the index of words.
type Searcher interface {
	// Search calls q.Each for the messages that it finds, the newest first, and sets q.Next to where the rest of the
	// index begins. It looks no longer than q.Budget.
	Search(ctx context.Context, q *ledger.SearchQuery) (ledger.Indexed, error)
}

// Tokens is the part of a ledger that lists tokens.
type Tokens interface {
	// Tokens returns all rows, with what their threads use of the quotas.
	Tokens(ctx context.Context) ([]*auth.Token, error)
}

// Meters are what a server counts in its process.
type Meters interface {
	// OpenStreams returns the number of open streams and waits of all tokens.
	OpenStreams() int
	// UnreadBytes returns how many bytes were sent to streams and sockets and are not read yet.
	UnreadBytes() int64
	// Used returns what a token uses of its quotas: its row, and its open streams here.
	Used(t *auth.Token) api.Used
}

// Options are what the handlers need of a server. Alerts may be nil; all other fields are required.
type Options struct {
	Ledger   Ledger
	Secret   string      // of the operator, from which the key of cursors is made
	Operator *auth.Token // the operator's token
	Quotas   auth.Quotas // the defaults of tokens that set none; read-only
	Metrics  *Metrics
	Meters   Meters
	Alerts   *Alerts // nil: the server sends none
	MaxPage  int     // bytes of a page of a list; a larger first item is returned alone
	NoSearch bool    // messages are not indexed, so a search is refused
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
			started: time.Now().UTC(),
		},
		Alerts: alerts,
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
