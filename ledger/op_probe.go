package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/store"
	"mailroom/thread"
)

// An agent that cannot work for any message, because its program is not logged in, has no credit left or is missing,
// is paused by the server: one failed run stands for all that would follow. From time to time one due run may start.
// It is the cheapest probe that proves anything: a program's own status command does not notice an expired login, and
// a probe with a text of its own would cost an answer. The pause ends when such a run goes well, or by hand. It is a
// row of the store, so that it holds for all servers and remote workers, and after a restart.
//
// A fault is often one of a machine: its login, its PATH. While another worker serves the agent, the pause holds for
// the faulty worker alone (store.PauseOn): the run goes to the other one. If that one fails too, the agent is paused.

const (
	// firstProbe is the time from a pause to its first probe, and lastProbe the longest time between two.
	firstProbe = time.Minute
	lastProbe  = 30 * time.Minute
	// probeTime is how long a probe may work before another run may start. A run that works for hours must not hold
	// up all others.
	probeTime = 2 * time.Minute
)

// mayProbe reports whether a run of a paused agent may start.
func mayProbe(p store.Pause, now time.Time) bool { return !p.Probe.IsZero() && !now.Before(p.Probe) }

// nextProbe returns when the next run may start after a probe failed at now: after the time that the pause has
// lasted, at least firstProbe and at most lastProbe. So the distance between probes doubles.
func nextProbe(p store.Pause, now time.Time) time.Time {
	return now.Add(min(max(now.Sub(p.At), firstProbe), lastProbe))
}

// pauseOf returns the pause that keeps a worker from an agent: the agent's own, or the one on that worker.
func pauseOf(tx *transaction, agent, worker string) (p store.Pause, paused bool) {
	if p, paused = tx.rows.pauses[agent]; !paused {
		p, paused = tx.rows.pauses[store.PauseOn(agent, worker)]
	}
	return p, paused
}

// noteProbes puts off the next probe of paused agents, once a worker has started a run of theirs.
func noteProbes(tx *transaction, worker string, work []thread.ClaimedRun) {
	for _, w := range work {
		if p, paused := pauseOf(tx, w.Run.Agent, worker); paused && mayProbe(p, tx.now()) {
			p.Probe = tx.now().Add(probeTime)
			tx.putPause(p)
		}
	}
}

// afterAttempt pauses an agent whose own fault ended an attempt: on the worker of the attempt alone, as long as another
// live worker serves the agent without such a fault, else as a whole. It reports whether an attempt went well although
// the agent is paused there, so that the pause can end. What a person has paused stays paused.
func afterAttempt(tx *transaction, agent, worker string, s *thread.Settle) (works bool, err error) {
	p, paused := pauseOf(tx, agent, worker)
	own := s.Failure != nil && s.Failure.Agent
	switch {
	case paused && p.Probe.IsZero():
		return false, nil
	case !own:
		return paused && proves(s), nil
	}
	key := p.Agent
	if key != agent {
		key = agent
		elsewhere, err := isServedElsewhere(tx, agent, worker)
		if err != nil {
			return false, err
		}
		if elsewhere {
			key = store.PauseOn(agent, worker)
		}
	}
	if p.Agent != key {
		p = store.Pause{Agent: key, Reason: faultReason(s.Failure), At: tx.now()}
	}
	p.Probe = nextProbe(p, tx.now())
	tx.putPause(p)
	return false, nil
}

// isServedElsewhere reports whether a live worker other than the given one serves an agent, and is not paused for it.
func isServedElsewhere(tx *transaction, agent, worker string) (bool, error) {
	all, err := tx.allWorkers()
	return slices.ContainsFunc(all, func(w *store.Worker) bool {
		_, paused := tx.rows.pauses[store.PauseOn(agent, w.ID)]
		return w.ID != worker && w.Live(tx.now()) && slices.Contains(w.Agents, agent) && !paused
	}), err
}

// endProbe ends the pause of an agent that works again on a worker, unless a person has paused it by now. It is an
// operation of its own: the end of each attempt would otherwise have to lock the pauses. If it fails, the next probe
// ends the pause. Pauses on other workers stay, because each of them may have a fault of its own.
func (l *Ledger) endProbe(ctx context.Context, agent, worker string) {
	o := op{name: "end_probe", rank: rankPlain, topics: []string{topicAgents}, pauses: true}
	ended, err := run(ctx, l, o, func(tx *transaction) (ended bool, err error) {
		for _, key := range []string{agent, store.PauseOn(agent, worker)} {
			if p, paused := tx.rows.pauses[key]; paused && !p.Probe.IsZero() {
				tx.dropPause(key)
				ended = true
			}
		}
		return ended, nil
	})
	if err == nil && ended {
		l.onResumed(agent)
	}
}

// proves reports whether the end of an attempt shows that its agent works.
func proves(s *thread.Settle) bool {
	return s.Outcome == thread.OutcomeComplete || s.Outcome == thread.OutcomePark
}

// faultReason is the reason of a pause for a failure.
func faultReason(f *mailroom.Failure) string {
	const most = MaxPauseReason - 100
	text := strings.ReplaceAll(strings.ToValidUTF8(fmt.Sprint(f.Err), "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}
