package alert

import (
	"cmp"
	"slices"
	"strings"

	"mailroom"
	"mailroom/entry"
)

const (
	// outageKey begins the keys of groups of outages.
	outageKey = "outage "
	// maxOutages bounds the agents in an outage that a rule remembers, and maxOutageRuns the runs of each, because the
	// state is stored. maxTokenOutages is the limit for the threads of one token, so that an owner of many agents that
	// are down does not use up the limit of the others.
	maxOutages      = 50
	maxTokenOutages = 5
	maxOutageRuns   = 20
)

// acceptOutage remembers that runs of an agent wait because of an outage. The rule alerts once when the outage
// has lasted for the rule's time, and once when it is over: an attempt of the agent went well, or none of these runs is
// open any more.
func (s *ruleStep) acceptOutage(e *Event) {
	key := outageKey + e.Subject
	g := s.state.Groups[key]
	switch {
	case !e.Ended:
		if g == nil && s.tooManyOutages(e) {
			return
		}
		if g == nil {
			s.gather(key, e, e.At.Add(cmp.Or(s.rule.Outage, DefaultOutage)))
			g = s.state.Groups[key]
			g.By = ownerKey(e)
		}
		switch {
		case slices.Contains(g.Runs, e.Run):
		case len(g.Runs) < maxOutageRuns:
			g.Runs = append(g.Runs, e.Run)
		default:
			g.More = true
		}
		return
	case g == nil:
		return
	case e.Run != "":
		g.Runs = slices.DeleteFunc(g.Runs, func(run string) bool { return run == e.Run })
		if len(g.Runs) > 0 || g.More {
			return
		}
	}
	delete(s.state.Groups, key)
	if !g.NotifiedAt.IsZero() {
		s.notify(s.alertOf(e), s.quietEnd(), e.Subject, stamp(e.At))
	}
}

// tooManyOutages reports whether the rule may remember no further outage that runs of an event's owner met.
func (s *ruleStep) tooManyOutages(e *Event) bool {
	by, own, all := ownerKey(e), 0, 0
	for key, g := range s.state.Groups {
		if strings.HasPrefix(key, outageKey) {
			if all++; g.By == by {
				own++
			}
		}
	}
	if by == "" {
		return own >= maxOutages
	}
	return own >= maxTokenOutages || all >= maxAnyGroups
}

// remembersOutage reports whether a rule waits for the end of an outage.
func (s State) remembersOutage() bool {
	for _, m := range s {
		for key := range m.Groups {
			if strings.HasPrefix(key, outageKey) {
				return true
			}
		}
	}
	return false
}

// beginsOutage reports whether an entry says that a run waits because of an outage, and with which error.
func beginsOutage(e mailroom.Entry) (*mailroom.RunError, bool) {
	if e.Kind != entry.KindRescheduled {
		return nil, false
	}
	var body entry.RunRescheduled
	if e.Decode(&body) != nil || body.Error == nil {
		return nil, false
	}
	return body.Error, body.Error.Class == mailroom.ClassUnavailable
}

// endsOutage reports whether an entry of a run may end an outage of its agent.
func endsOutage(kind string) bool {
	return kind == entry.KindCompleted || kind == entry.KindWaiting || kind == entry.KindFailed ||
		kind == entry.KindCancelled
}

// outageRuns returns the runs whose entries may begin or end an outage. known says that a rule remembers an outage.
// If none is known and no entry begins one, outageRuns returns no run, so that the follower does not read ordinary
// runs.
func outageRuns(entries []mailroom.Entry, known bool) (runs []string) {
	for _, e := range entries {
		_, begins := beginsOutage(e)
		if known = known || begins; begins || known && endsOutage(e.Kind) {
			runs = append(runs, e.Run)
		}
	}
	return runs
}

// outageEvent returns the event of an entry of run that begins or ends an outage.
func outageEvent(e mailroom.Entry, run *mailroom.Run) (Event, bool) {
	about := Event{Kind: KindOutage, At: e.At, Subject: run.Agent, Agent: run.Agent}
	if why, begins := beginsOutage(e); begins {
		about.Run, about.Words = e.Run, why.Message
		return about, true
	}
	about.Ended = true
	if e.Kind == entry.KindFailed || e.Kind == entry.KindCancelled {
		about.Run = e.Run
	}
	return about, endsOutage(e.Kind)
}
