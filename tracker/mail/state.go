package mail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"mailroom/internal/projectdir"
)

// Names of files in the tracker's folder. They are for this machine alone.
const (
	fileState = "mail.json"
	fileLock  = "mail.lock"
	temporary = "*.tmp"
)

const (
	lockWait  = time.Second        // for others who write the file, which takes them milliseconds
	grace     = time.Second        // for a sender, to write down what was sent
	maxQueued = 200                // calls for a server; the oldest go first
	serverTTL = 7 * 24 * time.Hour // after it a server that nobody asked is dropped
)

// state is what the file holds: what is known of servers, by their digest.
type state struct {
	Servers map[string]*server `json:"servers"`
}

// server is what is known of one address and token.
type server struct {
	URL     string            `json:"url"`              // without secrets, for whoever reads the file
	Changed time.Time         `json:"changed"`          // when something was written here
	Backoff *backoff          `json:"silence,omitzero"` // it failed, and is left alone
	Queued  []Call            `json:"kept,omitempty"`   // in the order in which they are sent
	Sender  *sender           `json:"sender,omitzero"`  // who sends what is kept
	Holds   map[string][]hold `json:"holds,omitempty"`  // by agent and issue: commands that reserved it
}

// backoff says until when a server is not asked, and what it did.
type backoff struct {
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// sender is the command that sends what is kept: one at a time, so that calls
// arrive in order. One that was killed is forgotten at Until.
type sender struct {
	Command string    `json:"command"`
	Until   time.Time `json:"until"`
}

// hold is a reservation that a command asked for. Commands of one agent share a
// reservation, so one that fails gives it back only if no other has it.
type hold struct {
	Command string    `json:"command"`
	Until   time.Time `json:"until"`
}

// Call is one thing that a server is to be told: make it with [Release] or
// [Notice].
type Call struct {
	Key     string          `json:"key,omitempty"` // of a notice, by which a repeat is recognised
	At      time.Time       `json:"at"`
	Agent   string          `json:"agent"`
	Project string          `json:"project,omitempty"`
	Issue   string          `json:"release,omitempty"` // whose reservation ends; "": it is a notice
	Type    string          `json:"event_type,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func (c Call) isReleaseOf(agent, issue string) bool { return c.Issue == issue && c.Agent == agent }

// expired reports whether a call means nothing any more: the reservation that it
// ends has ended by itself.
func (c Call) expired(now time.Time) bool { return c.Issue != "" && now.Sub(c.At) > lease }

// activeBackoff returns the silence that is on, or nil. One that is longer than any was
// begun by a clock that was wrong.
func (s *server) activeBackoff(now time.Time) *backoff {
	if s.Backoff != nil && isWithin(s.Backoff.Until, now, maxBackoff) {
		return s.Backoff
	}
	return nil
}

// isWithin reports whether a time is still to come, and within reach.
func isWithin(at, now time.Time, reach time.Duration) bool {
	return now.Before(at) && at.Sub(now) <= reach
}

// startBackoff begins a silence, of retry if that is longer than the usual one.
func (s *server) startBackoff(reason string, retry time.Duration, now time.Time) {
	s.Backoff = &backoff{Until: now.Add(min(max(retry, defaultBackoff), maxBackoff)), Reason: reason}
}

// busy reports whether another command is sending what is kept.
func (s *server) busy(command string, now time.Time) bool {
	return s.Sender != nil && s.Sender.Command != command && isWithin(s.Sender.Until, now, MaxTimeout+grace)
}

func holdKey(agent, issue string) string { return agent + " " + issue }

// cancelRelease drops what was kept to release an issue, because it must not end a new
// reservation, and reports whether there was anything.
func (s *server) cancelRelease(agent, issue string) bool {
	before := len(s.Queued)
	s.Queued = slices.DeleteFunc(s.Queued, func(c Call) bool { return c.isReleaseOf(agent, issue) })
	return len(s.Queued) < before
}

// addHold notes that a command reserves an issue.
func (s *server) addHold(agent, issue, command string, now time.Time) {
	if s.Holds == nil {
		s.Holds = map[string][]hold{}
	}
	key := holdKey(agent, issue)
	s.Holds[key] = append(s.Holds[key], hold{Command: command, Until: now.Add(lease)})
}

// removeHold undoes take, and reports whether nobody else holds the issue.
func (s *server) removeHold(agent, issue, command string) (free bool) {
	if s.Holds == nil {
		return true
	}
	key := holdKey(agent, issue)
	s.Holds[key] = slices.DeleteFunc(s.Holds[key], func(h hold) bool { return h.Command == command })
	if len(s.Holds[key]) > 0 {
		return false
	}
	delete(s.Holds, key)
	return true
}

// enqueue adds a call to what is to be sent. dropped are the oldest, which had to go.
func (s *server) enqueue(c Call) (dropped int) {
	if c.Issue != "" {
		delete(s.Holds, holdKey(c.Agent, c.Issue))
		s.cancelRelease(c.Agent, c.Issue)
	}
	s.Queued = append(s.Queued, c)
	dropped = max(0, len(s.Queued)-maxQueued)
	s.Queued = slices.Delete(s.Queued, 0, dropped)
	return dropped
}

// prune drops what means nothing any more.
func (s *state) prune(now time.Time) {
	for digest, one := range s.Servers {
		if one == nil || now.Sub(one.Changed) > serverTTL {
			delete(s.Servers, digest)
			continue
		}
		one.Queued = slices.DeleteFunc(one.Queued, func(c Call) bool { return c.expired(now) })
		for key, holds := range one.Holds {
			holds = slices.DeleteFunc(holds, func(h hold) bool { return !isWithin(h.Until, now, lease) })
			if one.Holds[key] = holds; len(holds) == 0 {
				delete(one.Holds, key)
			}
		}
		if one.activeBackoff(now) == nil {
			one.Backoff = nil
		}
	}
}

// stateFile is the folder with the file. It comes with a project and is not trusted.
type stateFile struct{ folder string }

// maxState bounds the file. A command writes far less: calls and reservations are
// bounded.
const maxState = 16 << 20 // bytes

var errCorrupt = errors.New("it was not as commands write it; what was kept in it is dropped")

// read returns what the file says, nothing if there is none. What cannot be
// understood is errGarbled, and nothing too.
func (p stateFile) read() (*state, error) {
	dir, err := projectdir.Open(p.folder)
	if err != nil {
		return &state{}, fmt.Errorf("read %s: %w", fileState, err)
	}
	defer dir.Close() // it is only read: nothing can be lost
	return readState(dir)
}

func readState(dir *projectdir.Dir) (*state, error) {
	s := &state{Servers: map[string]*server{}}
	raw, err := dir.Read(fileState, maxState)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return s, fmt.Errorf("read %s: %w", fileState, err)
	}
	if err := json.Unmarshal(raw, s); err != nil || s.Servers == nil {
		return &state{Servers: map[string]*server{}}, fmt.Errorf("read %s: %w", fileState, errCorrupt)
	}
	return s, nil
}

// update changes what the file says, unless change returns false. A garbled file
// is replaced, and told of after that. Nobody waits for a network while it runs.
func (p stateFile) update(ctx context.Context, change func(*state) bool) (err error) {
	dir, err := projectdir.Open(p.folder)
	if err != nil {
		return fmt.Errorf("open the folder of %s: %w", fileState, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	lock, err := dir.Lock(ctx, fileLock, fileState, projectdir.Wait{Command: "bd"})
	if err != nil {
		return fmt.Errorf("lock %s: %w", fileState, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	s, garbled := readState(dir)
	if garbled != nil && !errors.Is(garbled, errCorrupt) {
		return garbled
	}
	if !change(s) && garbled == nil {
		return nil
	}
	s.prune(time.Now())
	return errors.Join(garbled, write(dir, lock, s))
}

// write puts a new file in the place of the old one. It sees that git leaves these
// files alone, in folders too that were made before there were any.
func write(dir *projectdir.Dir, lock *projectdir.Lock, s *state) error {
	raw, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return fmt.Errorf("write %s: %w", fileState, err)
	}
	if _, err := dir.Stat(fileState); errors.Is(err, fs.ErrNotExist) {
		if err := dir.Ignore(fileState, fileLock, temporary); err != nil {
			return err
		}
	}
	err = lock.Replace(fileState, 0o644, func(to io.Writer) error {
		_, err := to.Write(append(raw, '\n'))
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("write %s: %w", fileState, err)
	}
	return nil
}
