package ledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/check"
	"mailroom/store"
	"mailroom/thread"
)

// topicAgents serializes pauses and the registration of workers.
const topicAgents = "agents"

// MaxPauseReason bounds the reason of a pause, in bytes.
const MaxPauseReason = 1000

// PauseAgent stops the start of an agent's runs, on all servers and remote workers, until ResumeAgent.
// Running runs go on, and submits are accepted. When it returns, no further run starts: it locks the rows
// of all workers, and every claim locks that of its worker before it reads the pauses. The pause of a
// paused agent is replaced.
//
// A pause is a row, not a state of threads: pausing costs the same with a million due runs. A claim
// reads the pauses in the transaction that claims, after it locked the row of its worker, and a
// pause locks the rows of all workers. So claims that are under way end first, and every later one
// sees the pause. Registering a worker holds the same topic, so none slips in between. A flag in
// the rows of the workers would have been a second copy.
func (l *Ledger) PauseAgent(ctx context.Context, p store.Pause) (store.Pause, error) {
	if len(p.Reason) > MaxPauseReason || !check.IsClean(p.Reason) {
		return store.Pause{}, check.Invalid("reason", "must be text of at most 1,000 bytes, in UTF-8 and without NUL", nil)
	}
	for {
		workers, err := l.liveWorkers(ctx)
		if err != nil {
			return store.Pause{}, err
		}
		row, err := l.pause(ctx, p, workers)
		if !errors.Is(err, errRegistered) {
			return row, err
		}
	}
}

// errRegistered refuses a pause because a worker registered after the list of workers was read.
var errRegistered = mailroom.Errorf(mailroom.CodeConflict, "a worker registered at the same time")

// pause writes the pause of an agent while the rows of workers are locked. It returns errRegistered if there are
// further live workers.
func (l *Ledger) pause(ctx context.Context, p store.Pause, workers []string) (store.Pause, error) {
	o := op{name: "pause", rank: rankPlain, topics: []string{topicAgents}, workers: workers, pauses: true,
		audits: true}
	return run(ctx, l, o, func(tx *transaction) (store.Pause, error) {
		all, err := tx.allWorkers()
		if err != nil {
			return store.Pause{}, err
		}
		for _, w := range all {
			if !w.Dead && !slices.Contains(workers, w.ID) {
				return store.Pause{}, errRegistered
			}
		}
		row := p
		row.At, row.Probe = tx.now(), time.Time{}
		tx.putPause(row)
		return row, appendAudit(tx, entry.Audit{Action: "agent.pause", ObjectKind: "agent", Object: row.Agent,
			Detail: map[string]string{"reason": row.Reason}})
	})
}

// liveWorkers returns the ids of the workers whose lease has not ended.
func (l *Ledger) liveWorkers(ctx context.Context) (ids []string, err error) {
	err = l.View(ctx, func(r store.Reader) error {
		rows, err := r.Workers()
		for _, w := range rows {
			if !w.Dead {
				ids = append(ids, w.ID)
			}
		}
		return err
	})
	return ids, err
}

// ResumeAgent ends the pauses of an agent, also on workers. Its due runs start. It returns CodeConflict if the agent is
// not paused.
func (l *Ledger) ResumeAgent(ctx context.Context, agent string) error {
	o := op{name: "resume", rank: rankPlain, topics: []string{topicAgents}, pauses: true, audits: true}
	err := perform(ctx, l, o, func(tx *transaction) error {
		paused := false
		for key, p := range tx.rows.pauses {
			if of, _ := p.Of(); of == agent || key == agent {
				tx.dropPause(key)
				paused = true
			}
		}
		if !paused {
			return mailroom.Errorf(mailroom.CodeConflict, "agent %q is not paused", agent)
		}
		return appendAudit(tx, entry.Audit{Action: "agent.resume", ObjectKind: "agent", Object: agent})
	})
	if err == nil {
		l.onResumed(agent)
	}
	return err
}

// onResumed wakes the claims after the end of a pause.
func (l *Ledger) onResumed(agent string) {
	l.Nudge("") // the runs of sticky agents have names of their own
	l.options.Due(agent)
}

// Pauses returns the pauses of agents, ordered by agent.
func (l *Ledger) Pauses(ctx context.Context) (pauses []store.Pause, err error) {
	err = l.View(ctx, func(r store.Reader) error {
		rows, err := r.Agents()
		pauses = rows.Pauses
		return err
	})
	return pauses, err
}

// withoutPaused returns a request without the paused agents, whose due runs the claims look for again with
// the next poll or when the pause ends. An agent whose probe is due may start one run.
func (tx *transaction) withoutPaused(c *thread.ClaimRequest) *thread.ClaimRequest {
	if len(tx.rows.pauses) == 0 {
		return c
	}
	open, paused := *c, *c
	open.Agents, paused.Agents = map[string]int{}, map[string]int{}
	for agent, most := range c.Agents {
		p, ok := pauseOf(tx, agent, c.Worker)
		switch {
		case !ok:
			open.Agents[agent] = most
		case mayProbe(p, tx.now()):
			open.Agents[agent] = min(most, 1)
		case p.Agent != agent: // other workers find runs of the agent
			tx.forecast.bar(p.Agent, tx.now().Add(tx.options.Poll))
		default:
			paused.Agents[agent] = most
		}
	}
	leaveOut(tx, &paused, tx.now().Add(tx.options.Poll))
	return &open
}

// leaveOut says that claims look for the runs of a request again at a time.
func leaveOut(tx *transaction, c *thread.ClaimRequest, until time.Time) {
	for _, w := range tx.options.capacities(c) {
		tx.forecast.idle[w] = until
	}
}

// isPaused reports whether the agent of a Due.Agent is paused.
func isPaused(pauses []store.Pause, due string) bool {
	agent, _ := thread.ParseDueAgent(due)
	return slices.ContainsFunc(pauses, func(p store.Pause) bool { return p.Agent == agent })
}
