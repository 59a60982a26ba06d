package room

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom/entry"
)

// model checks the actions of a State against the inputs so far.
type model struct {
	state    *State
	now      time.Time
	gone     bool
	messages int // written so far
	ids      int // of messages at the platform

	writing  map[string]string    // message by run
	sent     map[string]string    // id of the present preview, by run
	replaced map[string]bool      // ids whose delivery has started, or whose room is gone
	requests map[string]int       // by message
	typed    map[string]time.Time // by thread
	seen     map[string]time.Time // when a ticket was first seen decided
	redraws  map[string]int       // by ticket
}

var (
	threads = []string{"t1", "t2"}
	tickets = []string{"k1", "k2", "k3"}
)

// runOf returns the run of a thread.
func runOf(thread string) string { return "run of " + thread }

func (m *model) follow(t *rapid.T) {
	m.state.Follow(rapid.SampledFrom(threads).Draw(t, "thread"), 1)
}

func (m *model) unfollow(t *rapid.T) {
	thread := rapid.SampledFrom(threads).Draw(t, "thread")
	m.state.Unfollow(thread)
	delete(m.typed, thread)
}

func (m *model) write(t *rapid.T) {
	thread := rapid.SampledFrom(threads).Draw(t, "thread")
	run := runOf(thread)
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		m.state.Apply(thread, item(rapid.SampledFrom([]string{entry.KindStarted, entry.KindResumed}).Draw(t, "kind"), run))
	case 1:
		m.state.Apply(thread,
			item(rapid.SampledFrom([]string{entry.KindMessage, entry.KindCompleted, entry.KindWaiting}).Draw(t, "kind"), run))
		m.messages++
		m.writing[run] = fmt.Sprint("m", m.messages)
	default:
		if m.writing[run] == "" {
			m.messages++
			m.writing[run] = fmt.Sprint("m", m.messages)
		}
		m.state.Apply(thread, delta(run, m.writing[run], rapid.SampledFrom([]int{0, 0, 0, 0, 1, 5, 99}).Draw(t, "offset"),
			rapid.StringMatching(`[a-z ]{0,9}|[^ ]{40}`).Draw(t, "text")))
	}
}

func (m *model) tick(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 40_000).Draw(t, "ms")) * time.Millisecond)
	thread := rapid.SampledFrom(threads).Draw(t, "thread")
	_, followed := m.state.Followed()[thread]
	in := Tick{Now: m.now, Caps: testCaps(), Previews: mostly(t, "previews"), Free: mostly(t, "free")}
	a := m.state.Tick(thread, in)
	if a.Kind != ActionNone && (m.gone || !followed) {
		t.Fatalf("%+v, although the room is gone (%v) or nothing is followed (%v)", a, m.gone, !followed)
	}
	switch a.Kind {
	case ActionTyping:
		if since := m.now.Sub(m.typed[thread]); since < typingInterval {
			t.Fatalf("typing again after %s", since)
		}
		m.typed[thread] = m.now
	case ActionPreview:
		if m.requests[a.Message]++; m.requests[a.Message] > MaxPreviewRequests || a.Try > MaxPreviewRequests || !in.Free ||
			!in.Previews {
			t.Fatalf("request %d: %+v", m.requests[a.Message], a)
		}
		if rapid.IntRange(0, 4).Draw(t, "sent") == 0 {
			m.ids++
			m.sent[a.Run] = fmt.Sprint("id", m.ids)
			m.state.PreviewSent(a.Run, m.sent[a.Run], m.state.PreviewText(a.Run, in.Caps))
		}
	case ActionEdit:
		if m.replaced[a.ID] || m.sent[a.Run] != a.ID || !m.state.MayEdit(a.Run, a.ID) ||
			in.Caps.Units(a.Text) > in.Caps.MaxUnits || !in.Previews {
			t.Fatalf("%+v, but the preview of the run is %q", a, m.sent[a.Run])
		}
		m.state.Edited(a.Run, a.ID, a.Text)
		if again := m.state.Tick(thread, in); again.Kind != ActionNone {
			t.Fatalf("%+v directly after %+v", again, a)
		}
	}
}

// mostly draws true in three of four cases.
func mostly(t *rapid.T, what string) bool { return rapid.IntRange(0, 3).Draw(t, what) > 0 }

// deliver starts the delivery of a run's reply.
func (m *model) deliver(t *rapid.T) {
	run := runOf(rapid.SampledFrom(threads).Draw(t, "thread"))
	m.state.DropPreview(run)
	m.replace(run)
}

func (m *model) replace(run string) {
	if id := m.sent[run]; id != "" {
		m.replaced[id] = true
		delete(m.sent, run)
	}
}

// mayNotEdit checks that no message is edited that is not the present preview of its run.
func (m *model) mayNotEdit(t *rapid.T) {
	for _, thread := range threads {
		for i := range m.ids + 1 {
			if id := fmt.Sprint("id", i); m.sent[runOf(thread)] != id && m.state.MayEdit(runOf(thread), id) {
				t.Fatalf("%s can be edited, but the preview of the run is %q", id, m.sent[runOf(thread)])
			}
		}
	}
}

func (m *model) setGone(t *rapid.T) {
	m.gone = !mostly(t, "back")
	m.state.SetGone(m.gone)
	if m.gone {
		for _, thread := range threads {
			m.replace(runOf(thread))
		}
		clear(m.seen)
		clear(m.redraws)
	}
}

func (m *model) ask(t *rapid.T) {
	m.state.Ask(rapid.SampledFrom(tickets).Draw(t, "ticket"), threads[0])
}

func (m *model) check(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
	decided, saved := map[string]bool{}, Saved{}
	for _, k := range tickets {
		decided[k] = rapid.IntRange(0, 9).Draw(t, "decided") > 0
		if rapid.IntRange(0, 9).Draw(t, "shown") > 0 {
			saved.AddQuestion(Asked{Ticket: k, ID: k})
		}
	}
	due, wait := m.state.Check(decided, saved, m.now)
	if wait <= 0 || wait > CheckInterval {
		t.Fatalf("the next check is in %s", wait)
	}
	for _, a := range due {
		first, seen := m.seen[a.Ticket]
		m.redraws[a.Ticket]++
		if m.gone || a.Kind != ActionRedraw || !decided[a.Ticket] || !saved.IsShown(a.Ticket) || !seen ||
			m.now.Sub(first) < redrawGrace ||
			a.Try != m.redraws[a.Ticket] || a.Try > maxRedraws {
			t.Fatalf("%+v, %d requests, decided %v, shown %+v", a, m.redraws[a.Ticket], decided, saved.Asked)
		}
	}
	watched := m.state.Questions()
	for _, k := range tickets {
		switch _, seen := m.seen[k]; {
		case !slices.Contains(watched, k):
			delete(m.seen, k)
			delete(m.redraws, k)
		case decided[k] && !seen:
			m.seen[k] = m.now
		}
	}
}

// TestARoomIsShownByItsRules plays random inputs. It checks that the state edits no preview after its delivery began,
// bounds requests and redraws, and shows nothing in a room that is gone.
func TestARoomIsShownByItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			state: New(), now: time.Unix(1_800_000_000, 0), writing: map[string]string{}, sent: map[string]string{},
			replaced: map[string]bool{},
			requests: map[string]int{}, typed: map[string]time.Time{}, seen: map[string]time.Time{}, redraws: map[string]int{},
		}
		for _, thread := range threads {
			m.state.Follow(thread, 1)
			m.state.Apply(thread, item(entry.KindStarted, runOf(thread)))
			m.state.Apply(thread, delta(runOf(thread), thread, 0, "hello"))
			m.writing[runOf(thread)] = thread
		}
		t.Repeat(map[string]func(*rapid.T){
			"follow": m.follow, "unfollow": m.unfollow, "write": m.write, "write more": m.write, "tick": m.tick,
			"tick again": m.tick,
			"tick 3":     m.tick, "tick 4": m.tick, "check 2": m.check, "check 3": m.check, "": m.mayNotEdit,
			"deliver": m.deliver, "gone": m.setGone, "ask": m.ask, "check": m.check,
		})
		for _, thread := range threads {
			m.state.Unfollow(thread)
			m.state.DropPreview(runOf(thread))
		}
		if m.state.SetGone(true); !m.state.IsIdle() {
			t.Fatalf("state is not empty at the end: %+v", m.state)
		}
	})
}
