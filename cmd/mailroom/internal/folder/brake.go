package folder

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
	stormStarts = 5 // in stormTime; more are a storm
	stormTime   = 120 * time.Second
	firstBrake  = 10 * time.Second
	lastBrake   = 5 * time.Minute
)

// storm is what is kept of the starts of the folder's servers.
type storm struct {
	Starts []time.Time `json:"starts"` // of late, each with the time at which it went on
	Pauses int         `json:"pauses"` // in a row
}

// start takes a start, and says how long it is to wait first. The pause grows for
// as long as no server lasts longer than stormTime.
func (s storm) start(now time.Time) (storm, time.Duration) {
	var starts []time.Time
	for _, at := range s.Starts {
		if age := now.Sub(at); age >= 0 && age < stormTime { // a clock that was set back counts nothing
			starts = append(starts, at)
		}
	}
	switch {
	case s.Pauses > 0 && len(starts) > 0:
		s.Pauses++
	case len(starts) >= stormStarts:
		s.Pauses = 1
	default:
		s.Pauses = 0
	}
	pause := time.Duration(0)
	if s.Pauses > 0 {
		pause = lastBrake
		if shift := s.Pauses - 1; shift < 10 {
			pause = min(firstBrake<<shift, lastBrake)
		}
	}
	starts = append(starts, now.Add(pause))
	s.Starts = starts[max(0, len(starts)-stormStarts-1):]
	return s, pause
}

// Start notes that a server starts, and says how long it is to wait first because
// those before it have ended so soon.
func (h *Held) Start(now time.Time) (pause time.Duration, err error) {
	var s storm
	raw, err := os.ReadFile(h.Folder.path(startsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read when servers were started: %w", err)
	}
	if err == nil && json.Unmarshal(raw, &s) != nil {
		s = storm{} // it is of no use, and worth no refusal
	}
	s, pause = s.start(now)
	if raw, err = json.Marshal(s); err != nil {
		return 0, fmt.Errorf("encode when servers were started: %w", err)
	}
	return pause, write(h.Folder.path(startsFile), append(raw, '\n'))
}

// Stopped notes that the server was told to end: who starts the next one wants to.
func (h *Held) Stopped() error {
	if err := os.Remove(h.Folder.path(startsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget when servers were started: %w", err)
	}
	return nil
}

const startsFile = "starts.json"
