package exec

import (
	"testing"

	"mailroom"
	"mailroom/agent/exec/program"
	"mailroom/internal/proc"
)

// TestASilentTurnEscalates lets every turn of a run hang without a word: the session once more, then a new one, and
// no fourth turn.
func TestASilentTurnEscalates(t *testing.T) {
	for _, hang := range []error{proc.ErrIdle, proc.ErrStart} {
		a := &attempt{agent: &programAgent{agent: &agent{name: "claude"}, profile: program.Find("claude")},
			run: mailroom.RunView{}}
		turn := func(resume bool) *runningTurn {
			return &runningTurn{t: a, plan: plan{session: "s", resume: resume}, ending: ending{why: hang}}
		}
		first := turn(true)
		if why := a.climb(first); why != "" || a.hopeless(first) != nil {
			t.Errorf("%v: after the first turn: %q, %v; want the session once more", hang, why, a.hopeless(first))
		}
		second := turn(true)
		if why := a.climb(second); why == "" {
			t.Errorf("%v: after the second turn: the session again, want a new one", hang)
		}
		third := turn(false)
		if why := a.climb(third); why != "" || a.hopeless(third) == nil {
			t.Errorf("%v: after the third turn: %q, %v; want the end", hang, why, a.hopeless(third))
		}
	}
}

// TestTurnsThatEndForOtherReasonsDoNotEscalate lists ends of a resumed turn that say nothing about its session.
func TestTurnsThatEndForOtherReasonsDoNotEscalate(t *testing.T) {
	for name, l := range map[string]*runningTurn{
		"a stop":                  {ending: ending{why: mailroom.ErrStopped}},
		"a shutdown":              {ending: ending{why: mailroom.ErrReleased}},
		"a lost claim":            {ending: ending{why: mailroom.ErrLeaseLost}},
		"the deadline":            {ending: ending{why: mailroom.ErrDeadline}},
		"a network that is down":  {ending: ending{why: proc.ErrIdle}, onlyWarnings: true},
		"silence after work":      {ending: ending{why: proc.ErrIdle}, worked: true},
		"a limit of use":          {verdict: program.Verdict{Class: mailroom.ClassUnavailable}},
		"a doubtful end of work":  {verdict: program.Verdict{Doubtful: true}, worked: true},
		"a call that was stopped": {ending: ending{why: proc.ErrBusy}, worked: true},
	} {
		a := &attempt{agent: &programAgent{agent: &agent{name: "claude"}, profile: program.Find("claude")},
			run: mailroom.RunView{}}
		for range 3 {
			l.t, l.plan = a, plan{session: "s", resume: true}
			if why := a.climb(l); why != "" || a.state.Doubts != 0 {
				t.Errorf("%s: %q with %d doubts, want the same session", name, why, a.state.Doubts)
			}
		}
	}
}
