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
	"mailroom/ledger"
)

// Workers is the part of a ledger that is about workers from elsewhere.
type Workers interface {
	// LeaseTime is how long a worker owns its claims without renewal.
	LeaseTime() time.Duration
	Register(ctx context.Context, w mailroom.Worker) (until time.Time, err error)
	Claim(ctx context.Context, c ledger.ClaimRequest) ([]ledger.Assignment, error)
	Renew(ctx context.Context, in ledger.Renewal) (ledger.Renewed, error)
	Deregister(ctx context.Context, worker string) error
}

// registerWorkers registers what workers from elsewhere ask: the operations of an engine,
// under the same rules.
func (rt router) registerWorkers() {
	s := rt.server
	handle(rt, rt.operation(mailroom.PermissionWork, "POST /v1/claims", "claim", "Claim due runs for a worker from elsewhere"), s.claim)
	handle(rt, rt.operation(mailroom.PermissionWork, "POST /v1/workers/{worker}/renew", "renew-worker", "Extend the lease of a worker, and hear what became of its claims"), s.renewWorker)
	leave := rt.operation(mailroom.PermissionWork, "POST /v1/workers/{worker}/leave", "leave-worker", "End the lease of a worker; what it still has is taken away as lost")
	leave.DefaultStatus = 204
	handle(rt, leave, s.leaveWorker)
	rt.registerClaims()
}

// WorkerPath is the worker in a path.
type WorkerPath struct {
	Worker string `path:"worker" doc:"Id of a worker."`
}

// remoteAgentTTL is how long an agent counts as known after a worker from
// elsewhere served it.
const remoteAgentTTL = 24 * time.Hour

// worker returns a worker of the token that asks. Somebody else's is as good as
// none.
func (s *Server) worker(ctx context.Context, id string) (found *mailroom.Worker, err error) {
	who := requestOf(ctx).who
	err = s.options.Ledger.View(ctx, func(rd mailroom.Reader) (err error) {
		found, err = ownWorker(rd, who, id)
		return err
	})
	if err == nil && found == nil {
		err = mailroom.Errorf(mailroom.CodeNotFound, "no worker %q", truncate(id))
	}
	return found, err
}

// ownWorker returns nil for what is not the token's.
func ownWorker(rd mailroom.Reader, who *mailroom.Token, id string) (*mailroom.Worker, error) {
	rows, err := rd.Workers()
	i := slices.IndexFunc(rows, func(w *mailroom.Worker) bool { return w.ID == id && w.Owner != "" && w.Owner == who.Name })
	if err != nil || i < 0 {
		return nil, err
	}
	return rows[i], nil
}

// checkServes refuses agents that a token may not work for, and those that the
// server runs itself: they would be served under two definitions.
func (s *Server) checkServes(who *mailroom.Token, names []string) error {
	for _, name := range names {
		switch {
		case !isAgentName(name):
			return invalidField("body.agents", "must be names of 1 to 64 letters, digits or any of . _ -", name)
		case len(who.Agents) > 0 && !slices.Contains(who.Agents, name):
			return mailroom.Errorf(mailroom.CodeForbidden, "this token may not work for agent %q: it may for %s", name, strings.Join(who.Agents, ", "))
		case s.options.Agents != nil && slices.Contains(s.options.Agents(), name):
			return mailroom.Errorf(mailroom.CodeConflict, "agent %q is run by this server: serve another name", name)
		}
	}
	return nil
}

// isAgentName: it appears in addresses, filters and tables, so it is short and plain.
func isAgentName(s string) bool {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r)
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) })
}

// remoteAgents are the agents that workers from elsewhere serve, or have
// served lately, and those that tokens name for theirs.
func (s *Server) remoteAgents(ctx context.Context) (names []string, err error) {
	err = s.options.Ledger.View(ctx, func(rd mailroom.Reader) error {
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
		names = append(names, mailroom.Declared(tokens)...)
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
	q := ledger.Renewal{Worker: w.ID, Round: in.Body.Round}
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

// resolveClaims finds the threads of claims that a worker says it holds. Those of
// runs that are not there are lost.
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
	err = s.options.Ledger.View(ctx, func(rd mailroom.Reader) error {
		rows, err := rd.Runs(mailroom.RunQuery{IDs: runs})
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
