package alert

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/channel"
	"mailroom/entry"
	"mailroom/internal/digest"
	"mailroom/internal/recovery"
	"mailroom/internal/thread"
	"mailroom/store"
)

// Ledger is the part of a ledger that a follower uses.
type Ledger interface {
	View(ctx context.Context, f func(store.Reader) error) error
	// SubmitAll submits to several threads and moves a cursor, all in one transaction or nothing.
	SubmitAll(ctx context.Context, all []thread.Submit, c store.Cursor) error
}

// Follower tells what rules say. Only one follower may work on a store.
type Follower struct {
	Ledger Ledger
	Rules  []Rule // of the configuration; others are stored
	// Targets returns the targets that an owner's rules may use.
	Targets func(owner string) []string
	Log     *slog.Logger

	last *followed // of the last step; nil: it is read from the store
}

const (
	followInterval = time.Second
	followRetry    = 10 * time.Second
	// followEntries and followBytes bound what is read of the log at a time.
	followEntries = 1000
	followBytes   = 1 << 20
	// saveEvery is how often a position is stored without which nothing would be told twice.
	saveEvery = time.Minute
)

// Cursor of the follower: where it is in the log of all threads, and what it remembers.
const (
	cursorChannel  = "alert"
	cursorIdentity = "log"
)

// position is the position of the cursor.
type position struct {
	Order  string          `json:"order"` // see [store.AllEntries]
	At     store.Position  `json:"at"`
	Paused map[string]bool `json:"paused,omitempty"` // agents whose pause was taken
	State  State           `json:"state"`
}

// Follow tells what happens until ctx is done.
func (f *Follower) Follow(ctx context.Context) {
	f.last = nil // another server may have followed
	for ctx.Err() == nil {
		var more bool
		err := recovery.Call(f.Log, "alerts", func() (err error) {
			more, err = f.Step(ctx, time.Now())
			return err
		})
		pause := followInterval
		switch {
		case err != nil && ctx.Err() == nil:
			f.Log.Warn("alerts not told; retrying", "error", err, "after", followRetry)
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

// Begin stores the end of the log as the position of a follower without one. A server calls it before it takes
// requests, so that Follow tells all that happens from then on, however late it is called first. l is not
// restricted to the server that follows: several servers may begin.
func (f *Follower) Begin(ctx context.Context, l Ledger) error {
	begun := &followed{}
	err := l.View(ctx, func(r store.Reader) (err error) {
		if begun, err = readPosition(r); err != nil || begun.stored {
			return err
		}
		begun.State = State{}
		_, _, err = readEvents(r, &begun.position, false)
		return err
	})
	if err != nil || begun.stored {
		return err
	}
	return save(ctx, l, nil, begun.position)
}

// Step reads the next part of the log and tells what is due at now. It reports whether there is more to
// read. It stores its position if it told something or remembers something else, and once a minute: what it
// reads again after a restart has no effect.
func (f *Follower) Step(ctx context.Context, now time.Time) (more bool, err error) {
	before := f.last
	f.last = nil // until this step is done
	var events []Event
	var rules []Rule
	var at position
	err = f.Ledger.View(ctx, func(r store.Reader) (err error) {
		if before == nil {
			if before, err = readPosition(r); err != nil {
				return err
			}
		}
		stored, err := storedRules(r, f.Targets)
		if err != nil {
			return err
		}
		rules = append(slices.Clone(f.Rules), stored...)
		at = before.position
		events, more, err = readEvents(r, &at, before.stored)
		return err
	})
	if err != nil {
		return false, err
	}
	if at.State == nil {
		at.State = State{}
	}
	told := at.State.Step(rules, events, now)
	after := &followed{position: at, stored: before.stored, savedAt: before.savedAt}
	if after.remembers, err = json.Marshal(at.State); err != nil {
		return false, fmt.Errorf("encode the state of alerts: %w", err)
	}
	same := string(before.remembers) == string(after.remembers) && maps.Equal(before.Paused, at.Paused)
	if before.stored && len(told) == 0 && same && (at.At == before.At || now.Sub(before.savedAt) < saveEvery) {
		f.last = after
		return more, nil
	}
	if err := save(ctx, f.Ledger, told, at); err != nil {
		return false, err
	}
	after.stored, after.savedAt = true, now
	f.last = after
	return more, nil
}

// save submits alerts and stores the position up to which they were told.
func save(ctx context.Context, l Ledger, told []Told, at position) (err error) {
	c := store.Cursor{Channel: cursorChannel, Identity: cursorIdentity}
	if c.Position, err = json.Marshal(at); err != nil {
		return fmt.Errorf("encode the position of alerts: %w", err)
	}
	return l.SubmitAll(ctx, submits(told), c)
}

// followed is where a follower is.
type followed struct {
	position
	remembers []byte // the State as JSON
	stored    bool   // a position was stored, this one or an earlier one
	savedAt   time.Time
}

// submits returns the submits of alerts.
func submits(told []Told) (all []thread.Submit) {
	for _, t := range told {
		id, owner := ThreadID(t.To), auth.Operator
		if t.Owner != "" && t.Owner != auth.Operator {
			id, owner = SubscriberID(t.To, t.Owner), t.Owner
		}
		all = append(all, thread.Submit{
			Owner: owner, Thread: id, Run: digest.ID(id, t.Key), Agent: AgentName(t.To), Key: t.Key, NotBefore: t.NotBefore,
			Messages: []thread.NewMessage{{Role: mailroom.RoleSystem, Parts: t.Alert.Parts()}},
			Origin:   mailroom.Origin{Via: originVia, Sender: originVia},
		})
	}
	return all
}

// Submitter is the part of a ledger that [Test] uses.
type Submitter interface {
	Submit(ctx context.Context, in thread.Submit) (store.Submitted, error)
}

// Test makes the agent of a target send a test message. It returns the run, whose end says whether the
// target took it.
func Test(ctx context.Context, l Submitter, target string, now time.Time) (run string, err error) {
	test := Alert{Kind: KindTest, Text: TextNone, At: now.UTC(), Count: 1}
	in := submits([]Told{{Alert: test, To: target, Key: digest.ID("alert test", rand.Text())}})[0]
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
// of another store, begins at the end of the log: it does not tell the past.
func readEvents(r store.Reader, at *position, found bool) (events []Event, more bool, err error) {
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
	if events, err = logged(r, entries); err != nil {
		return nil, false, err
	}
	paused, err := pauses(r, at)
	if !found {
		paused = nil
	}
	return append(events, paused...), more, err
}

// pauses returns the pauses that were not taken yet.
func pauses(r store.Reader, at *position) (events []Event, err error) {
	rows, err := r.Agents()
	if err != nil {
		return nil, err
	}
	now := map[string]bool{}
	for _, p := range rows.Pauses {
		if now[p.Agent] = true; !at.Paused[p.Agent] && !IsAgent(p.Agent) {
			words := "by " + p.By
			if p.Reason != "" {
				words += ": " + p.Reason
			}
			events = append(events, Event{Kind: KindPaused, At: p.At, Subject: p.Agent, Agent: p.Agent, Words: words})
		}
	}
	at.Paused = now
	return events, nil
}

// logged returns the events of entries. Alerts themselves, and what they send to chats, are none.
func logged(r store.Reader, entries []mailroom.Entry) (events []Event, err error) {
	var runs []string
	for _, e := range entries {
		if e.Kind == entry.KindTicketOpened || e.Kind == entry.KindFailed {
			runs = append(runs, e.Run)
		}
	}
	rows, err := runsByID(r, runs)
	if err != nil {
		return nil, err
	}
	var parents []string
	for _, run := range rows {
		if run.Parent != "" {
			parents = append(parents, run.Parent)
		}
	}
	above, err := runsByID(r, parents)
	if err != nil {
		return nil, err
	}
	threads, err := threadsOf(r, rows)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		var found Event
		var ok bool
		switch run := rows[e.Run]; {
		case e.Kind == entry.KindChannel:
			found, ok, err = channelEvent(e)
		case run == nil || IsAgent(run.Agent) || isChatAlert(run) || above[run.Parent] != nil && IsAgent(above[run.Parent].Agent):
		case e.Kind == entry.KindTicketOpened:
			found, ok, err = ticketEvent(e, run)
		case e.Kind == entry.KindFailed && run.Status == mailroom.StatusFailed:
			found, ok, err = failedEvent(e, run)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			if t := threads[e.Thread]; t != nil {
				found.Owner, found.DeliverTo = t.Owner, t.DeliverTo
			}
			events = append(events, found)
		}
	}
	return events, nil
}

// LabelAlert labels the run of a channel that sends an alert to a chat. Its value is the target.
const LabelAlert = "alert"

// isChatAlert reports whether a run sends an alert to a chat. A user cannot set the origin of a run.
func isChatAlert(run *mailroom.Run) bool {
	return run.Metadata[LabelAlert] != "" && strings.HasPrefix(run.Origin.Via, channel.Via(""))
}

// threadsOf returns the threads of runs, by id.
func threadsOf(r store.Reader, rows map[string]*mailroom.Run) (map[string]*mailroom.Thread, error) {
	out := map[string]*mailroom.Thread{}
	var ids []string
	for _, run := range rows {
		ids = append(ids, run.Thread)
	}
	if len(ids) == 0 {
		return out, nil
	}
	slices.Sort(ids)
	threads, err := r.Threads(store.ThreadQuery{IDs: slices.Compact(ids)})
	for _, t := range threads {
		out[t.ID] = t
	}
	return out, err
}

func runsByID(r store.Reader, ids []string) (map[string]*mailroom.Run, error) {
	out := map[string]*mailroom.Run{}
	if len(ids) == 0 {
		return out, nil
	}
	slices.Sort(ids)
	rows, err := r.Runs(store.RunQuery{IDs: slices.Compact(ids)})
	for _, run := range rows {
		out[run.ID] = run
	}
	return out, err
}

func ticketEvent(e mailroom.Entry, run *mailroom.Run) (Event, bool, error) {
	var k mailroom.Ticket
	err := e.Decode(&k)
	asked := k.Kind == mailroom.TicketApproval || k.Kind == mailroom.TicketInput
	return Event{Kind: KindTicket, At: e.At, Subject: k.ID, Agent: run.Agent, Thread: e.Thread, Run: e.Run}, asked, err
}

func failedEvent(e mailroom.Entry, run *mailroom.Run) (Event, bool, error) {
	var body entry.RunFailed
	err := e.Decode(&body)
	return Event{
		Kind: KindFailed, At: e.At, Subject: run.ErrorGroup, Agent: run.Agent, Thread: e.Thread, Run: e.Run, Words: body.Error.Message,
	}, true, err
}

func channelEvent(e mailroom.Entry) (Event, bool, error) {
	var c channel.Change
	err := e.Decode(&c)
	up := c.State == channel.ConditionConnected || c.State == channel.ConditionStandby
	return Event{Kind: KindChannel, At: e.At, Subject: c.Channel, Ended: up, Words: c.Reason}, c.State != channel.ConditionStarting, err
}
