package ledger_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/thread"
)

// The limits of histories. They are so low that the few threads of a history reach them.
const (
	agentPlaces = 2
	ownerPlaces = 2 // of each owner but the operator
	keyPlaces   = 1
)

// limitsOfHistories are the limits of agents in histories under limits.
func limitsOfHistories(agent string) ledger.Limits {
	l := ledger.Limits{Key: thread.Limit{Running: keyPlaces}, KeyFrom: "customer"}
	switch agent {
	case "echo":
		l.Agent = thread.Limit{Running: agentPlaces}
		l.Key.Rate = perMinute(30, 2)
	case "codex":
		l.Key = thread.Limit{Rate: perMinute(4, 1)}
	}
	return l
}

// checkKeyRate adds a start to those of its key, and checks that these exceed the rate in no window.
func (m *model) checkKeyRate(t *rapid.T, one thread.ClaimedRun) {
	r, now := one.Run, m.clock.read()
	rate := limitsOfHistories(r.Agent).Key.Rate
	gate := thread.KeyGate(r.Agent, m.after.Threads[r.Thread].Owner, r.LimitKey)
	if !m.limited || gate == "" || rate.N == 0 {
		return
	}
	m.coverage["start under the rate of a key"]++
	starts := append(m.keyStarts[gate], now)
	m.keyStarts[gate] = starts
	for i := range len(starts) - rate.Burst {
		least := time.Duration(len(starts)-i-rate.Burst) * rate.Per / time.Duration(rate.N)
		if took := now.Sub(starts[i]); took < least {
			t.Fatalf("%d runs of key %q started in %s, which takes %s", len(starts)-i, r.LimitKey, took, least)
		}
	}
}

// playUnderLimits runs one history on ledgers with limits.
func playUnderLimits(t *rapid.T, quick bool, sides ...*side) coverage {
	w := closedTwin(sides)
	w.limited, w.quick = true, quick
	if err := w.open(one(t, []int{1, 3}, "ledgers")); err != nil {
		t.Fatal(err)
	}
	return play(t, w)
}

// TestRandomHistoriesUnderLimits is TestRandomHistories with limits of agents, owners and keys, through one ledger or
// three. No step exceeds a limit, and all runs can be completed.
func TestRandomHistoriesUnderLimits(t *testing.T) {
	rounds(t, 6)
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) { playUnderLimits(rt, false, onMemory(), onFile(dir), onPostgres(t)) })
}

// The histories reach each limit, threads that wait at a gate, and places that are kept for them.
func TestTheHistoriesReachTheLimits(t *testing.T) {
	setFlag(t, "rapid.seed", "28")
	setFlag(t, "rapid.checks", "60")
	setFlag(t, "rapid.steps", "60")
	came := coverage{}
	rapid.Check(t, func(rt *rapid.T) {
		for name, times := range playUnderLimits(rt, true, onMemory()) {
			came[name] += times
		}
	})
	for _, name := range []string{"agent at its limit", "owner at its limit", "waits for limit", "waits for rate",
		"at a gate", "kept place", "kept start", "start under the rate of a key", "spent thread", "asleep",
		"question about a thread"} {
		if t.Logf("%6d %s", came[name], name); came[name] == 0 {
			t.Errorf("never occurred: %s", name)
		}
	}
}

// checkLimits checks that no more runs are running than the limits allow.
func (m *model) checkLimits(t *rapid.T) {
	if !m.limited {
		return
	}
	var agentFull, ownerFull bool
	agents, owners, keys := map[string]int{}, map[string]int{}, map[string]int{}
	for id, row := range m.after.Threads {
		switch {
		case row.Kept:
			m.coverage["kept place"]++
			if keys[row.Gate]++; row.Paced && row.Due.At.After(m.clock.read()) {
				m.coverage["kept start"]++
			}
		case row.Gate != "":
			m.coverage["at a gate"]++
		}
		if row.Worker == "" {
			continue
		}
		r := m.after.Runs[row.Current]
		agents[r.Agent]++
		owners[row.Owner]++
		gate := thread.KeyGate(r.Agent, row.Owner, r.LimitKey)
		keys[gate]++
		if keys[gate] > keyPlaces && gate != "" && limitsOfHistories(r.Agent).Key.Running > 0 {
			t.Fatalf("%d runs of key %q, one of them in thread %s", keys[gate], r.LimitKey, id)
		}
		ownerFull = ownerFull || owners[row.Owner] == ownerPlaces && row.Owner != auth.Operator
		agentFull = agentFull || agents["echo"] == agentPlaces
		if owners[row.Owner] > ownerPlaces && row.Owner != auth.Operator || agents["echo"] > agentPlaces {
			t.Fatalf("%v run by owner, %v by agent", owners, agents)
		}
	}
	for name, full := range map[string]bool{"agent at its limit": agentFull, "owner at its limit": ownerFull} {
		if full {
			m.coverage[name]++
		}
	}
}
