package plan

import "time"

// Advance accounts for the occurrences up to now: each is due, or skipped with a reason, or waits in Buffered. It does
// nothing while the schedule is paused. If the clock has gone back, nothing is due until it is where it was, so that
// no occurrence is sent twice.
func (s *State) Advance(now time.Time) (m Moves) {
	if s.Paused != nil || s.Ended {
		return m
	}
	l, err := s.Spec.loudTimes()
	if err != nil { // the database of time zones has changed
		s.pauseFor(causeTimes, Server, err.Error(), now)
		return Moves{Paused: s.Paused}
	}
	waited := s.Buffered
	if !waited.IsZero() && len(s.Open)+len(s.Due) == 0 {
		if s.Buffered = (time.Time{}); !l.quiet.has(now) {
			s.Due, waited = append(s.Due, Fire{Nominal: waited}), time.Time{}
		}
	} else {
		waited = time.Time{}
	}
	if edge := now.Add(-s.Spec.Window - s.Spec.Jitter); edge.After(s.Since) {
		countMissed(l, s.Since, edge, &m)
		s.Since = edge
	}
	for _, at := range s.due(l, now, &m) {
		s.send(at, &m)
	}
	if !waited.IsZero() { // it waited until the quiet window
		m.Skips = append(m.Skips, Skip{Reason: skipQuiet, First: waited, Last: waited, Count: 1})
	}
	s.record(m.Skips)
	m.Add(s.schedule(now))
	return m
}

// due returns the occurrences to send, moves Since to the last one that is due, and skips those that CatchUp leaves
// out.
func (s *State) due(l loud, now time.Time, m *Moves) (all []time.Time) {
	times, keep := l.times, maxOpen
	if s.Spec.CatchUp == catchUpOne {
		keep = 1
	}
	for at := times.Next(s.Since); !at.IsZero() && !at.After(now); at = times.Next(at) {
		ready := at.Add(s.Spec.delay(s.ID, times, at))
		if ready.After(now) {
			break
		}
		s.Since = at
		if l.quiet.has(at) || now.Sub(ready) > onTime && l.quiet.has(now) {
			m.skip(Skip{Reason: skipQuiet, First: at, Last: at, Count: 1})
			continue
		}
		if s.Spec.CatchUp == catchUpNone && now.Sub(ready) > onTime {
			m.skip(Skip{Reason: skipMissed, First: at, Last: at, Count: 1})
			continue
		}
		if len(all) == keep {
			k := Skip{Reason: skipSuperseded, First: all[0], Last: all[0], Count: 1}
			if all = all[1:]; l.quiet == nil {
				m.skip(k)
			} else { // quiet ones may be between two that are superseded
				m.Skips = append(m.Skips, k)
			}
		}
		all = append(all, at)
	}
	return all
}

// send makes an occurrence due, unless runs of earlier ones are open.
func (s *State) send(at time.Time, m *Moves) {
	open := len(s.Open) + len(s.Due)
	if open == 0 || s.Spec.Overlap == overlapAll && open < maxOpen {
		s.Due = append(s.Due, Fire{Nominal: at})
		return
	}
	if s.Spec.Overlap == OverlapOne {
		at, s.Buffered = s.Buffered, at // the later one waits
	}
	if !at.IsZero() {
		m.skip(Skip{Reason: skipOverlap, First: at, Last: at, Count: 1})
	}
}

// schedule returns when the schedule next sends itself a message, if the message that is on its way comes later or
// none is. A message that turns out to come early does nothing, so none is ever taken back.
func (s *State) schedule(now time.Time) (m Moves) {
	if !s.Tick.After(now) {
		s.Tick = time.Time{} // it is being handled, or about to be
	}
	at := s.NextFire()
	if at.IsZero() || !s.Tick.IsZero() && !at.Before(s.Tick) {
		return m
	}
	if most := now.Add(maxTick); at.After(most) {
		at = most // a held run keeps the log from being purged
	}
	s.Tick = at
	return Moves{Tick: at}
}

// maxTick is how far ahead the message of a schedule to itself is.
const maxTick = 24 * time.Hour

// NextFire returns when the next occurrence is sent; the zero time if no time follows, the schedule has ended, or while
// it is paused.
func (s *State) NextFire() time.Time {
	l, err := s.Spec.loudTimes()
	if err != nil || s.Paused != nil || s.Ended {
		return time.Time{}
	}
	at := l.Next(s.Since)
	if at.IsZero() {
		return at
	}
	return at.Add(s.Spec.delay(s.ID, l.times, at))
}

// countMissed skips the occurrences after since, up to and including to: those of the quiet window as quiet.
func countMissed(l loud, since, to time.Time, m *Moves) {
	n := 0
	for at := l.times.Next(since); !at.IsZero() && !at.After(to); at = l.times.Next(at) {
		k := Skip{Reason: skipMissed, First: at, Last: at, Count: 1}
		if l.quiet.has(at) {
			k.Reason = skipQuiet
		}
		if n++; n > maxCounted {
			last := &m.Skips[len(m.Skips)-1]
			last.More, last.Last = true, to
			return
		}
		m.skip(k)
	}
}

// count returns a skip for the occurrences after since, up to and including to. Its Count is 0 without occurrences.
func count(times occurrences, why Reason, since, to time.Time) Skip {
	k := Skip{Reason: why}
	for at := times.Next(since); !at.IsZero() && !at.After(to); at = times.Next(at) {
		if k.Count == maxCounted {
			k.More, k.Last = true, to
			break
		}
		if k.Count == 0 {
			k.First = at
		}
		k.Last, k.Count = at, k.Count+1
	}
	return k
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
