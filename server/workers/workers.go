// Package workers has the operations of workers in other processes: leases, claims, and what a worker
// does under a claim. It is a package of its own because it is the other end of package worker: what an engine needs
// of a ledger, over HTTP.
package workers

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

// Leases is the part of a ledger for the leases and claims of remote workers.
type Leases interface {
	View(ctx context.Context, f func(store.Reader) error) error
	// LeaseTime is how long a lease lasts without renewal.
	LeaseTime() time.Duration
	Register(ctx context.Context, w store.Worker) (until time.Time, err error)
	Claim(ctx context.Context, c thread.ClaimRequest) ([]thread.ClaimedRun, error)
	Renew(ctx context.Context, in thread.Renewal) (thread.Renewed, error)
	Deregister(ctx context.Context, in thread.Leave) error
}

// Options are the parts of the server that the operations need. All fields but Bus, Version and LocalAgents are
// required.
type Options struct {
	Leases   Leases
	Attempts Attempts
	Bus      *bus.Bus // gets live text; nil: readers see only stored text
	Version  string   // of the server, for display; may be empty
	// LocalAgents returns the agents that the server runs itself, which no remote worker may serve. If it is nil,
	// there are no such agents.
	LocalAgents func() []string
	// Authorize derives a context that also ends when the server shuts down and when the caller's
	// token is revoked. context.Cause returns which.
	Authorize func(ctx context.Context) (context.Context, context.CancelFunc)
	// Content returns the body of an upload.
	Content func(ctx context.Context) io.Reader
	// Hold counts a claim that waits among the caller's streams, or refuses it.
	Hold func(ctx context.Context) (release func(), err error)
}

// Operations are the operations of remote workers. They follow the same rules as an engine in the
// server's process. The methods with a path or body are handlers of HTTP requests.
type Operations struct {
	options Options // set by New
	rounds  rounds
}

// New makes the operations.
func New(o Options) *Operations {
	return &Operations{options: o, rounds: rounds{pending: map[string]*pendingClaim{}}}
}

// Body is a response of one JSON value.
type Body[T any] struct{ Body T }

// empty is a response without fields.
type empty struct{}

// WorkerPath is the worker id in a path.
type WorkerPath struct {
	Worker string `path:"worker" doc:"Id of a worker."`
}

// remoteAgentTTL is how long an agent stays known after the lease of its last remote worker has
// ended.
const remoteAgentTTL = 24 * time.Hour

// worker returns a worker of the caller's token. Workers of other tokens are not found.
func (ops *Operations) worker(ctx context.Context, id string) (found *store.Worker, err error) {
	who := request.CallerOf(ctx)
	err = ops.options.Leases.View(ctx, func(rd store.Reader) (err error) {
		found, err = ownWorker(rd, who, id)
		return err
	})
	if err == nil && found == nil {
		err = mailroom.Errorf(mailroom.CodeNotFound,
			"no worker %q of this token: register again, with a claim without worker", request.Truncate(id))
	}
	return found, err
}

// ownWorker returns the worker with this id if it belongs to the token who, else nil.
func ownWorker(rd store.Reader, who *auth.Token, id string) (*store.Worker, error) {
	if !check.IsClean(id) { // not every store can look it up
		return nil, nil
	}
	rows, err := rd.Workers(id)
	if err != nil || len(rows) == 0 || rows[0].Owner == "" || rows[0].Owner != who.Name {
		return nil, err
	}
	return rows[0], nil
}

// checkServes refuses agents that the token may not serve, and agents that this server runs itself:
// two definitions would compete.
func (ops *Operations) checkServes(who *auth.Token, names []string) error {
	for _, name := range names {
		switch {
		case !isAgentName(name):
			return request.Invalid("body.agents", "must be names of 1 to 64 letters, digits or any of . _ -", name)
		case len(who.Agents) > 0 && !slices.Contains(who.Agents, name):
			return mailroom.Errorf(mailroom.CodeForbidden,
				"this token may not serve agent %q; it may serve %s", name, strings.Join(who.Agents, ", "))
		case ops.options.LocalAgents != nil && slices.Contains(ops.options.LocalAgents(), name):
			return mailroom.Errorf(mailroom.CodeConflict, "agent %q is run by this server: use another name", name)
		}
	}
	return nil
}

// isAgentName reports whether s is a valid agent name. Names appear in URLs, filters and tables, so
// they are short and plain.
func isAgentName(s string) bool {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r)
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) })
}

// RemoteAgents returns the agents that remote workers serve or have served recently, and those that
// tokens are limited to.
func (ops *Operations) RemoteAgents(ctx context.Context) (names []string, err error) {
	err = ops.options.Leases.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Workers()
		since := rd.Now().Add(-remoteAgentTTL)
		for _, w := range rows {
			if w.LeaseUntil.After(since) && (w.Owner != "" || !w.Dead) {
				names = append(names, w.Agents...)
			}
		}
		if err != nil {
			return err
		}
		tokens, err := rd.Tokens()
		names = append(names, auth.DeclaredAgents(tokens, time.Now())...)
		return err
	})
	return names, err
}

type renewInput struct {
	WorkerPath
	Body api.Renewal
}

// Renew extends the lease of a worker, and returns which claims to stop and which are lost.
func (ops *Operations) Renew(ctx context.Context, in *renewInput) (*Body[api.Renewed], error) {
	w, err := ops.worker(ctx, in.Worker)
	if err != nil {
		return nil, err
	}
	q := thread.Renewal{Worker: w.ID, Round: in.Body.Round, Keep: in.Body.Held == nil}
	if q.Keep && q.Round > 0 {
		return nil, request.Invalid("body.held", "is missing: name all claims that the worker holds, or leave out round", nil)
	}
	out := api.Renewed{LeaseMS: ops.options.Leases.LeaseTime().Milliseconds(), Lost: []string{}, Stop: []api.StopOrder{},
		Steered: []string{}}
	if q.Held, out.Lost, err = ops.resolveClaims(ctx, "body.held", in.Body.Held); err != nil {
		return nil, err
	}
	if q.WaitsOn, err = ops.resolveTexts(ctx, in.Body.WaitsOn); err != nil {
		return nil, err
	}
	renewed, err := ops.options.Leases.Renew(ctx, q)
	if err != nil {
		return nil, err
	}
	out.LeaseUntil = renewed.Until
	of := map[string]string{}
	for _, c := range append(renewed.Claims, q.Held...) {
		of[c.Run] = api.ClaimID(c)
	}
	out.Lost = append(out.Lost, claimIDs(renewed.Lost)...)
	if q.Keep {
		out.Claims = claimIDs(renewed.Claims)
	}
	for _, stop := range renewed.Stops {
		out.Stop = append(out.Stop, api.StopOrder{Claim: of[stop.Run], Reason: stop.Reason})
	}
	for c, text := range renewed.WaitsOn {
		ops.publish(bus.Notice{Thread: c.Thread,
			Delta: &entry.Delta{Run: c.Run, Attempt: c.Attempt, Channel: entry.ChannelWaits, Text: text}})
	}
	for _, run := range renewed.Steer {
		out.Steered = append(out.Steered, of[run])
	}
	return &Body[api.Renewed]{out}, nil
}

// claimIDs formats claims; the list is never nil.
func claimIDs(claims []mailroom.Claim) []string {
	ids := []string{}
	for _, c := range claims {
		ids = append(ids, api.ClaimID(c))
	}
	return ids
}

// resolveClaims adds the thread to each claim in held, a list at location in the body. Claims of runs that do not exist
// are lost.
func (ops *Operations) resolveClaims(
	ctx context.Context, location string, held []string,
) (claims []mailroom.Claim, lost []string, err error) {
	lost = []string{}
	var runs []string
	for i, text := range held {
		c, ok := api.ParseClaim(text)
		if !ok {
			return nil, nil, request.Invalid(fmt.Sprintf("%s[%d]", location, i), "must be RUN:ATTEMPT", text)
		}
		claims = append(claims, c)
		runs = append(runs, c.Run)
	}
	if len(claims) == 0 {
		return nil, lost, nil
	}
	threads := map[string]string{}
	err = ops.options.Leases.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Runs(store.RunQuery{IDs: runs})
		for _, r := range rows {
			threads[r.ID] = r.Thread
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	known := claims[:0]
	for _, c := range claims {
		if c.Thread = threads[c.Run]; c.Thread == "" {
			lost = append(lost, api.ClaimID(c))
			continue
		}
		known = append(known, c)
	}
	return known, lost, nil
}

// resolveTexts adds the thread to the claim of each text. It passes over what names no claim: an error would end the
// lease for a text.
func (ops *Operations) resolveTexts(ctx context.Context, texts map[string]string) (map[mailroom.Claim]string, error) {
	var ids []string
	for id := range texts {
		if _, ok := api.ParseClaim(id); ok {
			ids = append(ids, id)
		}
	}
	claims, _, err := ops.resolveClaims(ctx, "body.waits_on", ids)
	out := map[mailroom.Claim]string{}
	for _, c := range claims {
		out[c] = texts[api.ClaimID(c)]
	}
	return out, err
}

type leaveInput struct {
	WorkerPath
	Body *api.Leave
}

// Leave ends the lease of a worker. The claims that it has entered are lost, and without a body all that it holds. The
// others are released: a claim request that still waits ends first, so that it claims nothing afterwards.
func (ops *Operations) Leave(ctx context.Context, in *leaveInput) (*empty, error) {
	w, err := ops.worker(ctx, in.Worker)
	if err != nil {
		return nil, err
	}
	q := thread.Leave{Worker: w.ID, Release: in.Body != nil && in.Body.Entered != nil}
	if !q.Release {
		return nil, ops.options.Leases.Deregister(ctx, q)
	}
	if q.Entered, _, err = ops.resolveClaims(ctx, "body.entered", in.Body.Entered); err != nil {
		return nil, err
	}
	last, err := ops.rounds.begin(ctx, func() {}, w.ID)
	if err != nil {
		return nil, err
	}
	defer ops.rounds.end(last)
	return nil, ops.options.Leases.Deregister(ctx, q)
}
