package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// A service manager restarts a server that exits with an error. To avoid a tight restart
// loop, a server pauses at its start after too many rapid restarts.
const (
	maxRapidStarts   = 5 // starts within rapidStartWindow that need no pause
	rapidStartWindow = 120 * time.Second
	minRestartPause  = 10 * time.Second
	maxRestartPause  = 5 * time.Minute
)

// startHistory records the recent starts of the folder's servers.
type startHistory struct {
	Starts []time.Time `json:"starts"` // recent starts, each after its pause
	Pauses int         `json:"pauses"` // consecutive pauses
}

// add adds a start at the time now and returns the pause before the server goes on. The pause doubles with each
// further start until a server has run for at least rapidStartWindow.
func (s startHistory) add(now time.Time) (startHistory, time.Duration) {
	var starts []time.Time
	for _, at := range s.Starts {
		if age := now.Sub(at); age >= 0 && age < rapidStartWindow { // ignore starts in the future: the clock was set back
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

// RecordStart records the start of a server and returns the pause before it.
func (h *Lock) RecordStart(now time.Time) (pause time.Duration, err error) {
	var s startHistory
	raw, err := os.ReadFile(h.Dir.path(startsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read the start history: %w", err)
	}
	if err == nil && json.Unmarshal(raw, &s) != nil {
		s = startHistory{} // ignore a damaged file
	}
	s, pause = s.add(now)
	if raw, err = json.Marshal(s); err != nil {
		return 0, fmt.Errorf("encode the start history: %w", err)
	}
	return pause, WriteFileAtomic(h.Dir.path(startsFile), append(raw, '\n'))
}

// ClearStarts clears the history after a deliberate shutdown.
func (h *Lock) ClearStarts() error {
	if err := os.Remove(h.Dir.path(startsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the start history: %w", err)
	}
	return nil
}

const startsFile = "starts.json"
