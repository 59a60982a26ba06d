package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/dispatch"
	"mailroom/store"
)

// Workers is the part of a Ledger for remote workers.
type Workers interface {
	// LeaseTime is how long a lease lasts without renewal.
	LeaseTime() time.Duration
	Register(ctx context.Context, w store.Worker) (until time.Time, err error)
	Claim(ctx context.Context, c dispatch.ClaimRequest) ([]dispatch.Assignment, error)
	Renew(ctx context.Context, in dispatch.Renewal) (dispatch.Renewed, error)
	Deregister(ctx context.Context, worker string) error
}

// registerWorkers registers the operations of remote workers. They follow the same rules as the
// engine in this process.
func (rt router) registerWorkers() {
	s := rt.server
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/claims", "claim", "Claim due runs for a remote worker"), s.claim)
	handle(rt, rt.operation(auth.PermissionWork, "POST /v1/workers/{worker}/renew", "renew-worker", "Extend the lease of a worker, and learn which claims to stop or have been lost"), s.renewWorker)
	leave := rt.operation(auth.PermissionWork, "POST /v1/workers/{worker}/leave", "leave-worker", "End the lease of a worker; the claims it still holds are lost")
	leave.DefaultStatus = 204
	handle(rt, leave, s.leaveWorker)
	rt.registerClaims()
}

// WorkerPath is the worker id in a path.
type WorkerPath struct {
	Worker string `path:"worker" doc:"Id of a worker."`
}

// remoteAgentTTL is how long an agent stays known after the lease of its last remote worker has
// ended.
const remoteAgentTTL = 24 * time.Hour

// worker returns a worker of the caller's token. Workers of other tokens are not found.
func (s *Server) worker(ctx context.Context, id string) (found *store.Worker, err error) {
	who := requestOf(ctx).who
	err = s.options.Ledger.View(ctx, func(rd store.Reader) (err error) {
		found, err = ownWorker(rd, who, id)
		return err
	})
	if err == nil && found == nil {
		err = mailroom.Errorf(mailroom.CodeNotFound, "no worker %q", truncate(id))
	}
	return found, err
}

// ownWorker returns a worker of who, or nil.
func ownWorker(rd store.Reader, who *auth.Token, id string) (*store.Worker, error) {
	rows, err := rd.Workers()
	i := slices.IndexFunc(rows, func(w *store.Worker) bool { return w.ID == id && w.Owner != "" && w.Owner == who.Name })
	if err != nil || i < 0 {
		return nil, err
	}
	return rows[i], nil
}

// checkServes refuses agents that the token may not serve, and agents that this server runs itself:
// two definitions would compete.
func (s *Server) checkServes(who *auth.Token, names []string) error {
	for _, name := range names {
		switch {
		case !isAgentName(name):
			return invalidField("body.agents", "must be names of 1 to 64 letters, digits or any of . _ -", name)
		case len(who.Agents) > 0 && !slices.Contains(who.Agents, name):
			return mailroom.Errorf(mailroom.CodeForbidden, "this token may not serve agent %q; it may serve %s", name, strings.Join(who.Agents, ", "))
		case s.options.Agents != nil && slices.Contains(s.options.Agents(), name):
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

// remoteAgents returns the agents that remote workers serve or have served recently, and those that
// tokens are limited to.
func (s *Server) remoteAgents(ctx context.Context) (names []string, err error) {
	err = s.options.Ledger.View(ctx, func(rd store.Reader) error {
		rows, err := rd.Workers()
		since := time.Now().Add(-remoteAgentTTL)
		for _, w := range rows {
			if w.LeaseUntil.After(since) && (w.Owner != "" || !w.Dead) {
				names = append(names, w.Agents...)
			}
		}
		if err != nil {
			return err
		}
		tokens, err := rd.Tokens()
		names = append(names, auth.DeclaredAgents(tokens)...)
		return err
	})
	return names, err
}

type renewInput struct {
	WorkerPath
	Body api.Renewal
}

func (s *Server) renewWorker(ctx context.Context, in *renewInput) (*body[api.Renewed], error) {
	w, err := s.worker(ctx, in.Worker)
	if err != nil {
		return nil, err
	}
	q := dispatch.Renewal{Worker: w.ID, Round: in.Body.Round}
	out := api.Renewed{LeaseMS: s.options.Ledger.LeaseTime().Milliseconds(), Lost: []string{}, Stop: []api.StopOrder{}, Steered: []string{}}
	if q.Held, out.Lost, err = s.resolveClaims(ctx, in.Body.Held); err != nil {
		return nil, err
	}
	renewed, err := s.options.Ledger.Renew(ctx, q)
	if err != nil {
		return nil, err
	}
	out.LeaseUntil = renewed.Until
	for _, c := range renewed.Lost {
		out.Lost = append(out.Lost, api.ClaimID(c))
	}
	of := map[string]string{}
	for _, c := range q.Held {
		of[c.Run] = api.ClaimID(c)
	}
	for _, stop := range renewed.Stops {
		out.Stop = append(out.Stop, api.StopOrder{Claim: of[stop.Run], Reason: stop.Reason})
	}
	for _, run := range renewed.Steer {
		out.Steered = append(out.Steered, of[run])
	}
	return &body[api.Renewed]{out}, nil
}

// resolveClaims adds the thread to each claim in held. Claims of runs that do not exist are lost.
func (s *Server) resolveClaims(ctx context.Context, held []string) (claims []mailroom.Claim, lost []string, err error) {
	lost = []string{}
	var runs []string
	for i, text := range held {
		c, ok := api.ParseClaim(text)
		if !ok {
			return nil, nil, invalidField(fmt.Sprintf("body.held[%d]", i), "must be RUN:ATTEMPT", text)
		}
		claims = append(claims, c)
		runs = append(runs, c.Run)
	}
	if len(claims) == 0 {
		return nil, lost, nil
	}
	threads := map[string]string{}
	err = s.options.Ledger.View(ctx, func(rd store.Reader) error {
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

type leaveInput struct{ WorkerPath }

func (s *Server) leaveWorker(ctx context.Context, in *leaveInput) (*empty, error) {
	w, err := s.worker(ctx, in.Worker)
	if err != nil {
		return nil, err
	}
	return nil, s.options.Ledger.Deregister(ctx, w.ID)
}
