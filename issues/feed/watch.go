// Package feed assigns the issues of a tracker to agents. It claims a ready issue in the file and submits it to a
// thread of its own. The messages of the run become comments, and the end of the run closes or blocks the issue.
//
// The file records the claims, and the ledger records their runs. A claim is one write of the file and contains the
// key of the submit that follows. So every scan submits each claim whose key the ledger does not know, and records
// the end of each run in its issue. The same scan therefore recovers from a crash at any point, without a separate
// list of claims.
package feed

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/issues/tracker"
)

// Kind is the name of this kind of channel.
const Kind = "tracker"

// Options configure a tracker. Folder, Agent and Interval are required.
type Options struct {
	Folder tracker.Folder
	Agent  string // default agent for issues
	// Agents are further agents beside Agent. An issue selects one by the label agent:NAME or by its assignee.
	Agents      []string
	Labels      []string      // required labels
	Types       []string      // accepted types; empty accepts all
	MaxClaims   int           // issues in progress at once; defaults to 1
	KeepOpen    bool          // a person closes finished issues
	Interval    time.Duration // between two scans
	LockTimeout time.Duration // wait for a locked file; defaults to 5 s
	// Project is the project in which issues in progress are reserved. Issues reserved there by
	// other agents are skipped. "" disables reservations; otherwise Projects is required.
	Project  string
	Projects Projects
	// Command is how a person calls this program, for the instructions in questions. It defaults to
	// "mailroom".
	Command string
}

// busyFactor shortens the interval while agents are working.
const busyFactor = 4

// Watcher assigns the issues of one tracker. A tracker is a file, so there is no connection.
type Watcher struct {
	options  Options
	wake     chan struct{} // buffered for one signal; triggers a scan
	findings findings
}

// New returns a watcher. It does not read the tracker yet.
func New(o Options) (*Watcher, error) {
	if o.Folder.Path() == "" {
		return nil, errors.New("missing folder")
	}
	if o.Agent == "" {
		return nil, errors.New("missing agent")
	}
	if o.MaxClaims == 0 {
		o.MaxClaims = 1
	}
	if o.Interval <= 0 {
		return nil, errors.New("missing interval")
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = 5 * time.Second
	}
	if o.Command == "" {
		o.Command = "mailroom"
	}
	o.Folder = o.Folder.WithWait(tracker.WaitOptions{Command: "mailroom serve"})
	return &Watcher{options: o, wake: make(chan struct{}, 1)}, nil
}

// ReconnectPolicy returns the policy for a local file: it retries quickly and never parks. The idle
// timeout covers two scans that wait for the lock.
func (w *Watcher) ReconnectPolicy() channel.ReconnectPolicy {
	return channel.ReconnectPolicy{
		InitialDelay: time.Second, MaxDelay: 5 * time.Second, ParkAfter: -1,
		IdleTimeout: 2*w.options.Interval + 2*w.options.LockTimeout,
	}
}

// Connect implements [channel.Connect].
func (w *Watcher) Connect(_ context.Context, l *channel.Host) (channel.Adapter, error) {
	return connection{w, l}, nil
}

// connection is a Watcher with the host of one adapter.
type connection struct {
	watcher *Watcher
	host    *channel.Host
}

// Receive implements [channel.Adapter].
func (c connection) Receive(ctx context.Context) error { return c.watcher.receive(ctx, c.host) }

// Maintain implements [channel.Adapter]. The adapter needs no maintenance.
func (c connection) Maintain(context.Context) error { return nil }

// Deliver implements [channel.Adapter].
func (c connection) Deliver(ctx context.Context, d channel.Delivery, s mailroom.Session) error {
	return c.watcher.Deliver(ctx, c.host, d, s)
}

// Close implements [channel.Adapter].
func (c connection) Close() error { return nil }

func (w *Watcher) receive(ctx context.Context, l *channel.Host) error {
	server, err := w.serverID(ctx, l)
	if err != nil {
		return err
	}
	r := &receiver{Watcher: w, host: l, server: server, runIDs: map[string]string{}, abandoned: map[string]bool{}}
	for {
		again, err := r.scan(ctx)
		if err != nil {
			return err
		}
		pause := w.options.Interval
		if slices.ContainsFunc(r.claims, claim.inProgress) {
			pause /= busyFactor // a run may end without a delivery, or after its last one
		}
		if again {
			pause = 0
		}
		select {
		case <-time.After(pause):
		case <-w.wake:
			r.wakeUp = true
		case <-ctx.Done():
			return nil
		}
	}
}

// cursorIdentity is the cursor under which the store keeps the server id. It does not contain the
// folder's path, because the folder may be moved.
const cursorIdentity = "tracker"

// serverID returns the id that marks claims of this channel and store in the shared file. It is
// created before the first claim and kept in the store, because only that store knows the results
// of the claims.
func (w *Watcher) serverID(ctx context.Context, l *channel.Host) (string, error) {
	raw, err := l.Position(ctx, cursorIdentity)
	if err != nil {
		return "", err
	}
	var name string
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &name); err != nil {
			return "", channel.Fatal(fmt.Errorf("decode the server id that this channel keeps in its cursor: %w", err))
		}
		return name, nil
	}
	name = rand.Text()
	return name, l.MoveCursor(ctx, cursor(name))
}

func cursor(server string) channel.Cursor {
	return channel.Cursor{Identity: cursorIdentity, Position: []byte(`"` + server + `"`)}
}

// update changes the file. It fails if the file stays locked for LockTimeout.
func (w *Watcher) update(ctx context.Context, l *channel.Host, change func(*tracker.Tracker) error) error {
	waiting, cancel := context.WithTimeout(ctx, w.options.LockTimeout)
	defer cancel()
	var found []string
	_, err := w.options.Folder.Update(waiting, func(t *tracker.Tracker) error {
		found = findingsOf(w.options.Folder.File(), t, nil) // the next read reports lines that cannot be read
		return change(t)
	})
	w.findings.report(l, found, false)
	if locked, ok := errors.AsType[*tracker.LockedError](err); ok && ctx.Err() == nil {
		return fmt.Errorf("%s is locked by another process (waited %s): %s", w.options.Folder.File(), w.options.LockTimeout,
			locked.Holder)
	}
	return err
}

// agentOf returns the agent for an issue: the assignee, else the one named by a label, else the
// default. It returns "" if the assignee is not an agent of this channel.
func (w *Watcher) agentOf(it *tracker.Issue) string {
	all := append([]string{w.options.Agent}, w.options.Agents...)
	if it.Assignee != "" {
		if slices.Contains(all, it.Assignee) {
			return it.Assignee
		}
		return ""
	}
	for _, name := range all {
		if slices.Contains(it.Labels, labelAgent+name) {
			return name
		}
	}
	return w.options.Agent
}

// labelAgent is the prefix of labels that select an agent.
const labelAgent = "agent:"

// accepts reports whether the channel handles an issue's type and assignee.
func (w *Watcher) accepts(it *tracker.Issue) bool {
	return w.agentOf(it) != "" && (len(w.options.Types) == 0 || slices.Contains(w.options.Types, it.Type))
}

// requestScan triggers a scan without waiting for the interval.
func (w *Watcher) requestScan() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// writeTime returns the current time, or after if that is later, so that no write is older than the issue's last
// change.
func writeTime(after time.Time) time.Time {
	now := time.Now().UTC().Round(0)
	if now.Before(after) {
		return after
	}
	return now
}

// needsConclusion reports whether the file does not yet record that the run has ended.
func needsConclusion(run *mailroom.Run, m marker) bool {
	return run != nil && run.Status.Finished() && run.FinishedAt.After(m.Concluded)
}
