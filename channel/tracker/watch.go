// Package tracker gives the issues of a tracker to agents. What is ready is
// claimed in the file and submitted to a thread of its own; what the run says
// becomes comments, and its end closes the issue or blocks it.
//
// The file says what is claimed, and the ledger what became of it. A claim is one
// write of the file, and it carries the key of the submit that follows; so an
// issue whose key the ledger does not know is submitted, whatever has happened in
// between, and one whose run has ended is concluded. That is what each look does:
// there is no list of claims beside, and nothing that runs only after a crash.
package tracker

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
	"mailroom/internal/projectdir"
	issues "mailroom/tracker"
)

// Kind is what a channel of this package is called in lists.
const Kind = "tracker"

// Options of a tracker. Folder and Agent are needed.
type Options struct {
	Folder issues.Folder
	Agent  string // that issues are given to
	// Agents are others that an issue may be given to: by the label agent:NAME,
	// or because it is assigned to one.
	Agents    []string
	Labels    []string // an issue needs all of these
	Types     []string // it is of one of these; none: of any
	MaxClaims int      // in progress at once; 0 is 1
	KeepOpen  bool     // what is done stays in progress, to be closed by a person
	// Interval is between two looks at the file; 0 is DefaultInterval.
	Interval    time.Duration
	LockTimeout time.Duration // with others who write the file; 0 is 5 s
	// Project is where issues are reserved while they are in progress, and where those
	// that others have reserved are left to them; "": nowhere. It needs Projects.
	Project  string
	Projects Projects
	// Command is how a person calls this program, to answer a question; "" is
	// "mailroom".
	Command string
}

// busyFactor is how many times as often it is looked while agents work.
const busyFactor = 4

// DefaultInterval is how often the file is looked at.
const DefaultInterval = time.Second

// DefaultTypes are those that are work by themselves. An epic is the sum of its
// children.
func DefaultTypes() []string { return []string{"bug", "feature", "task", "chore"} }

// Watcher is one tracker. It is a file, so there is nothing to connect to.
type Watcher struct {
	options Options
	wake    chan struct{} // one slot: there may be something to do
}

// New makes the watch of a tracker. It does not look at it yet.
func New(o Options) (*Watcher, error) {
	if o.Folder.Path() == "" {
		return nil, errors.New("no folder is named")
	}
	if o.Agent == "" {
		return nil, errors.New("no agent is named")
	}
	if o.MaxClaims == 0 {
		o.MaxClaims = 1
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = 5 * time.Second
	}
	if o.Command == "" {
		o.Command = "mailroom"
	}
	o.Folder = o.Folder.WithWait(projectdir.Wait{Command: "mailroom serve"})
	return &Watcher{options: o, wake: make(chan struct{}, 1)}, nil
}

// ReconnectPolicy is how a tracker is tried: it is a file of this machine, and nobody minds a
// look. One proves that it can be read as long as the next may take, twice.
func (w *Watcher) ReconnectPolicy() channel.ReconnectPolicy {
	return channel.ReconnectPolicy{
		InitialDelay: time.Second, MaxDelay: 5 * time.Second, ParkAfter: -1, IdleTimeout: 2*w.options.Interval + 2*w.options.LockTimeout,
	}
}

// Connect is [channel.Connect].
func (w *Watcher) Connect(_ context.Context, l *channel.Host) (channel.Adapter, error) {
	return connection{w, l}, nil
}

// connection is a Watch with the link of one adapter.
type connection struct {
	watcher *Watcher
	host    *channel.Host
}

// Receive implements [channel.Adapter].
func (c connection) Receive(ctx context.Context) error { return c.watcher.receive(ctx, c.host) }

// Maintain implements [channel.Adapter]: there is nothing to tend.
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
			pause /= busyFactor // a run may end without a word, or after its last one
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

// cursorIdentity is under which the name of the store is kept, beside the channel's
// name. It does not depend on where the folder is: that may be moved.
const cursorIdentity = "tracker"

// serverID is by which name claims of this channel in this store are known in a
// file that others claim in too. It is made before the first claim, and is kept
// in the store: who has it knows what became of the claims.
func (w *Watcher) serverID(ctx context.Context, l *channel.Host) (string, error) {
	raw, err := l.Position(ctx, cursorIdentity)
	if err != nil {
		return "", err
	}
	var name string
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &name); err != nil {
			return "", channel.Fatal(fmt.Errorf("read the name of the store: %w", err))
		}
		return name, nil
	}
	name = rand.Text()
	return name, l.MoveCursor(ctx, cursor(name))
}

func cursor(server string) channel.Cursor {
	return channel.Cursor{Identity: cursorIdentity, Position: []byte(`"` + server + `"`)}
}

// update changes the file, and gives up while others keep it locked.
func (w *Watcher) update(ctx context.Context, l *channel.Host, change func(*issues.Tracker) error) error {
	waiting, cancel := context.WithTimeout(ctx, w.options.LockTimeout)
	defer cancel()
	strays, err := w.options.Folder.Update(waiting, change)
	if len(strays) > 0 {
		l.ReportError(fmt.Errorf("%d lines of %s were no issues and were put aside: %w", len(strays), w.options.Folder.File(), strays[0].Err))
	}
	if locked, ok := errors.AsType[*projectdir.LockedError](err); ok && ctx.Err() == nil {
		return fmt.Errorf("%s was kept locked for %s by %s", w.options.Folder.File(), w.options.LockTimeout, locked.Holder)
	}
	return err
}

// agentOf is who is given an issue: whom it is assigned to, else whom a label
// names, else the usual one. "" if it is for nobody here.
func (w *Watcher) agentOf(it *issues.Issue) string {
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

// labelAgent begins a label that chooses an agent.
const labelAgent = "agent:"

// accepts reports whether issues of this kind are given to agents.
func (w *Watcher) accepts(it *issues.Issue) bool {
	return w.agentOf(it) != "" && (len(w.options.Types) == 0 || slices.Contains(w.options.Types, it.Type))
}

// requestScan has the file looked at soon. It is a hint: a look comes anyway.
func (w *Watcher) requestScan() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// writeTime is now as a file keeps it, and not before what it follows.
func writeTime(after time.Time) time.Time {
	now := time.Now().UTC().Round(0)
	if now.Before(after) {
		return after
	}
	return now
}

// needsConclusion reports whether a run has ended with nobody told of it yet.
func needsConclusion(run *mailroom.Run, m marker) bool {
	return run != nil && run.Status.Finished() && run.FinishedAt.After(m.Concluded)
}
