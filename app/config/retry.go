package config

import (
	"fmt"
	"strings"
	"time"

	"mailroom/internal/retry"
	"mailroom/internal/setting"
)

// retrySettings returns the keys of [retry].
func retrySettings(p *retry.Policy) []setting.Setting {
	return []setting.Setting{
		setting.New("attempts",
			"Number of failed attempts after which a run fails for good, unless its agent, its worker or its submit says "+
				"otherwise.", setting.Int(&p.Attempts, 1, retry.MaxAttempts)),
		setting.New("first", "Time from a failed attempt to the first retry.",
			setting.Duration(&p.First, retry.MinDelay, retry.MaxDelay)),
		setting.New("factor", "Each further delay is so many times as long as the one before.",
			setting.Number(&p.Factor, retry.MinFactor, retry.MaxFactor)),
		setting.New("most",
			"Maximum time from a failed attempt to the next one, plus up to a fifth. A delay that the agent or its provider "+
				"names may be longer.", setting.Duration(&p.Most, retry.MinDelay, retry.MaxDelay)),
		setting.New("outage_most",
			"Maximum time from an attempt that an outage or a limit of use ended to the next one, plus up to a fifth.",
			setting.Duration(&p.OutageMost, retry.MinDelay, retry.MaxDelay)),
		setting.New("outage", "How long an outage is retried, without a counted failure.",
			setting.Duration(&p.Outage, retry.MinOutage, retry.MaxDelay)),
	}
}

// agentRetrySettings returns the keys of [retry] in the table of an agent.
func agentRetrySettings(p *retry.Policy) []setting.Setting {
	return []setting.Setting{
		setting.New("attempts",
			"Number of failed attempts after which a run fails for good, unless its worker or its submit says otherwise; 0 "+
				"is that of [retry].", setting.Int(&p.Attempts, 0, retry.MaxAttempts)),
		setting.New("retry_first", "Time from a failed attempt to the first retry; default: first of [retry].",
			setting.Duration(&p.First, retry.MinDelay, retry.MaxDelay)),
		setting.New("retry_factor", "Growth of the delays of retries; default: factor of [retry].",
			setting.Number(&p.Factor, retry.MinFactor, retry.MaxFactor)),
		setting.New("retry_most", "Maximum time from a failed attempt to the next one; default: most of [retry].",
			setting.Duration(&p.Most, retry.MinDelay, retry.MaxDelay)),
		setting.New("retry_outage_most", "Maximum time between attempts in an outage; default: outage_most of [retry].",
			setting.Duration(&p.OutageMost, retry.MinDelay, retry.MaxDelay)),
		setting.New("retry_outage", "How long an outage is retried; default: outage of [retry].",
			setting.Duration(&p.Outage, retry.MinOutage, retry.MaxDelay)),
	}
}

const oldRetryFirst = "retry_pause" // older name of retry_first, which only agents with a program had

// isOldName reports whether a key is an older name of another one. It is read and never shown: two names for one
// value could contradict each other in the printed file.
func isOldName(key string) bool {
	return strings.HasPrefix(key, "agents.") && strings.HasSuffix(key, "."+oldRetryFirst)
}

// checkRetry reports a table whose shortest delay is longer than its longest. For delays that two different tables
// set, see [retry.Policy.Over].
func (r *reader) checkRetry(first, most string, p retry.Policy) {
	if set := r.config.set; set[first] && set[most] && p.First > p.Most {
		name := first[strings.LastIndexByte(first, '.')+1:]
		r.report(most,
			fmt.Sprintf("%s is shorter than %s, %s; use at least that", setting.FormatDuration(p.Most), name,
				setting.FormatDuration(p.First)))
	}
}

// agentRetry completes the retry settings in the table of an agent: it accepts the older name of retry_first and
// checks the delays.
func (r *reader) agentRetry(key string, a *Agent) {
	first, old, set := key+".retry_first", key+"."+oldRetryFirst, r.config.set
	switch {
	case set[old] && set[first]:
		r.report(old, "is the older name of retry_first; remove it")
	case set[old]:
		if set[first] = a.Retry.First != 0; set[first] { // 0 meant no pause in older versions
			a.Retry.First = max(a.Retry.First, retry.MinDelay)
		}
	}
	r.checkRetry(first, key+".retry_most", a.Retry)
}

// inheritRetry sets the retry values that no table sets.
func (c *Config) inheritRetry() {
	given := func(p retry.Policy, attempts, delays string) retry.Policy {
		out := retry.Policy{}
		if c.set[attempts] {
			out.Attempts = p.Attempts
		}
		if c.set[delays+"factor"] {
			out.Factor = p.Factor
		}
		for key, d := range map[string][2]*time.Duration{"first": {&out.First, &p.First}, "most": {&out.Most, &p.Most},
			"outage_most": {&out.OutageMost, &p.OutageMost}, "outage": {&out.Outage, &p.Outage}} {
			if c.set[delays+key] {
				*d[0] = *d[1]
			}
		}
		return out
	}
	c.Retry = given(c.Retry, "retry.attempts", "retry.").Over(retry.Default())
	for name, a := range c.Agents {
		key := "agents." + name
		a.Retry = given(a.Retry, key+".attempts", key+".retry_").Over(c.Retry)
	}
}
