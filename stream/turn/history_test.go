package turn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"mailroom"
	"mailroom/entry"
	"mailroom/stream/turn"
)

// writer draws the history of a thread, as a server writes it: one run at a time has a claim, and writes one message at
// a time, whose text readers get live.
type writer struct {
	history
	t       *rapid.T
	runs    int
	queued  []string
	run     string // with a claim, or parked
	attempt map[string]int
	parked  bool
	message int
	text    string // of the message being written
	thought int
	args    map[string]int
	calls   []string
	tickets []string
	ended   []string // failed or cancelled
}

func (w *writer) pick(n int, what string) int { return rapid.IntRange(0, n-1).Draw(w.t, what) }

func (w *writer) entry(kind string, body any) { w.of(w.run, w.attempt[w.run], kind, body) }

func (w *writer) id() string { return fmt.Sprintf("%s.%d-%d", w.run, w.attempt[w.run], w.message) }

func (w *writer) step() {
	if w.pick(6, "submit") == 0 {
		run := fmt.Sprintf("r%d", w.runs)
		w.runs++
		w.of(run, 0, entry.KindMessage, mailroom.Message{ID: "in-" + run, Role: mailroom.RoleUser, Run: run})
		w.of(run, 0, entry.KindQueued, entry.RunQueued{Agent: "a", Messages: []string{"in-" + run}})
		w.queued = append(w.queued, run)
	}
	switch {
	case w.run == "" && len(w.queued) > 0:
		w.run, w.queued = w.queued[0], w.queued[1:]
		w.start(entry.KindStarted)
	case w.run == "" && len(w.ended) > 0:
		w.of(w.ended[0], w.attempt[w.ended[0]], entry.KindRetried, nil)
		w.queued, w.ended = append(w.queued, w.ended[0]), w.ended[1:]
	case w.run == "":
		w.of("", 0, entry.KindNotification, nil)
	case w.parked:
		w.decide()
		w.start(entry.KindResumed)
	default:
		w.work()
	}
}

func (w *writer) start(kind string) {
	w.attempt[w.run]++
	w.parked, w.message, w.text, w.thought, w.args = false, 1, "", 0, map[string]int{}
	w.entry(kind, entry.RunStarted{Worker: "w"})
}

func (w *writer) work() {
	switch w.pick(12, "work") {
	case 0, 1, 2:
		text := rapid.StringMatching("[aé☃]{1,4}").Draw(w.t, "text")
		w.show(entry.ChannelText, "", len(w.text), text)
		w.text += text
	case 3:
		w.show(entry.ChannelThinking, "", w.thought, "hm")
		w.thought += 2
	case 4:
		call := fmt.Sprint("c", w.pick(3, "call"))
		w.show(entry.ChannelTool, call, w.args[call], "{}")
		w.args[call] += 2
	case 5, 6:
		w.commit()
	case 7:
		w.ends(entry.KindWaiting, entry.RunWaiting{}, false)
		w.parked = true
	case 8:
		reason := []string{"retry", "released", "lease_lost"}[w.pick(3, "reason")]
		w.ends(entry.KindRescheduled, entry.RunRescheduled{Reason: reason}, true)
		w.start(entry.KindStarted)
	case 9:
		w.entry(entry.KindStop, entry.RunStop{})
	default:
		kind := []string{entry.KindCompleted, entry.KindFailed, entry.KindCancelled}[w.pick(3, "end")]
		w.ends(kind, nil, kind != entry.KindCompleted)
		if kind != entry.KindCompleted {
			w.ended = append(w.ended, w.run)
		}
		w.run = ""
	}
}

func (w *writer) show(channel, call string, offset int, text string) {
	w.live(entry.Delta{
		Run: w.run, Attempt: w.attempt[w.run], Message: w.id(), Offset: offset, Channel: channel, Call: call, Text: text,
	})
}

// say writes the message being written, and other parts with it.
func (w *writer) say(partial bool) {
	m := mailroom.Message{ID: w.id(), Role: mailroom.RoleAssistant, Text: w.text, Partial: partial}
	if !partial && w.pick(3, "reasoning") == 0 {
		m.Parts = append(m.Parts, mailroom.Part{Type: mailroom.PartReasoning, Text: "hm"})
	}
	if w.text != "" {
		m.Parts = append(m.Parts, mailroom.Text(w.text)...)
	}
	if !partial && w.pick(3, "data") == 0 {
		m.Parts = append(m.Parts, mailroom.Part{Type: mailroom.PartData, Data: []byte("{}")})
	}
	if len(m.Parts) > 0 {
		w.entry(entry.KindMessage, m)
		w.message, w.text, w.thought, w.args = w.message+1, "", 0, map[string]int{}
	}
}

func (w *writer) commit() {
	w.entry(entry.KindStep, entry.StepNamed{Name: "s"})
	if w.pick(2, "say") == 0 {
		w.say(false)
	}
	for range w.pick(3, "calls") {
		call := fmt.Sprint("c", w.pick(3, "call"))
		w.entry(entry.KindToolStarted, entry.ToolStarted{Call: call, Name: "ls"})
		w.calls = append(w.calls, call)
	}
	if n := len(w.calls); n > 0 && w.pick(2, "done") == 0 {
		w.entry(entry.KindToolDone, entry.ToolDone{Call: w.calls[n-1], OK: true})
		w.calls = w.calls[:n-1]
	}
	if w.pick(3, "ask") == 0 {
		id := fmt.Sprint("k", w.seq)
		w.tickets = append(w.tickets, id)
		w.entry(entry.KindTicketOpened, mailroom.Ticket{ID: id, Kind: mailroom.TicketInput})
	}
	if w.pick(4, "newer") == 0 {
		w.entry("run.newer", nil)
	}
}

func (w *writer) decide() {
	for _, id := range w.tickets {
		w.entry(entry.KindTicketDecided, entry.TicketDecision{Ticket: id, Decision: mailroom.VerdictAnswer})
	}
	w.tickets = nil
}

// ends ends an attempt. A crash loses the end of the text, or all of it.
func (w *writer) ends(kind string, body any, partial bool) {
	if partial {
		runes := []rune(w.text)
		w.text = string(runes[:w.pick(len(runes)+1, "kept")])
	}
	if w.text != "" {
		w.say(partial)
	}
	w.entry(kind, body)
}

func drawHistory(t *rapid.T) *writer {
	w := &writer{t: t, attempt: map[string]int{}}
	for range rapid.IntRange(1, 50).Draw(t, "steps") {
		w.step()
	}
	return w
}

// reader is a program that knows only the events.
type reader struct {
	t     *rapid.T
	parts map[string]*shownPart
	at    int64
}

type shownPart struct {
	text string
	part turn.Part
	gone bool
}

func (r *reader) read(events []turn.Event) {
	for _, e := range events {
		if e.Cursor && e.Number <= r.at || !e.Cursor && e.Number != r.at {
			r.t.Fatalf("%s %s has the number %d after %d, a cursor: %t", e.Type, e.Part.Key, e.Number, r.at, e.Cursor)
		}
		r.at = e.Number
		if !e.Cursor && e.Part.Progress != turn.ProgressLive &&
			slices.Contains([]turn.Type{turn.PartGrew, turn.TurnChanged, turn.TurnEnded}, e.Type) {
			r.t.Fatalf("%s %s is in the log and no cursor", e.Type, e.Part.Key)
		}
		if e.Part.Key == "" {
			continue
		}
		key := e.Run + " " + e.Part.Key
		p := r.parts[key]
		if p == nil || e.Type == turn.PartBegan {
			if e.Type != turn.PartBegan {
				r.t.Fatalf("%s %s before it began", e.Type, key)
			}
			if p != nil && p.text != "" && !p.gone && e.Part.Kind == turn.KindText {
				r.t.Fatalf("%s begins again after %q", key, p.text)
			}
			p = &shownPart{}
			r.parts[key] = p
		}
		p.part, p.gone = e.Part, e.Type == turn.PartGone
		switch {
		case e.Type == turn.PartGrew:
			if e.Part.Kind == turn.KindText && e.Offset != len(p.text) {
				r.t.Fatalf("%s grows at %d and not at %d", key, e.Offset, len(p.text))
			}
			p.text += e.Text
		case e.Type == turn.PartChanged:
			p.text = e.Part.Text
		}
	}
}

// has checks that the reader has what the log says.
func (r *reader) has(s *turn.State) {
	for _, t := range s.Turns() {
		for _, p := range t.Parts {
			got := r.parts[t.Run+" "+p.Key]
			if got == nil {
				r.t.Fatalf("%s %s is missing", t.Run, line(p))
			}
			if got.part.Progress != p.Progress || got.part.Superseded != p.Superseded || got.gone {
				r.t.Fatalf("%s is %s, and shown as %s, gone: %t", p.Key, line(p), line(&got.part), got.gone)
			}
			if p.Kind == turn.KindText && got.text != p.Text {
				r.t.Fatalf("%s has the text %q, and is shown with %q", p.Key, p.Text, got.text)
			}
		}
	}
}

func sameTurns(t *rapid.T, want, got *turn.State) {
	if diff := cmp.Diff(want.Turns(), got.Turns(), cmpopts.IgnoreUnexported(turn.Turn{}, turn.Part{})); diff != "" {
		t.Fatalf("want -, got +:\n%s", diff)
	}
}

// TestLiveTextChangesNoTurn folds random logs without live text, with all of it, and with live text that is repeated,
// lost and late. The turns are the same, and a reader of the events has them. Numbers that are cursors only grow.
func TestLiveTextChangesNoTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawHistory(t)
		want := &turn.State{}
		r := &reader{t: t, parts: map[string]*shownPart{}}
		r.read(apply(want, w.entries()))
		r.has(want)

		for _, items := range [][]item{w.items, disturbed(t, w.items)} {
			got := &turn.State{}
			r := &reader{t: t, parts: map[string]*shownPart{}}
			r.read(apply(got, items))
			r.has(got)
			sameTurns(t, want, got)
		}
	})
}

// disturbed repeats, loses and delays live text. A stream delays none past its entry; a State that gets it so passes
// it over.
func disturbed(t *rapid.T, items []item) (list []item) {
	var late []item
	for _, i := range items {
		list = append(list, i)
		if i.entry == nil {
			switch rapid.IntRange(0, 4).Draw(t, "fault") {
			case 0:
				list = append(list, i)
			case 1:
				list = list[:len(list)-1]
			case 2:
				late = append(late, i)
			}
		}
		if len(late) > 0 && rapid.IntRange(0, 4).Draw(t, "late") == 0 {
			list, late = append(list, late...), nil
		}
	}
	return list
}

// TestEveryNumberIsACursor stops a reader at some events, as if its server ended there. It goes on with another state,
// which gets the log again, and live text of the message being written in one piece: the reader misses nothing, gets no
// text twice, and the numbers are the same.
func TestEveryNumberIsACursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawHistory(t)
		whole := &turn.State{}
		events := apply(whole, w.items)
		again := append(w.entries(), tail(w.items)...)
		var stops []int
		for range min(10, len(events)) {
			stops = append(stops, rapid.IntRange(0, len(events)-1).Draw(t, "stop"))
		}
		for i, e := range events { // within a message, the hard case
			if e.Part.Message != "" && place(e) == e.Number && len(stops) < 20 {
				stops = append(stops, i)
			}
		}
		for _, i := range stops {
			if !events[i].Cursor {
				continue
			}
			r := &reader{t: t, parts: map[string]*shownPart{}}
			r.read(events[:i+1])
			s := turn.After(events[i].Number)
			rest := apply(s, again)
			r.read(rest)
			r.has(whole)
			sameTurns(t, whole, s)
			for _, e := range rest {
				if e.Cursor && e.Type != turn.PartGrew && !slices.ContainsFunc(events[i+1:], func(o turn.Event) bool {
					return (place(o) == place(e) || !o.Cursor) && o.Type == e.Type && o.Part.Key == e.Part.Key
				}) && !wasLive(events, e) {
					t.Fatalf("%s %s has another number than before: %d", e.Type, e.Part.Key, e.Number)
				}
			}
		}
	})
}

// place returns the number of e without the bytes that its reader has of the message being written.
func place(e turn.Event) int64 {
	if e.Number&(1<<21-1) <= mailroom.MaxText {
		return e.Number &^ (1<<21 - 1)
	}
	return e.Number
}

// wasLive reports whether live text changed how the reader got the message or the call of e: then the entry had other
// events.
func wasLive(events []turn.Event, e turn.Event) bool {
	return slices.ContainsFunc(events, func(o turn.Event) bool {
		return o.Part.Progress == turn.ProgressLive && (o.Part.Key == e.Part.Key ||
			strings.HasPrefix(e.Part.Key, o.Part.Message+"/"))
	})
}

// tail returns what a stream that joins now sends of the message being written.
func tail(items []item) []item {
	var text, message string
	var last *entry.Delta
	for _, i := range items {
		switch {
		case i.entry != nil && strings.HasPrefix(i.entry.Kind, "run.") && i.entry.Kind != entry.KindStop &&
			i.entry.Kind != entry.KindQueued, i.entry != nil && i.entry.Kind == entry.KindMessage && i.entry.Attempt > 0:
			text, last = "", nil
		case i.delta != nil && i.delta.Channel == entry.ChannelText:
			if i.delta.Message != message {
				message, text = i.delta.Message, ""
			}
			text, last = text+i.delta.Text, i.delta
		}
	}
	if last == nil {
		return nil
	}
	d := *last
	d.Offset, d.Text = 0, text
	return []item{{delta: &d}}
}

// TestAReaderMayBeginAnywhere begins at each entry, as a reader does whose older entries were purged. What it has of a
// turn is what the log says from there on.
func TestAReaderMayBeginAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawHistory(t)
		whole := &turn.State{}
		apply(whole, w.items)
		from := rapid.IntRange(0, len(w.items)).Draw(t, "from")
		s := &turn.State{}
		r := &reader{t: t, parts: map[string]*shownPart{}}
		r.read(apply(s, w.items[from:]))
		r.has(s)
		for _, got := range s.Turns() {
			want := whole.Turn(got.Run)
			known := got.Status == want.Status || got.Status == turn.StatusRunning
			if !known || got.Last != want.Last || len(got.Parts) > len(want.Parts) {
				t.Fatalf("the turn is %+v, want the end of %+v", got, want)
			}
		}
	})
}
