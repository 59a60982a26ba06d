package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/retry"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

const maxClaimWait = time.Minute

// MaxAgents is how many agents one worker serves at most.
const MaxAgents = 100

type claimInput struct{ Body api.ClaimRequest }

// claimParams is a parsed ClaimRequest.
type claimParams struct {
	max         int
	slots       map[string]int // per agent; nil: max for each agent the worker was registered with
	wait        time.Duration
	lastAttempt bool
	retry       retry.Policy
	api.ClaimRequest
}

// Claim claims due runs. A repeated round returns the same claims.
func (ops *Operations) Claim(ctx context.Context, in *claimInput) (*Body[api.Claims], error) {
	q, err := readClaimRequest(in.Body)
	if err != nil {
		return nil, err
	}
	w, err := ops.claimingWorker(ctx, q)
	if err != nil {
		return nil, err
	}
	var work []thread.ClaimedRun
	if q.max > 0 {
		if work, err = ops.claimRound(ctx, w, q); err != nil {
			return nil, err
		}
	}
	out := api.Claims{
		Worker: w.ID, Round: q.Round, LeaseUntil: w.LeaseUntil,
		LeaseMS: ops.options.Leases.LeaseTime().Milliseconds(),
		Version: ops.options.Version, Contract: api.WorkerContract,
	}
	out.Claims, err = ops.showClaims(ctx, work)
	if q.PartsOnly {
		for _, c := range out.Claims {
			dropTexts(c.Messages)
		}
	}
	return &Body[api.Claims]{out}, err
}

// dropTexts empties the texts of messages, which their parts repeat: a claim with 4 MiB of input would have 8 MiB.
func dropTexts(messages []mailroom.Message) {
	for i := range messages {
		messages[i].Text = ""
	}
}

func readClaimRequest(in api.ClaimRequest) (q claimParams, err error) {
	q = claimParams{ClaimRequest: in, max: 1, lastAttempt: in.LastAttempt == nil || *in.LastAttempt}
	if in.Max != nil {
		q.max = *in.Max
	}
	if in.Wait != "" {
		if q.wait, err = time.ParseDuration(in.Wait); err != nil || q.wait < 0 || q.wait > maxClaimWait {
			return q, request.Invalid("body.wait", "must be a duration such as 20s, from 0s to 60s", in.Wait)
		}
	}
	if strings.ContainsRune(in.Host, 0) {
		return q, request.Invalid("body.host", "must be text without NUL", in.Host)
	}
	if q.max > 0 && in.Round < 1 {
		return q, request.Invalid("body.round", "must number the worker's claims, starting at 1", in.Round)
	}
	if q.retry, err = in.Retry.Read("body.retry"); err != nil {
		return q, err
	}
	q.slots, err = readSlots(in.Agents, q.max)
	return q, err
}

// readSlots reads a list of agents, or a map of agents to the runs wanted of each.
func readSlots(raw json.RawMessage, most int) (map[string]int, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	slots := map[string]int{}
	var names []string
	if json.Unmarshal(raw, &names) == nil {
		for _, name := range names {
			slots[name] = most
		}
	} else if json.Unmarshal(raw, &slots) != nil {
		return nil, request.Invalid("body.agents", `must be a list of names, or an object such as {"coder": 2}`, nil)
	}
	if len(slots) == 0 || len(slots) > MaxAgents {
		return nil, request.Invalid("body.agents", "must name 1 to 100 agents", len(slots))
	}
	for name, n := range slots {
		if n < 0 || n > 1000 {
			return nil, request.Invalid("body.agents", "must have numbers from 0 to 1000", name)
		}
	}
	return slots, nil
}

// claimingWorker returns the worker that claims: a newly registered one, or the token's own.
func (ops *Operations) claimingWorker(ctx context.Context, q claimParams) (*store.Worker, error) {
	who := request.CallerOf(ctx)
	names := slices.Sorted(maps.Keys(q.slots))
	if q.Worker == "" {
		if names == nil {
			return nil, request.Invalid("body.agents", "is missing: name the agents that the worker serves", nil)
		}
		if err := ops.checkServes(who, names); err != nil {
			return nil, err
		}
		w := &store.Worker{ID: uuid.Must(uuid.NewV7()).String(), Host: q.Host, PID: q.PID, Owner: who.Name, Agents: names}
		until, err := ops.options.Leases.Register(ctx, *w)
		w.LeaseUntil = until
		return w, err
	}
	w, err := ops.worker(ctx, q.Worker)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.Contains(w.Agents, name) {
			return nil, request.Invalid("body.agents", "names an agent that the worker was not registered with", name)
		}
	}
	return w, ops.checkServes(who, w.Agents)
}

// claimRound runs one round of a worker's claims. If an earlier round of the worker is still
// waiting, it ends that round first: its caller has gone.
func (ops *Operations) claimRound(ctx context.Context, w *store.Worker, q claimParams) ([]thread.ClaimedRun, error) {
	release, err := ops.options.Hold(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	roundCtx, end, err := ops.rounds.begin(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	defer end()
	work, owners, err := ops.heldFromRound(roundCtx, w.ID, q.Round)
	if err != nil || len(work) > 0 {
		return work, unlessEnded(roundCtx, err)
	}
	c := thread.ClaimRequest{Worker: w.ID, Round: q.Round, Slots: q.max, Agents: q.slots, LastAttempt: q.lastAttempt,
		Wait: q.wait > 0, Held: owners, Retry: q.retry}
	if c.Agents == nil {
		c.Agents = map[string]int{}
		for _, name := range w.Agents {
			c.Agents[name] = q.max
		}
	}
	roundCtx, done := ops.options.Authorize(roundCtx)
	defer done()
	if c.Wait {
		var expire context.CancelFunc
		roundCtx, expire = context.WithTimeout(roundCtx, q.wait)
		defer expire()
	}
	work, err = ops.options.Leases.Claim(roundCtx, c)
	return work, unlessEnded(roundCtx, err)
}

// unlessEnded returns err, but nil if err is only that the round has ended: its wait timed out, its
// caller has gone, or another round of the worker has started. Such a round has no claims.
func unlessEnded(round context.Context, err error) error {
	if err == nil || !errors.Is(err, round.Err()) {
		return err
	}
	if why := context.Cause(round); mailroom.CodeOf(why) != mailroom.CodeInternal {
		return why // the server shuts down, or the token was revoked
	}
	return nil
}

// heldFromRound returns the runs that a worker claimed in this round and still holds: A worker that did not get the
// answer repeats the claim with the same round number. It is a conflict if the worker holds claims of a higher round.
// owners counts the held runs per thread owner.
func (ops *Operations) heldFromRound(
	ctx context.Context, worker string, round int64,
) (work []thread.ClaimedRun, owners map[string]int, err error) {
	err = ops.options.Leases.View(ctx, func(rd store.Reader) error {
		work, owners = nil, map[string]int{}
		held, err := rd.Threads(store.ThreadQuery{Worker: worker})
		if err != nil {
			return err
		}
		threads := map[string]*mailroom.Thread{}
		var ids []string
		for _, t := range held {
			owners[t.Owner]++
			switch {
			case t.Round > round:
				return mailroom.Errorf(mailroom.CodeConflict,
					"round %d is lower than round %d, which has claims: count rounds upwards", round, t.Round)
			case t.Round == round:
				threads[t.Current] = t
				ids = append(ids, t.Current)
			}
		}
		if len(ids) == 0 {
			return nil
		}
		runs, err := rd.Runs(store.RunQuery{IDs: ids})
		for _, r := range runs {
			work = append(work, thread.ClaimedRun{Claim: mailroom.Claim{Thread: r.Thread, Run: r.ID, Attempt: r.Attempt}, Run: r,
				Thread: threads[r.ID]})
		}
		return err
	})
	slices.SortFunc(work, func(a, b thread.ClaimedRun) int { return cmp.Compare(a.Run.Key, b.Run.Key) })
	return work, owners, err
}

// showClaims adds what an agent needs to start: input, state, checkpoint, tickets and steers.
func (ops *Operations) showClaims(ctx context.Context, work []thread.ClaimedRun) ([]api.Claim, error) {
	out := []api.Claim{}
	if len(work) == 0 {
		return out, nil
	}
	ctx = context.WithoutCancel(ctx) // the claim is committed, so answer it even if the caller has gone
	inputs, err := ops.inputs(ctx, work)
	if err != nil {
		return nil, err
	}
	err = ops.options.Leases.View(ctx, func(rd store.Reader) error {
		out = out[:0]
		rows := make([]*mailroom.Run, len(work))
		for i, w := range work {
			rows[i] = w.Run
		}
		runs, err := request.ShowRuns(rd, rows)
		if err != nil {
			return err
		}
		tickets, err := readTickets(rd, rows)
		if err != nil {
			return err
		}
		for i, w := range work {
			out = append(out, api.Claim{
				Claim: api.ClaimID(w.Claim), Run: runs[i], Messages: slices.Clone(inputs[i]), State: w.Thread.State[w.Run.Agent],
				Checkpoint: w.Run.Checkpoint, Options: w.Run.Options, Tickets: tickets[w.Run.ID], Steers: showSteers(w.Run),
				Lost:       w.Run.Lost,
				DeadlineMS: thread.TimeLeft(w.Run, rd.Now()).Milliseconds(),
			})
		}
		return nil
	})
	return out, err
}

// inputs returns the input messages of the claimed runs. Most assignments carry them; the others
// are read.
func (ops *Operations) inputs(ctx context.Context, work []thread.ClaimedRun) ([][]mailroom.Message, error) {
	out := make([][]mailroom.Message, len(work))
	var missing []*mailroom.Run
	for i, w := range work {
		if out[i] = w.Input; w.Input == nil {
			missing = append(missing, w.Run)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	found, err := ops.options.Attempts.Inputs(ctx, missing)
	for i := range out {
		if out[i] == nil && err == nil {
			out[i], found = found[0], found[1:]
		}
	}
	return out, err
}

// readTickets returns the tickets of runs, without those that a fresh retry has voided.
func readTickets(rd store.Reader, runs []*mailroom.Run) (map[string][]api.Ticket, error) {
	out := map[string][]api.Ticket{}
	var ids []string
	for _, r := range runs {
		out[r.ID] = []api.Ticket{}
		if r.Asked > 0 {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := rd.Tickets(store.TicketQuery{Runs: ids})
	for _, k := range rows {
		if k.State != mailroom.TicketVoid {
			out[k.Run] = append(out[k.Run], request.ShowTicket(k))
		}
	}
	return out, err
}

func showSteers(r *mailroom.Run) []api.Steer {
	out := []api.Steer{}
	for _, s := range r.Steers {
		if !s.Retracted {
			out = append(out, api.Steer{Message: s.Message, Seq: s.Seq, Read: s.Read})
		}
	}
	return out
}

// rounds has the waiting claim request of each worker. A new request cancels the one before, and
// starts when that has ended.
type rounds struct {
	mu      sync.Mutex
	pending map[string]*pendingClaim // owned by mu
}

// pendingClaim is a claim request in progress.
type pendingClaim struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// begin registers a claim of worker. The returned function ends it.
func (r *rounds) begin(ctx context.Context, worker string) (context.Context, func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	mine := &pendingClaim{cancel: cancel, done: make(chan struct{})}
	for {
		r.mu.Lock()
		before := r.pending[worker]
		if before == nil {
			r.pending[worker] = mine
			r.mu.Unlock()
			break
		}
		r.mu.Unlock()
		before.cancel()
		select {
		case <-before.done:
		case <-ctx.Done():
			cancel()
			return nil, nil, context.Cause(ctx)
		}
	}
	return ctx, func() {
		cancel()
		r.mu.Lock()
		delete(r.pending, worker)
		r.mu.Unlock()
		close(mine.done)
	}, nil
}
