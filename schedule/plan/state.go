package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/internal/display"
)

// State is what a schedule remembers, at most mailroom.MaxState bytes of JSON.
//
// Since, Due and Buffered account for all occurrences: one up to Since was sent, or was skipped with a reason, or is in
// Due or Buffered. So a transaction that sends a fire and takes it out of Due neither loses nor doubles an
// occurrence.
type State struct {
	ID     string `json:"id"`     // of its thread
	Source string `json:"source"` // row of the token whose rights it uses, as auth.Token.ID
	Spec   Spec   `json:"spec"`
	Own    *Own   `json:"own,omitempty"`   // set in a book, see [Book]
	Ended  bool   `json:"ended,omitempty"` // it was cancelled, or its thread was deleted: nothing is sent any more

	Since    time.Time `json:"since"`
	Buffered time.Time `json:"buffered,omitzero"` // occurrence that waits for the end of the open runs
	Due      []Fire    `json:"due,omitempty"`     // to be sent now, in this order
	Open     []Fire    `json:"open,omitempty"`    // runs that were sent and have not ended
	// Tick is the time of the next message of the schedule to itself. It may be earlier than it need be. Zero: none is
	// on its way.
	Tick   time.Time `json:"tick,omitzero"`
	Paused *Pause    `json:"paused,omitempty"`
	// Configured says that a configuration file has, or had, the schedule; nil: people made it.
	Configured *configured `json:"configured,omitempty"`

	Failures  int       `json:"failures,omitempty"` // runs in a row that failed
	Sent      int64     `json:"sent,omitempty"`
	Skipped   int64     `json:"skipped,omitempty"`
	Results   []Result  `json:"results,omitempty"` // the last ends and skips, oldest first
	CreatedAt time.Time `json:"created_at"`
}

// Server is who pauses a schedule that people do not pause.
const Server = "server"

// Pause is why a schedule is paused.
type Pause struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"` // a token, or Server
	Note string    `json:"note,omitempty"`
	// Cause is why the server paused it; "": a person did.
	Cause cause `json:"cause,omitempty"`
}

// cause is why the server pauses a schedule.
type cause string

// Causes of pauses.
const (
	causeRights   cause = "rights"   // its token ended
	CauseRemoved  cause = "removed"  // the configuration file has it no more
	causeFailures cause = "failures" // too many runs in a row failed
	causeTimes    cause = "times"    // its times cannot be read any more
)

// Fire is an occurrence that is sent.
type Fire struct {
	Nominal time.Time `json:"nominal"`
	Manual  bool      `json:"manual,omitempty"` // a person asked for it; Nominal is when
	Run     string    `json:"run,omitempty"`
}

// Reason is why an occurrence is skipped.
type Reason string

// Reasons of skips.
const (
	skipMissed     Reason = "missed"     // it was due before the window began
	skipQuiet      Reason = "quiet"      // its time was in the quiet window, or it would have been late in it
	skipSuperseded Reason = "superseded" // a later one was due too
	skipOverlap    Reason = "overlap"    // a run of an earlier one was open
	SkipPaused     Reason = "paused"     // the schedule was paused
	SkipBusy       Reason = "busy"       // the thread was busy
	SkipRefused    Reason = "refused"    // its message was refused
	SkipCancelled  Reason = "cancelled"  // the schedule was cancelled
)

// Skip is one occurrence that is not sent, or all from First to Last.
type Skip struct {
	Reason Reason    `json:"reason"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Count  int       `json:"count"`
	More   bool      `json:"more,omitempty"`   // there are more than Count
	Manual bool      `json:"manual,omitempty"` // see Fire
	Why    string    `json:"why,omitempty"`    // of a refusal
}

// Result is the end of a run that was sent, or a skip.
type Result struct {
	Nominal time.Time       `json:"nominal"`
	Run     string          `json:"run,omitempty"`
	Status  mailroom.Status `json:"status,omitempty"` // "": it was skipped
	Reason  Reason          `json:"reason,omitempty"`
	Count   int             `json:"count,omitempty"` // of skips, if it is not 1
	Error   string          `json:"error,omitempty"`
}

// Moves are what a change of a state logs, and the message that the schedule sends itself.
type Moves struct {
	Skips  []Skip
	Paused *Pause    // the schedule paused itself
	Tick   time.Time // when the schedule sends itself a message; zero: none is needed
}

// newState returns the state of a new schedule. id is the id of its thread, spec has been checked.
func newState(id, source string, spec Spec, now time.Time) *State {
	return &State{ID: id, Source: source, Spec: spec, Since: now, CreatedAt: now}
}

// set changes what the schedule sends and when. Occurrences up to now follow the old spec.
func (s *State) set(source string, spec Spec, accepted, now time.Time) (m Moves) {
	if s.Paused == nil {
		s.Spec.Jitter = 0 // what is due is not put off: the new spec does not know it
		m = s.Advance(now)
	} else {
		m = s.passOver(now)
	}
	since := later(s.Since, now)
	if !spec.At.IsZero() {
		since = accepted // its only time may have passed since then, or the clock has gone back
	}
	s.Source, s.Spec, s.Since, s.Failures = source, spec, since, 0
	m.Add(s.Advance(now))
	return m
}

// Pause pauses the schedule for a person. What is due is skipped when it is resumed.
func (s *State) Pause(by, note string, now time.Time) { s.pauseFor("", by, note, now) }

// EndRights pauses the schedule because its token ended.
func (s *State) EndRights(why string, now time.Time) { s.pauseFor(causeRights, Server, why, now) }

func (s *State) pauseFor(why cause, by, note string, now time.Time) {
	s.Paused = &Pause{At: now, By: by, Note: note, Cause: why}
}

// resume ends a pause: what fell into it is skipped. source is the row of the token that resumes the schedule. It also
// sends the message of the schedule to itself again, in case that a person cancelled the one that was on its way.
func (s *State) resume(source string, now time.Time) (m Moves) {
	s.Source, s.Failures, s.Tick = source, 0, time.Time{}
	if s.Paused == nil {
		return s.Advance(now)
	}
	m = s.passOver(now)
	s.Paused = nil
	m.Add(s.schedule(now))
	return m
}

// Close ends the schedule for good: what is due is skipped. Its open runs go on.
func (s *State) Close(now time.Time) (m Moves) {
	m = s.Advance(now)
	s.Ended = true
	var left Moves
	for _, f := range s.Due {
		left.skip(Skip{Reason: SkipCancelled, First: f.Nominal, Last: f.Nominal, Count: 1, Manual: f.Manual})
	}
	if !s.Buffered.IsZero() {
		left.skip(Skip{Reason: SkipCancelled, First: s.Buffered, Last: s.Buffered, Count: 1})
	}
	s.Due, s.Buffered = nil, time.Time{}
	s.record(left.Skips)
	m.Add(left)
	return m
}

// Over reports whether the schedule sends nothing any more, and nothing that it sent is open.
func (s *State) Over() bool {
	if len(s.Open)+len(s.Due) > 0 || !s.Buffered.IsZero() {
		return false
	}
	return s.Ended || s.Paused == nil && s.NextFire().IsZero()
}

// passOver skips what fell into a pause.
func (s *State) passOver(now time.Time) (m Moves) {
	if !s.Buffered.IsZero() {
		m.skip(Skip{Reason: SkipPaused, First: s.Buffered, Last: s.Buffered, Count: 1})
		s.Buffered = time.Time{}
	}
	if times, err := s.Spec.times(); err == nil {
		m.skip(count(times, SkipPaused, s.Since, now))
	}
	s.Since = later(s.Since, now)
	s.record(m.Skips)
	return m
}

// trigger sends the message now, whatever is open. ok is false if too many runs are open.
func (s *State) trigger(now time.Time) (m Moves, ok bool) {
	m = s.Advance(now)
	if len(s.Open)+len(s.Due) >= maxOpen {
		return m, false
	}
	s.Due = append(s.Due, Fire{Nominal: now, Manual: true})
	return m, true
}

// Account records the ends of the open runs. runs are those that exist, by id: one that was deleted counts as
// cancelled, so that it does not hold up the next one for ever. It returns the pause that follows from their failures,
// nil if none does.
func (s *State) Account(runs map[string]*mailroom.Run, now time.Time) (paused *Pause) {
	for _, f := range slices.Clone(s.Open) {
		r := Result{Nominal: f.Nominal, Run: f.Run, Status: mailroom.StatusCancelled, Error: "the run was deleted"}
		if run := runs[f.Run]; run != nil {
			if !run.Status.Finished() {
				continue
			}
			r.Status, r.Error = run.Status, ""
			if run.Error != nil {
				r.Error = run.Error.Message
			}
		}
		s.Open = slices.DeleteFunc(s.Open, func(open Fire) bool { return open.Run == f.Run })
		s.keep(r)
		switch r.Status {
		case mailroom.StatusCompleted:
			s.Failures = 0
		case mailroom.StatusFailed:
			paused = cmp.Or(s.fail(r.Error, now), paused)
		}
	}
	return paused
}

// OpenRuns returns the ids of the runs that were sent and have not ended.
func (s *State) OpenRuns() []string {
	ids := make([]string, 0, len(s.Open))
	for _, f := range s.Open {
		ids = append(ids, f.Run)
	}
	return ids
}

// Accept takes the first fire out of Due: it was sent. run is the run whose end the schedule waits for, "" if it has
// none of its own.
func (s *State) Accept(run string) Fire {
	f := s.Due[0]
	s.Due = slices.Delete(s.Due, 0, 1)
	s.Sent++
	if f.Run = run; run != "" {
		s.Open = append(s.Open, f)
	}
	return f
}

// Refuse takes the first fire out of Due: its message was refused, or the schedule was paused. It returns what there is
// to log.
func (s *State) Refuse(reason Reason, why string, now time.Time) (m Moves) {
	f := s.Due[0]
	s.Due = slices.Delete(s.Due, 0, 1)
	m.skip(Skip{Reason: reason, First: f.Nominal, Last: f.Nominal, Count: 1, Why: why, Manual: f.Manual})
	s.record(m.Skips)
	if reason == SkipRefused {
		m.Paused = s.fail(why, now)
	}
	return m
}

// fail counts a failure, and returns the pause that follows from it, nil if none does.
func (s *State) fail(why string, now time.Time) *Pause {
	s.Failures++
	if s.Paused != nil || s.Spec.PauseAfter == 0 || s.Failures < s.Spec.PauseAfter {
		return nil
	}
	s.pauseFor(causeFailures, Server, fmt.Sprintf("%d failures in a row, the last one: %s", s.Failures,
		display.Cut(display.Line(why), maxError)), now)
	return s.Paused
}

// maxError is how many characters of an error a result keeps.
const maxError = 200

// keep keeps a result, and drops the oldest ones.
func (s *State) keep(r Result) {
	r.Error = display.Cut(display.Line(r.Error), maxError)
	s.Results = append(s.Results, r)
	s.Results = slices.Clone(s.Results[max(0, len(s.Results)-maxResults):])
}

// record keeps the results of skips.
func (s *State) record(skips []Skip) {
	for _, k := range skips {
		s.Skipped += int64(k.Count)
		r := Result{Nominal: k.Last, Reason: k.Reason, Error: k.Why}
		if k.Count > 1 {
			r.Count = k.Count
		}
		s.keep(r)
	}
}

// Add appends later moves.
func (m *Moves) Add(later Moves) {
	m.Skips = append(m.Skips, later.Skips...)
	m.Paused = cmp.Or(later.Paused, m.Paused)
	if !later.Tick.IsZero() {
		m.Tick = later.Tick // it is earlier than m.Tick, or the only one
	}
}

// skip appends a skip, to the one before if both have one reason. Overlaps stay apart, because an occurrence that
// waited may be skipped after later ones.
func (m *Moves) skip(k Skip) {
	if k.Count == 0 {
		return
	}
	if n := len(m.Skips); n > 0 && m.Skips[n-1].Reason == k.Reason &&
		(k.Reason == skipMissed || k.Reason == skipSuperseded || k.Reason == skipQuiet) {
		last := &m.Skips[n-1]
		last.Last, last.Count, last.More = k.Last, last.Count+k.Count, last.More || k.More
		return
	}
	m.Skips = append(m.Skips, k)
}
