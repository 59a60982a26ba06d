package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// A service manager starts a server again that has ended with an error. One that
// ends at once each time would do nothing else, so it waits before it goes on.
const (
	maxRapidStarts   = 5 // in stormTime; more are a storm
	rapidStartWindow = 120 * time.Second
	minRestartPause  = 10 * time.Second
	maxRestartPause  = 5 * time.Minute
)

// startHistory is what is kept of the starts of the folder's servers.
type startHistory struct {
	Starts []time.Time `json:"starts"` // of late, each with the time at which it went on
	Pauses int         `json:"pauses"` // in a row
}

// add takes a start, and says how long it is to wait first. The pause grows for
// as long as no server lasts longer than stormTime.
func (s startHistory) add(now time.Time) (startHistory, time.Duration) {
	var starts []time.Time
	for _, at := range s.Starts {
		if age := now.Sub(at); age >= 0 && age < rapidStartWindow { // a clock that was set back counts nothing
			starts = append(starts, at)
		}
	}
	switch {
	case s.Pauses > 0 && len(starts) > 0:
		s.Pauses++
	case len(starts) >= maxRapidStarts:
		s.Pauses = 1
	default:
		s.Pauses = 0
	}
	pause := time.Duration(0)
	if s.Pauses > 0 {
		pause = maxRestartPause
		if shift := s.Pauses - 1; shift < 10 {
			pause = min(minRestartPause<<shift, maxRestartPause)
		}
	}
	starts = append(starts, now.Add(pause))
	s.Starts = starts[max(0, len(starts)-maxRapidStarts-1):]
	return s, pause
}

// RecordStart notes that a server starts, and says how long it is to wait first because
// those before it have ended so soon.
func (h *Lock) RecordStart(now time.Time) (pause time.Duration, err error) {
	var s startHistory
	raw, err := os.ReadFile(h.Dir.path(startsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read when servers were started: %w", err)
	}
	if err == nil && json.Unmarshal(raw, &s) != nil {
		s = startHistory{} // it is of no use, and worth no refusal
	}
	s, pause = s.add(now)
	if raw, err = json.Marshal(s); err != nil {
		return 0, fmt.Errorf("encode when servers were started: %w", err)
	}
	return pause, writeFileAtomic(h.Dir.path(startsFile), append(raw, '\n'))
}

// ClearStarts notes that the server was told to end: who starts the next one wants to.
func (h *Lock) ClearStarts() error {
	if err := os.Remove(h.Dir.path(startsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget when servers were started: %w", err)
	}
	return nil
}

const startsFile = "starts.json"
