package plan

import (
	"bytes"
	"encoding/json"
	"time"
)

// configured is what a schedule keeps about the configuration file that it comes from.
type configured struct {
	// Revision is when the file was changed that was applied last. An older file, which another server may still have,
	// changes nothing.
	Revision time.Time `json:"revision"`
	Removed  bool      `json:"removed,omitempty"` // the file has it no more, so it is paused
}

// FromFile reports whether the configuration file has the schedule. Only the file then changes its spec.
func (s *State) FromFile() bool { return s.Configured != nil && !s.Configured.Removed }

// NeedsConfigure reports whether the schedule does not yet have what [OpConfigure] with these values would set.
func (s *State) NeedsConfigure(source string, spec *Spec, revision time.Time) bool {
	return !s.FromFile() || s.Source != source || !s.Follows(spec) || s.Configured.Revision.Before(revision)
}

// Follows reports whether the schedule has the spec of a file. The anchor of an interval is kept by the schedule unless
// the file sets one.
func (s *State) Follows(spec *Spec) bool {
	has, wants := s.Spec, *spec
	if wants.Anchor.IsZero() {
		has.Anchor = time.Time{}
	}
	a, errA := json.Marshal(has)
	b, errB := json.Marshal(wants)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// configure carries out [OpConfigure].
func (s *State) configure(c Command, accepted, now time.Time) (m Moves, why string) {
	if s.Configured != nil && c.Revision.Before(s.Configured.Revision) {
		return m, "a newer configuration file was applied"
	}
	if c.Spec == nil {
		if s.Configured == nil {
			return m, "the schedule is not of the configuration file"
		}
		s.Configured = &configured{Revision: c.Revision, Removed: true}
		const note = "mailroom.toml does not have it any more: delete it, or resume it to keep it"
		s.pauseFor(CauseRemoved, Server, note, now)
		return Moves{Paused: s.Paused}, ""
	}
	back := s.Paused != nil && (s.Paused.Cause == CauseRemoved || s.Paused.Cause == causeRights)
	if !s.Follows(c.Spec) {
		if why := c.prepare(s, accepted); why != "" {
			return m, why
		}
		m = s.set(c.Source, *c.Spec, accepted, now)
	}
	s.Source, s.Configured = c.Source, &configured{Revision: c.Revision}
	if back {
		m.Add(s.resume(c.Source, now))
	}
	return m, ""
}
