package config

import (
	"mailroom/internal/setting"
	"mailroom/thread"
)

// starts bounds the starts and the running runs of an agent, an owner or a key, on all servers of a store together.
type starts struct {
	Rate    string // such as "30/m"; "": no rate
	Burst   int    // starts at once, with a rate
	Running int    // 0: no bound
}

// Limit returns the bounds. Its Rate was checked when it was set.
func (s starts) Limit() thread.Limit {
	r, err := thread.ParseRate(s.Rate)
	if err != nil {
		return thread.Limit{Running: s.Running}
	}
	r.Burst = max(s.Burst, 1)
	return thread.Limit{Rate: r, Running: s.Running}
}

// isUnused reports whether there is a burst, and no rate that it belongs to.
func (s starts) isUnused() bool { return s.Rate == "" && s.Burst > 1 }

// agentStarts returns the keys of the bounds in the table of an agent.
func (a *Agent) agentStarts() []setting.Setting {
	return []setting.Setting{
		setting.New("rate",
			`Starts of this agent's runs, on all servers together, such as "30/m": a number per s, m, h or d. Each `+
				"attempt counts, and each return from a wait. Runs beyond it stay queued. Empty is unlimited.",
			rate(&a.Starts.Rate)),
		setting.New("burst", "Starts at once, after a time with fewer than rate.",
			setting.Int(&a.Starts.Burst, 1, thread.MaxLimit)),
		setting.New("concurrency",
			"Maximum number of running runs of this agent, on all servers and workers together; a run that waits for "+
				"a person, a child or a time counts as none. 0 is unlimited. limit is for one process.",
			setting.Int(&a.Starts.Running, 0, thread.MaxLimit)),
		setting.New("key_limit",
			"Maximum number of running runs with the same concurrency key and owner, on all servers and workers "+
				"together; 0 is unlimited.", setting.Int(&a.Keys.Running, 0, thread.MaxLimit)),
		setting.New("key_rate",
			`Starts of the runs with the same concurrency key and owner, on all servers together, such as "10/h"; empty `+
				"is unlimited.", rate(&a.Keys.Rate)),
		setting.New("key_burst", "Starts at once of one concurrency key, after a time with fewer than key_rate.",
			setting.Int(&a.Keys.Burst, 1, thread.MaxLimit)),
		setting.New("key_from",
			"Metadata whose value is the concurrency key of a run whose submit gives none; empty: such a run has none.",
			setting.Text(&a.KeyFrom)),
	}
}

// ownerStarts returns the keys of the bounds of a token in [limits].
func ownerStarts(s *starts) []setting.Setting {
	return []setting.Setting{
		setting.New("start_rate",
			`Starts of the runs of a token's threads, on all servers together, such as "30/m"; empty is unlimited. `+
				"The operator's threads have no such limit.", rate(&s.Rate)),
		setting.New("start_burst", "Starts at once of a token, after a time with fewer than start_rate.",
			setting.Int(&s.Burst, 1, thread.MaxLimit)),
		setting.New("running",
			"Maximum number of running runs of a token's threads, on all servers together; 0 is unlimited.",
			setting.Int(&s.Running, 0, thread.MaxLimit)),
	}
}

// rate is the value of a setting that is a rate. Its errors name the nearest right form.
func rate(p *string) setting.Value {
	v := setting.Text(p)
	return setting.Value{Get: v.Get, Set: func(given any) error {
		text, isText := given.(string)
		if !isText {
			return setting.Invalid(given, `a number of starts per s, m, h or d, such as "30/m"`)
		}
		if _, err := thread.ParseRate(text); err != nil {
			return err
		}
		return v.Set(given)
	}}
}
