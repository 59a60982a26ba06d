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
	"mailroom/internal/recovery"
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

// Claim begins to claim due runs; rest claims them, which may wait, and must be called. A repeated round returns the
// same claims. The caller calls rest with as little on its stack as possible: a thousand idle workers wait there.
func (ops *Operations) Claim(ctx context.Context, in *claimInput) (rest func() (*api.Claims, error), err error) {
	q, err := readClaimRequest(in.Body)
	if err != nil {
		return nil, err
	}
	w, err := ops.claimingWorker(ctx, q)
	if err != nil {
		return nil, err
	}
	c := &claimRound{ops: ops, ctx: ctx, partsOnly: q.PartsOnly}
	c.out = api.Claims{
		Worker: w.ID, Round: q.Round, LeaseUntil: w.LeaseUntil,
		LeaseMS: ops.options.Leases.LeaseTime().Milliseconds(),
		Version: ops.options.Version, Contract: api.WorkerContract,
	}
	if q.max > 0 {
		err = c.begin(w, q)
	}
	return c.rest, err
}

// claimRound is one round of a worker's claims.
type claimRound struct {
	ops       *Operations
	ctx       context.Context // of the request
	partsOnly bool

	// What begin takes until end.
	until   context.Context // ends the wait
	stop    context.CancelFunc
	pending *pendingClaim
	release func()
	expire  *time.Timer // calls stop when the wait is over; nil: no wait

	request *thread.ClaimRequest // nil: work are the claims of a repeated round, or none is wanted
	work    []thread.ClaimedRun
	out     api.Claims
}

// rest ends the round. Its frame and those below it hold no value that is not needed during the wait.
func (c *claimRound) rest() (*api.Claims, error) {
	if err := c.claim(); err != nil {
		return nil, err
	}
	err := c.show()
	return &c.out, err
}

func (c *claimRound) claim() (err error) {
	defer c.end()
	if c.request == nil {
		return nil
	}
	request := c.request
	c.request = nil // Leases has a copy
	c.work, err = c.ops.options.Leases.Claim(c.until, *request)
	return unlessEnded(c.until, err)
}

// show shows the claims of the round.
func (c *claimRound) show() (err error) {
	c.out.Claims, err = c.ops.showClaims(c.ctx, c.work)
	if c.partsOnly {
		for _, claim := range c.out.Claims {
			dropTexts(claim.Messages)
		}
	}
	return err
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

// begin begins a round of a worker. If an earlier round of the worker is still waiting, it ends that round first: its
// caller has gone.
func (c *claimRound) begin(w *store.Worker, q claimParams) (err error) {
	options := &c.ops.options
	release, err := options.Hold(c.ctx)
	if err != nil {
		return err
	}
	round, stop := options.Authorize(c.ctx)
	c.until, c.stop, c.release = round, stop, release
	if c.pending, err = c.ops.rounds.begin(round, stop, w.ID); err != nil {
		c.end()
		return err
	}
	work, owners, err := c.ops.heldFromRound(round, w.ID, q.Round)
	if err != nil || len(work) > 0 {
		err = unlessEnded(round, err)
		c.end()
		c.work = work
		return err
	}
	c.request = &thread.ClaimRequest{
		Worker: w.ID, Round: q.Round, Slots: q.max, Agents: q.slots, LastAttempt: q.lastAttempt, Wait: q.wait > 0,
		Held: owners, Retry: q.retry,
	}
	if c.request.Agents == nil {
		c.request.Agents = map[string]int{}
		for _, name := range w.Agents {
			c.request.Agents[name] = q.max
		}
	}
	if c.request.Wait {
		// A timer is smaller than a context with a deadline below this one.
		c.expire = time.AfterFunc(q.wait, func() {
			defer recovery.Log(nil, "the end of a wait for runs")
			stop()
		})
	}
	return nil
}

// end gives back what begin has taken.
func (c *claimRound) end() {
	if c.release == nil {
		return
	}
	if c.expire != nil {
		c.expire.Stop()
	}
	c.stop()
	if c.pending != nil {
		c.ops.rounds.end(c.pending)
	}
	c.release()
	c.release = nil
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
	worker string
	cancel context.CancelFunc
	done   chan struct{} // closed at its end, if another claim waits for that; owned by rounds.mu
}

// begin registers a claim of worker, which cancel ends.
func (r *rounds) begin(ctx context.Context, cancel context.CancelFunc, worker string) (*pendingClaim, error) {
	mine := &pendingClaim{worker: worker, cancel: cancel}
	for {
		r.mu.Lock()
		before := r.pending[worker]
		if before == nil {
			r.pending[worker] = mine
			r.mu.Unlock()
			return mine, nil
		}
		if before.done == nil {
			before.done = make(chan struct{})
		}
		done := before.done
		r.mu.Unlock()
		before.cancel()
		select {
		case <-done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// end unregisters a claim.
func (r *rounds) end(c *pendingClaim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, c.worker)
	if c.done != nil {
		close(c.done)
	}
}
