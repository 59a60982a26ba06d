package alert

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"mailroom"
	"mailroom/internal/digest"
	"mailroom/internal/recovery"
	"mailroom/internal/reserved"
	"mailroom/store"
	"mailroom/thread"
)

// Ledger is the part of a ledger that a follower and the agents of alerts use. The agents only read it.
type Ledger interface {
	View(ctx context.Context, f func(store.Reader) error) error
	// SubmitAll submits to several threads and moves a cursor, all in one transaction or nothing.
	SubmitAll(ctx context.Context, all []thread.Submit, c store.Cursor) error
}

// Follower submits the alerts of rules. Only one follower may work on a store.
type Follower struct {
	Ledger Ledger
	Rules  []Rule // rules of the configuration; the other rules are stored
	// Targets are the targets of the server.
	Targets Allowed
	// Channels are the channels of the server. The follower drops the state of all other channels. If Channels is
	// nil, they are unknown, and it drops none.
	Channels []string
	Log      *slog.Logger

	// Owned by the goroutine that follows.
	last   *followed // state after the last step; nil: read it from the store
	stored ruleset
}

const (
	followInterval = time.Second
	followRetry    = 10 * time.Second
	// followEntries and followBytes bound how much of the log the follower reads at a time.
	followEntries = 1000
	followBytes   = 1 << 20
	// saveEvery is how often the follower stores a position although no alert depends on it.
	saveEvery = time.Minute
)

// Cursor of the follower: its position in the log of all threads, and its state.
const (
	cursorChannel  = "alert"
	cursorIdentity = "log"
)

// position is the position of the cursor.
type position struct {
	Order  string          `json:"order"` // order of the store's entries; see [store.AllEntries]
	At     store.Position  `json:"at"`
	Paused map[string]bool `json:"paused,omitempty"` // agents whose pause was handled
	State  State           `json:"state"`
}

// Follow submits alerts until ctx is done.
func (f *Follower) Follow(ctx context.Context) {
	f.last = nil // another server may have followed the entries since
	for ctx.Err() == nil {
		var more bool
		err := recovery.Call(f.Log, "alerts", func() (err error) {
			more, err = f.Step(ctx, time.Now())
			return err
		})
		pause := followInterval
		switch {
		case err != nil && ctx.Err() == nil:
			f.Log.Warn("alerts not submitted; retrying", "error", err, "after", followRetry)
			pause = followRetry
		case more:
			pause = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// Begin stores the end of the log as the position of a follower without one. A server calls it before it accepts
// requests, so that Follow handles all later events, however late its first call is. Several servers may call Begin,
// so l need not be fenced to the server that follows.
func (f *Follower) Begin(ctx context.Context, l Ledger) error {
	begun := &followed{}
	err := l.View(ctx, func(r store.Reader) (err error) {
		if begun, err = readPosition(r); err != nil || begun.stored {
			return err
		}
		begun.State = State{}
		_, _, err = f.readEvents(r, &begun.position, false, time.Now())
		return err
	})
	if err != nil || begun.stored {
		return err
	}
	return save(ctx, l, nil, begun.position)
}

// Step reads the next part of the log and submits the alerts that are due at now. It reports whether there is more
// to read. It stores its position with alerts, with a changed state, and once a minute: entries that it reads again
// after a restart have no effect.
func (f *Follower) Step(ctx context.Context, now time.Time) (more bool, err error) {
	before := f.last
	f.last = nil // not valid until this step is done
	var events []Event
	var rules []Rule
	var at position
	err = f.Ledger.View(ctx, func(r store.Reader) (err error) {
		if before == nil {
			if before, err = readPosition(r); err != nil {
				return err
			}
		}
		stored, err := f.stored.read(r, f.Targets, now)
		if err != nil {
			return err
		}
		rules = append(slices.Clone(f.Rules), stored...)
		at = before.position
		if err := at.State.hold(r, rules, now); err != nil {
			return err
		}
		events, more, err = f.readEvents(r, &at, before.stored, now)
		return err
	})
	if err != nil {
		return false, err
	}
	if at.State == nil {
		at.State = State{}
	}
	at.State.forgetChannels(f.Channels)
	notifications := at.State.Step(rules, events, now)
	if notifications, err = f.reachable(ctx, notifications); err != nil {
		return false, err
	}
	after := &followed{position: at, stored: before.stored, savedAt: before.savedAt}
	if after.remembers, err = json.Marshal(at.State); err != nil {
		return false, fmt.Errorf("encode the state of alerts: %w", err)
	}
	same := string(before.remembers) == string(after.remembers) && maps.Equal(before.Paused, at.Paused)
	if before.stored && len(notifications) == 0 && same && (at.At == before.At || now.Sub(before.savedAt) < saveEvery) {
		f.last = after
		return more, nil
	}
	if err := save(ctx, f.Ledger, notifications, at); err != nil {
		return false, err
	}
	after.stored, after.savedAt = true, now
	f.last = after
	return more, nil
}

// save submits alerts and stores the position up to which the log is handled.
func save(ctx context.Context, l Ledger, notifications []Notification, at position) (err error) {
	c := store.Cursor{Channel: cursorChannel, Identity: cursorIdentity}
	if c.Position, err = json.Marshal(at); err != nil {
		return fmt.Errorf("encode the position of alerts: %w", err)
	}
	return l.SubmitAll(ctx, submitsOf(notifications), c)
}

// followed is the progress of a follower after a step.
type followed struct {
	position
	remembers []byte // the State as JSON
	stored    bool   // a position was stored, this one or an earlier one
	savedAt   time.Time
}

// submitsOf returns the submits that start the runs of notifications.
func submitsOf(notifications []Notification) (all []thread.Submit) {
	for _, t := range notifications {
		id := cmp.Or(t.Place, ThreadID(t.To))
		owner := reserved.Owner(id)
		all = append(all, thread.Submit{
			Owner: owner, Thread: id, Run: runOf(&t), Agent: AgentName(t.To), Key: t.Key, NotBefore: t.NotBefore,
			Messages: []thread.NewMessage{{Role: mailroom.RoleSystem, Parts: t.Alert.Parts()}},
			Origin:   mailroom.Origin{Via: originVia, Sender: originVia},
		})
	}
	return all
}

// runOf returns the id of the run of a notification.
func runOf(t *Notification) string { return digest.ID(cmp.Or(t.Place, ThreadID(t.To)), t.Key) }

// Submitter is the part of a ledger that [Test] uses.
type Submitter interface {
	Submit(ctx context.Context, in thread.Submit) (store.Submitted, error)
}

// Test makes the agent of a target send a test message. It returns the run, whose end says whether the
// target took it.
func Test(ctx context.Context, l Submitter, target string, now time.Time) (run string, err error) {
	test := Alert{Kind: KindTest, Text: TextNone, At: now.UTC(), Count: 1}
	in := submitsOf([]Notification{{Alert: test, To: target, Key: digest.ID("alert test", rand.Text())}})[0]
	in.NoRetry = true
	out, err := l.Submit(ctx, in)
	return out.Run, err
}

func readPosition(r store.Reader) (*followed, error) {
	rows, err := r.Cursors(store.CursorQuery{Channel: cursorChannel, Identities: []string{cursorIdentity}})
	if err != nil || len(rows) == 0 {
		return &followed{}, err
	}
	f := &followed{stored: true, savedAt: rows[0].MovedAt}
	if err := json.Unmarshal(rows[0].Position, &f.position); err != nil {
		return nil, fmt.Errorf("decode the position of alerts: %w", err)
	}
	if f.remembers, err = json.Marshal(f.State); err != nil {
		return nil, fmt.Errorf("encode the state of alerts: %w", err)
	}
	return f, nil
}

// readEvents reads the events behind a position and moves it. A follower without a position, or with one
// of another store, begins at the end of the log: it sends no alerts about the past.
func (f *Follower) readEvents(
	r store.Reader, at *position, found bool, now time.Time,
) (events []Event, more bool, err error) {
	all := store.AllEntries{After: at.At, None: !found}
	entries, err := r.Entries(store.EntryQuery{All: &all, Limit: followEntries, Bytes: followBytes})
	if err != nil {
		return nil, false, err
	}
	if found && at.Order != all.Order {
		all = store.AllEntries{None: true}
		if entries, err = r.Entries(store.EntryQuery{All: &all}); err != nil {
			return nil, false, err
		}
	}
	at.Order, at.At = all.Order, all.End
	if n := len(entries); n > 0 {
		at.At, more = all.Positions[n-1], true
	}
	logged, err := readLogged(r, entries, at.State.remembersOutage(), f.Targets, now)
	if err != nil {
		return nil, false, err
	}
	if events, err = logged.events(entries); err != nil {
		return nil, false, err
	}
	paused, err := pauses(r, at)
	if !found {
		paused = nil
	}
	// The pause says why the runs of the agent wait. Its outage would be a second alert for the same fault.
	events = slices.DeleteFunc(events, func(e Event) bool {
		return e.Kind == KindOutage && !e.Ended && at.Paused[e.Agent]
	})
	return append(events, paused...), more, err
}

// pauses returns events for the pauses that are new since the last step.
func pauses(r store.Reader, at *position) (events []Event, err error) {
	rows, err := r.Agents()
	if err != nil {
		return nil, err
	}
	now := map[string]bool{}
	for _, p := range rows.Pauses {
		if now[p.Agent] = true; at.Paused[p.Agent] || IsAgent(p.Agent) {
			continue
		}
		words := "by " + p.Pauser()
		if p.Reason != "" {
			words += ": " + p.Reason
		}
		agent, worker := p.Of()
		host, err := hostOf(r, worker)
		if err != nil {
			return nil, err
		}
		events = append(events, Event{Kind: KindPaused, At: p.At, Subject: p.Agent, Agent: agent, Host: host,
			Words: words})
	}
	at.Paused = now
	return events, nil
}

// hostOf returns the machine of a worker, or its id if that is unknown; "" for no worker.
func hostOf(r store.Reader, worker string) (string, error) {
	if worker == "" {
		return "", nil
	}
	found, err := r.Workers(worker)
	for _, w := range found {
		if w.Host != "" {
			return w.Host, err
		}
	}
	return worker, err
}

// reachable drops the targets of notifications whose threads the server does not own: a token created such a thread
// before its id was reserved. If no target is left, it returns an error; the follower retries and loses no event.
func (f *Follower) reachable(ctx context.Context, notifications []Notification) ([]Notification, error) {
	if len(notifications) == 0 {
		return nil, nil
	}
	var ids []string
	for _, t := range notifications {
		for _, to := range append([]string{t.To}, t.Alert.Then...) {
			ids = append(ids, ThreadID(to))
		}
	}
	var threads map[string]*mailroom.Thread
	err := f.Ledger.View(ctx, func(r store.Reader) (err error) {
		threads, err = threadsByID(r, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range notifications {
		t := &notifications[i]
		if t.Place != "" { // the thread belongs to the owner of the rule
			continue
		}
		all := append([]string{t.To}, t.Alert.Then...)
		own := slices.DeleteFunc(slices.Clone(all), func(to string) bool { return isForeign(threads[ThreadID(to)]) })
		if len(own) == 0 {
			return nil, fmt.Errorf("thread %s is the server's, but token %s owns it: delete it with `mailroom threads delete`",
				ThreadID(t.To), threads[ThreadID(t.To)].Owner)
		}
		t.To, t.Alert.Then = own[0], own[1:]
	}
	return notifications, nil
}

// isForeign reports whether a thread of the server has another owner; t may be nil.
func isForeign(t *mailroom.Thread) bool { return t != nil && t.Owner != reserved.Owner(t.ID) }
