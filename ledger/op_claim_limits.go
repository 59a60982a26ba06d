package ledger

import (
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom/store"
	"mailroom/thread"
)

// Limits of starts and of running runs hold for all servers and workers together. Each limited agent and owner has a
// meter, which a claim locks before it counts, and which changes in the commit that claims. So claims at one limit
// follow one another, on all servers, and nothing else waits. An agent or an owner without a limit has no meter, and
// its claims cost nothing more.
//
// A limited agent is left out of what a claim asks for, and so are the threads of an owner at its limit: no run is read
// and put back. What is left out is looked for again when a run ends that counted, or at the time that the rate names.

// Limits bound the runs of an agent, over all servers.
type Limits struct {
	Agent thread.Limit // all its runs
	Key   thread.Limit // its runs of one owner with one concurrency key
	// KeyFrom is the metadata whose value is the concurrency key of a submit that gives none; "": it has none then.
	KeyFrom string
}

// agentOf returns the agent whose meter a key names.
func agentOf(key string) (agent string, ok bool) {
	return strings.CutPrefix(key, thread.AgentMeter(""))
}

// limitOf returns the limit whose meter has this key.
func (o *Options) limitOf(key string) thread.Limit {
	if agent, ok := agentOf(key); ok {
		return o.Limits(agent).Agent
	}
	if gate, ok := thread.MeterGate(key); ok {
		agent, _ := thread.GateAgent(gate)
		return o.Limits(agent).Key
	}
	if owner, ok := strings.CutPrefix(key, thread.OwnerMeter("")); ok {
		return o.ownerLimit(owner)
	}
	return thread.Limit{}
}

// ownerLimit returns the limit of an owner. The operator has none.
func (o *Options) ownerLimit(owner string) thread.Limit {
	if !limitsApply(owner) {
		return thread.Limit{}
	}
	return o.OwnerLimit
}

// left returns how many more runs a limit lets start at now, at most most. If it lets none start, next is the time of
// the next start, or zero if a run has to end first.
func left(l thread.Limit, m store.Meter, most int, now time.Time) (n int, next time.Time) {
	if l.Running > 0 {
		if most = min(most, l.Running-int(m.Count)); most <= 0 {
			return 0, time.Time{}
		}
	}
	return l.Rate.Starts(m.At, now, most)
}

// look makes claims look for an agent's due runs again.
func (f *forecast) look(agent string, o *Options) {
	delete(f.limited, agent)
	for w := range f.idle {
		if of, _ := thread.ParseDueAgent(w.Agent); of == agent {
			delete(f.idle, w)
		}
	}
}

// isIdle reports whether no run of an agent is due for a request, as far as is known.
func isIdle(tx *transaction, c *thread.ClaimRequest, agent string) bool {
	if !c.Wait {
		return false
	}
	one := *c
	one.Agents = map[string]int{agent: 1}
	for _, w := range tx.options.capacities(&one) {
		if at, known := tx.forecast.idle[w]; !known || !at.After(tx.now()) {
			return false
		}
		if tx.forecast.limited[agent].After(tx.now()) {
			continue
		}
		if slices.ContainsFunc(tx.rows.order, func(t *thread.State) bool { return matches(t.Due, w, tx.now()) }) {
			return false
		}
	}
	return true
}

// withinLimits returns a request in which limited agents have no more slots than their limits leave. Agents that have
// none left, or nothing due, are not in it.
func withinLimits(tx *transaction, c *thread.ClaimRequest) (*thread.ClaimRequest, error) {
	var limited, keys []string
	open := *c
	for agent := range c.Agents {
		switch {
		case !tx.options.Limits(agent).Agent.Any():
			continue
		case len(limited) == 0:
			open.Agents = maps.Clone(c.Agents)
		}
		if isIdle(tx, c, agent) {
			delete(open.Agents, agent)
		} else {
			keys = append(keys, thread.AgentMeter(agent))
		}
		limited = append(limited, agent)
	}
	if len(limited) == 0 {
		return c, nil
	}
	if err := tx.rows.loadMeters(keys...); err != nil {
		return nil, err
	}
	for _, key := range keys {
		agent, _ := agentOf(key)
		most, next := left(tx.options.Limits(agent).Agent, tx.rows.meter(key).Meter, open.Agents[agent], tx.now())
		if open.Agents[agent] = most; most > 0 {
			delete(tx.forecast.limited, agent)
			continue
		}
		delete(open.Agents, agent)
		if next.IsZero() {
			next = tx.now().Add(tx.options.Poll)
		}
		leaveOutLimited(tx, c, agent, next)
	}
	return &open, nil
}

// leaveOutLimited makes the claims look for the due runs of a limited agent at a time, and not before.
func leaveOutLimited(tx *transaction, c *thread.ClaimRequest, agent string, until time.Time) {
	one := *c
	one.Agents = map[string]int{agent: 1}
	for _, w := range tx.options.capacities(&one) {
		tx.forecast.idle[w] = until
	}
	tx.forecast.limited[agent] = until
}

// expectedMeters returns the meters that the operations will probably need, so that they are locked with the other
// rows.
func expectedMeters(tx *transaction, ops []*op) (keys []string) {
	now := time.Now()
	for _, o := range ops {
		for _, id := range o.threads {
			keys = append(keys, tx.rows.cache.meters(id)...)
		}
		if o.claim == nil {
			continue
		}
		for agent := range o.claim.Agents {
			if !tx.options.Limits(agent).Agent.Any() || tx.forecast.limited[agent].After(now) && o.claim.Wait {
				continue
			}
			one := *o.claim
			one.Agents = map[string]int{agent: 1}
			if slices.ContainsFunc(tx.options.capacities(&one), func(w store.Capacity) bool {
				at, known := tx.forecast.idle[w]
				return !known || !at.After(now)
			}) {
				keys = append(keys, thread.AgentMeter(agent))
			}
		}
	}
	return keys
}

// loadOwnerMeters locks the meters of the limited owners of threads that may start, in one step.
func loadOwnerMeters(tx *transaction, due []*thread.State) error {
	if !tx.options.OwnerLimit.Any() {
		return nil
	}
	var keys []string
	for _, t := range due {
		if limitsApply(t.Owner) {
			keys = append(keys, thread.OwnerMeter(t.Owner))
		}
	}
	return tx.rows.loadMeters(keys...)
}

// isFull reports whether the owner of a thread has no start left, and notes it in the round.
func isFull(tx *transaction, r *round, owner string) bool {
	l := tx.options.ownerLimit(owner)
	if !l.Any() {
		return false
	}
	n, next := left(l, tx.rows.meter(thread.OwnerMeter(owner)).Meter, 1, tx.now())
	if n == 0 {
		r.full.add(owner, next)
		tx.full[owner] = true
	}
	return n == 0
}

// take counts a start for the rates of its agent and owner, and its claim for their running runs.
func take(tx *transaction, t *thread.State, agent string) {
	for _, of := range tx.options.limitsOf(agent, t.Owner) {
		m := tx.rows.meter(of.key)
		m.At = of.limit.Rate.Take(m.At, tx.now())
	}
	count(tx, t)
}

// keyedLimit is a limit with its meter.
type keyedLimit struct {
	of    string // what it bounds, for people
	key   string
	limit thread.Limit
	named string // the concurrency key that it bounds; "": none
	kept  bool   // a place of it is kept for the thread
}

// limitsOf returns the limits that bound a run.
func (o *Options) limitsOf(agent, owner string) (all []keyedLimit) {
	if o.Limits == nil {
		return nil
	}
	if l := o.Limits(agent).Agent; l.Any() {
		all = append(all, keyedLimit{of: "agent " + agent, key: thread.AgentMeter(agent), limit: l})
	}
	if l := o.ownerLimit(owner); l.Any() {
		all = append(all, keyedLimit{of: owner, key: thread.OwnerMeter(owner), limit: l})
	}
	return all
}

// holds returns the meters that count a claim.
func holds(tx *transaction, agent, owner string) (keys []string) {
	for _, of := range tx.options.limitsOf(agent, owner) {
		if of.limit.Running > 0 {
			keys = append(keys, of.key)
		}
	}
	return keys
}

// fullOwners are the owners that a round leaves out, because they are at their limit.
type fullOwners struct {
	owners map[string]bool
	next   time.Time // when the first of them may start again by itself; zero: unknown
}

func (f *fullOwners) add(owner string, next time.Time) {
	if f.owners == nil {
		f.owners = map[string]bool{}
	}
	f.owners[owner] = true
	if !next.IsZero() && (f.next.IsZero() || next.Before(f.next)) {
		f.next = next
	}
}

// maxFullOwners bounds the meters that a claim reads to leave out the owners at their limit.
const maxFullOwners = 10_000

// findAll adds all owners at their limit, once a claim has met one of them. Otherwise each look would meet the due
// threads of the next such owner.
func (f *fullOwners) findAll(tx *transaction) error {
	found, err := tx.rows.stored.Count(store.CountQuery{Meters: &store.MeterQuery{
		Prefix: thread.OwnerMeter(""), Limit: maxFullOwners,
	}})
	for _, m := range found.Meters {
		owner := strings.TrimPrefix(m.Key, thread.OwnerMeter(""))
		if locked := tx.rows.meter(m.Key); locked != nil {
			m = locked.Meter
		}
		if n, next := left(tx.options.ownerLimit(owner), m, 1, tx.now()); n == 0 {
			f.add(owner, next)
		}
	}
	return err
}

// without returns a share that gives full owners nothing.
func (f *fullOwners) without(s *store.Share) *store.Share {
	for owner := range f.owners {
		s.Held[owner] = s.Most
	}
	return s
}

// restFull lets the claims rest that found due threads of full owners only, until the first of them may start again.
func restFull(tx *transaction, c *thread.ClaimRequest, next time.Time) {
	until := tx.now().Add(tx.options.Poll)
	if !next.IsZero() && next.Before(until) {
		until = next
	}
	for _, w := range tx.options.capacities(c) {
		if at, known := tx.forecast.idle[w]; !known || at.After(until) || !at.After(tx.now()) {
			tx.forecast.idle[w] = until
		}
	}
}
