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

	"mailroom/issues/tracker"
)

// Names of files in the tracker's folder. They are local to this machine.
const (
	fileState = "mail.json"
	fileLock  = "mail.lock"
	temporary = "*.tmp"
)

const (
	lockWait  = time.Second        // other writers hold the lock for milliseconds
	grace     = time.Second        // time for a sender to record what it sent
	maxQueued = 200                // calls per server; the oldest are dropped
	serverTTL = 7 * 24 * time.Hour // unused servers are dropped after this time
)

// state is the content of the state file: one server for each digest of an address and token.
type state struct {
	Servers map[string]*server `json:"servers"`
}

// server is the state of one mail server, which is identified by its address and token.
type server struct {
	URL     string            `json:"url"`              // address without secrets, for readers of the file
	Changed time.Time         `json:"changed"`          // time of the last write
	Backoff *backoff          `json:"silence,omitzero"` // set after a failure
	Queued  []Call            `json:"kept,omitempty"`   // calls in sending order
	Sender  *sender           `json:"sender,omitzero"`  // the command that is sending the queue
	Holds   map[string][]hold `json:"holds,omitempty"`  // by agent and issue: the commands that reserved the issue
}

// backoff is a period without requests to a server that failed.
type backoff struct {
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// sender is the command that sends the queue. There is one at a time, so that calls arrive in
// order. A sender that was killed expires at Until.
type sender struct {
	Command string    `json:"command"`
	Until   time.Time `json:"until"`
}

// hold is a reservation that a command requested. Commands of one agent share a reservation, so a
// command that fails releases it only if no other command holds it.
type hold struct {
	Command string    `json:"command"`
	Until   time.Time `json:"until"`
}

// Call is a request that is queued for a server; see [Release] and [Notice].
type Call struct {
	Key     string          `json:"key,omitempty"` // idempotency key of a notice
	At      time.Time       `json:"at"`
	Agent   string          `json:"agent"`
	Project string          `json:"project,omitempty"`
	Issue   string          `json:"release,omitempty"` // issue to release; "" for a notice
	Type    string          `json:"event_type,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func (c Call) isReleaseOf(agent, issue string) bool { return c.Issue == issue && c.Agent == agent }

// expired reports whether a call has become pointless: the reservation that it releases has
// expired.
func (c Call) expired(now time.Time) bool { return c.Issue != "" && now.Sub(c.At) > lease }

// activeBackoff returns the current backoff, or nil. A backoff that is longer than the maximum
// comes from a wrong clock and is ignored.
func (s *server) activeBackoff(now time.Time) *backoff {
	if s.Backoff != nil && isWithin(s.Backoff.Until, now, maxBackoff) {
		return s.Backoff
	}
	return nil
}

// isWithin reports whether at is after now, by at most reach.
func isWithin(at, now time.Time, reach time.Duration) bool {
	return now.Before(at) && at.Sub(now) <= reach
}

// startBackoff starts a backoff of the default length, or of retry if that is longer.
func (s *server) startBackoff(reason string, retry time.Duration, now time.Time) {
	s.Backoff = &backoff{Until: now.Add(min(max(retry, defaultBackoff), maxBackoff)), Reason: reason}
}

// busy reports whether another command is sending the queue.
func (s *server) busy(command string, now time.Time) bool {
	return s.Sender != nil && s.Sender.Command != command && isWithin(s.Sender.Until, now, MaxTimeout+grace)
}

func holdKey(agent, issue string) string { return agent + " " + issue }

// cancelRelease drops a queued release of an issue, because a late release would end a new reservation. It reports
// whether there was such a release.
func (s *server) cancelRelease(agent, issue string) bool {
	before := len(s.Queued)
	s.Queued = slices.DeleteFunc(s.Queued, func(c Call) bool { return c.isReleaseOf(agent, issue) })
	return len(s.Queued) < before
}

// addHold records that a command reserves an issue.
func (s *server) addHold(agent, issue, command string, now time.Time) {
	if s.Holds == nil {
		s.Holds = map[string][]hold{}
	}
	key := holdKey(agent, issue)
	s.Holds[key] = append(s.Holds[key], hold{Command: command, Until: now.Add(lease)})
}

// removeHold undoes addHold and reports whether no other command holds the issue.
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

// enqueue appends a call and returns how many of the oldest calls it dropped.
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

// prune drops expired entries.
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

// stateFile is the state file in a tracker's folder. It comes with a project and is not trusted.
type stateFile struct{ folder string }

// maxState bounds the size of the file, which is far larger than commands write.
const maxState = 16 << 20 // bytes

var errCorrupt = errors.New("the file is corrupt; its queued calls are dropped")

// read returns the state, which is empty if there is no file. A corrupt file yields errCorrupt and
// an empty state.
func (p stateFile) read() (*state, error) {
	dir, err := tracker.OpenDir(p.folder)
	if err != nil {
		return &state{}, fmt.Errorf("read %s: %w", fileState, err)
	}
	defer dir.Close() // read only: nothing can be lost
	return readState(dir)
}

func readState(dir *tracker.Dir) (*state, error) {
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

// update changes the state, unless change returns false. A corrupt file is replaced and reported.
// Callers must make no network request in change.
func (p stateFile) update(ctx context.Context, change func(*state) bool) (err error) {
	dir, err := tracker.OpenDir(p.folder)
	if err != nil {
		return fmt.Errorf("open the folder of %s: %w", fileState, err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	lock, err := dir.Lock(ctx, fileLock, fileState, tracker.WaitOptions{Command: "bd"})
	if err != nil {
		return fmt.Errorf("lock %s: %w", fileState, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	s, corrupt := readState(dir)
	if corrupt != nil && !errors.Is(corrupt, errCorrupt) {
		return corrupt
	}
	if !change(s) && corrupt == nil {
		return nil
	}
	s.prune(time.Now())
	return errors.Join(corrupt, write(dir, lock, s))
}

// write replaces the file. When it creates the file it also adds the files of this package to .gitignore, because
// folders of older versions do not list them.
func write(dir *tracker.Dir, lock *tracker.Lock, s *state) error {
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
