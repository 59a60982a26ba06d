package ledger

import (
	"context"
	"fmt"
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

// noteProbes puts off the next probe of paused agents that have started a run.
func noteProbes(tx *transaction, work []thread.ClaimedRun) {
	for _, w := range work {
		if p, paused := tx.rows.pauses[w.Run.Agent]; paused && mayProbe(p, tx.now()) {
			p.Probe = tx.now().Add(probeTime)
			tx.putPause(p)
		}
	}
}

// afterAttempt pauses an agent whose own fault ended an attempt. It reports whether an attempt went well although the
// agent is paused, so that the pause can end. What a person has paused stays paused.
func afterAttempt(tx *transaction, agent string, s *thread.Settle) (works bool) {
	p, paused := tx.rows.pauses[agent]
	own := s.Failure != nil && s.Failure.Agent
	switch {
	case paused && p.Probe.IsZero():
	case own && paused:
		p.Probe = nextProbe(p, tx.now())
		tx.putPause(p)
	case own:
		row := store.Pause{Agent: agent, Reason: faultReason(s.Failure), At: tx.now()}
		row.Probe = nextProbe(row, tx.now())
		tx.putPause(row)
	case paused:
		return proves(s)
	}
	return false
}

// endProbe ends the pause of an agent that works again, unless a person has paused it by now. It is an operation of its
// own: the end of each attempt would otherwise have to lock the pauses. If it fails, the next probe ends the pause.
func (l *Ledger) endProbe(ctx context.Context, agent string) {
	o := op{name: "end_probe", rank: rankPlain, topics: []string{topicAgents}, pauses: true}
	ended, err := run(ctx, l, o, func(tx *transaction) (bool, error) {
		if p, paused := tx.rows.pauses[agent]; !paused || p.Probe.IsZero() {
			return false, nil
		}
		tx.dropPause(agent)
		return true, nil
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
