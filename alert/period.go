package alert

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mailroom/internal/setting"
	"mailroom/store"
)

// A digest comes once a day, at a time of the day, or at the end of each period, such as each 15 minutes. Periods are
// counted from midnight on a clock on the wall, so each divides an hour or a day evenly and none is cut at midnight.
//
// A digest of a period is not worth a message of its own while the one before cannot be read. So the next period
// stretches over quiet hours, over the time that the server was off, and as long as the digest before waits for its
// target: afterwards one digest reports all of it.

// digestPeriods returns the periods of digests, shortest first. The summary has no rows for less than a minute.
func digestPeriods() (all []time.Duration) {
	for m := time.Minute; m < time.Hour; m += time.Minute {
		if time.Hour%m == 0 {
			all = append(all, m)
		}
	}
	for h := time.Hour; h <= 12*time.Hour; h += time.Hour {
		if 24*time.Hour%h == 0 {
			all = append(all, h)
		}
	}
	return all
}

// ParseDigest parses when digests come: at a time of the day such as "08:00", or each period such as "15m", which
// divides an hour or a day evenly. One of the two results is not zero, but for "00:00". The text says what is wrong
// with another value and names the nearest period; it is "" without an error.
func ParseDigest(s string) (at Clock, every time.Duration, wrong string) {
	if at, ok := ParseClock(s); ok {
		return at, 0, ""
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, 0, `must be a time such as "08:00", or a period such as "15m"`
	}
	all := digestPeriods()
	if slices.Contains(all, d) {
		return 0, d, ""
	}
	if longest := all[len(all)-1]; d > longest {
		return 0, 0, fmt.Sprintf(`must be a period of at most %s, or a time such as "08:00" for one digest a day`,
			setting.FormatDuration(longest))
	}
	near := slices.MinFunc(all, func(a, b time.Duration) int { return cmp.Compare((a - d).Abs(), (b - d).Abs()) })
	return 0, 0, fmt.Sprintf("must be a period that divides an hour or a day evenly; the nearest one is %q",
		setting.FormatDuration(near))
}

// DigestText returns when the rule sends digests, as ParseDigest reads it.
func (r *Rule) DigestText() string {
	if r.Every > 0 {
		return setting.FormatDuration(r.Every)
	}
	return r.Digest.String()
}

// lastDigest returns the latest time of a digest that is not after now.
func (r *Rule) lastDigest(now time.Time) time.Time {
	now = now.In(r.Zone)
	if r.Every > 0 {
		return lastPeriod(now, r.Every)
	}
	at := r.Digest.on(now)
	if at.After(now) {
		at = r.Digest.on(now.AddDate(0, 0, -1))
	}
	return at
}

// lastPeriod returns the latest end of a period that is not after now, in the location of now. If the clock is changed
// within the period, the period is as much longer or shorter, and an end that the clock skips is when it is changed.
func lastPeriod(now time.Time, every time.Duration) time.Time {
	shown := time.Duration(now.Hour())*time.Hour + time.Duration(now.Minute())*time.Minute +
		time.Duration(now.Second())*time.Second + time.Duration(now.Nanosecond())
	at := now.Add(-(shown % every))
	_, is := now.Zone()
	_, was := at.Zone()
	return at.Add(time.Duration(is-was) * time.Second)
}

// digestStep is what the periods of digests are made of: a digest adds up rows of the summary.
func (r *Rule) digestStep() time.Duration {
	if r.Every > 0 {
		return store.StepMinute
	}
	return store.StepHour
}

// hold marks the rules whose next digest is due while the one before still waits to be sent.
func (s State) hold(r store.Reader, rules []Rule, now time.Time) error {
	var ids []string
	for i := range rules {
		rule, m := &rules[i], s[rules[i].id()]
		if m != nil && rule.Every > 0 && m.DigestRun != "" && rule.lastDigest(now).After(m.Digest) {
			ids = append(ids, m.DigestRun)
		}
	}
	runs, err := runsByID(r, ids)
	for _, m := range s {
		run := runs[m.DigestRun]
		m.held = run != nil && run.FinishedAt.IsZero()
	}
	return err
}

// notifyDigest adds a digest once its time has come, once. The first one is due after the rule was made. A period is
// whole rows of the summary of ended runs and begins at the end of the previous period, so that the rows add up to it
// exactly, however late the digest is sent.
func (s *ruleStep) notifyDigest() {
	if !slices.Contains(s.rule.When, KindDigest) {
		return
	}
	m, at := s.state, s.rule.lastDigest(s.now)
	if !at.After(m.Digest) { // for example because the time of the digest was moved to a later one
		return
	}
	from, until := m.DigestEnd, at.UTC().Truncate(s.rule.digestStep())
	if from.IsZero() {
		from = m.Digest.UTC().Truncate(time.Hour) // an older version kept no end
	}
	switch {
	case m.Digest.IsZero():
		m.DigestEnd = until
	case s.rule.Every > 0 && (m.held || s.isQuiet(s.now)): // the next one reports this period too
		return
	case until.After(from):
		due := until.Add(digestDelay)
		if s.now.After(due) {
			due = s.now
		}
		if end := s.rule.Quiet.End(due.In(s.rule.Zone)); !end.IsZero() {
			due = end
		}
		s.notify(Alert{
			Kind: KindDigest, Rule: s.rule.Name, Then: s.rule.To[1:], Text: s.rule.Text, At: from, Until: until, Count: 1,
			Zone: s.rule.Zone.String(),
		}, due, stamp(at))
		m.DigestEnd, m.DigestRun = until, runOf(&s.out[len(s.out)-1])
	}
	m.Digest = at.UTC()
}
