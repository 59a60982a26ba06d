package channeltest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/platformtest"
)

// runAdapter runs the cases about a platform's adapter: what package chat relies on.
func runAdapter(t *testing.T, make func(t *testing.T) *Platform) {
	cases := map[string]func(r *Recorder){
		"an event that was not committed is delivered again": uncommitted,
		"a repeated event has the same key":                  repeated,
		"an idle connection stays connected":                 idle,
		"what people do becomes events":                      peopleBecomeEvents,
		"a press is answered once":                           pressAnswered,
		"a malformed event is skipped":                       malformed,
		"a gap is read in order":                             gap,
		"new credentials of the same bot":                    newLogin,
	}
	maps.Copy(cases, sendCases())
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the cases mostly wait
			run(NewRecorder(t, make(t)))
		})
	}
	for _, l := range make(t).Credentials.Wrong {
		t.Run("credentials: "+l.Name, func(t *testing.T) {
			t.Parallel()
			r := NewRecorder(t, make(t))
			badLogin(r, find(r.p.Credentials.Wrong, func(o Login) bool { return o.Name == l.Name }))
		})
	}
	for _, f := range make(t).connectFaults() {
		t.Run("connect: "+f.Name, func(t *testing.T) {
			t.Parallel()
			r := NewRecorder(t, make(t))
			connectFault(r, find(r.p.connectFaults(), func(o ConnectFault) bool { return o.Name == f.Name }))
		})
	}
}

// find returns the first element that f accepts.
func find[T any](all []T, f func(T) bool) (found T) {
	for _, one := range all {
		if f(one) {
			return one
		}
	}
	return found
}

// connects reports whether the platform has connections.
func (r *Recorder) connects() bool { return r.p.Reconnect.IdleTimeout >= 0 }

// say sends a message to the bot and returns its id.
func (r *Recorder) say(from, place, text string) string {
	return r.p.People.Say(Message{From: from, Place: place, Text: text, ToBot: place == Dev})
}

// awaitAcknowledged waits until the platform knows that all events were received.
func (r *Recorder) awaitAcknowledged() {
	r.t.Helper()
	if r.p.Events.Pending != nil {
		r.Await("nothing pending", func() bool { return r.p.Events.Pending() == 0 })
	}
}

// begin starts the recorder and has it record a first message at home.
func (r *Recorder) begin(text string) chat.Platform {
	r.t.Helper()
	p := r.Start().AwaitConnected()
	r.say(Ann, r.p.home(), text)
	r.AwaitTexts(text)
	return p
}

// badLogin has credentials that are rejected until they are corrected.
func badLogin(r *Recorder, l Login) {
	l.Break()
	r.Start()
	s := r.AwaitCondition(channel.ConditionFailed)
	if !strings.Contains(s.Reason, l.Want) || !strings.Contains(s.Reason, r.p.Credentials.Hint) || s.Attempts != 1 {
		r.t.Errorf("%d attempts: %s", s.Attempts, s.Reason)
	}
	l.Fix()
	r.Resume()
	r.AwaitConnected()
}

// connectFault has a call fail while the channel connects or receives for the first time.
func connectFault(r *Recorder, f ConnectFault) {
	if r.p.Events.History {
		r.say(Ann, Ann, "still there")
	}
	r.p.Outages.Fake.Fail(f.Call, f.Fault)
	began := time.Now()
	r.Start()
	s := r.AwaitState("a failure", func(s channel.State) bool { return s.LastError != "" })
	if !strings.Contains(s.LastError, f.Want) {
		r.t.Errorf("error %q, want it to contain %q", s.LastError, f.Want)
	}
	r.AwaitConnected()
	if waited := time.Since(began); waited < f.After {
		r.t.Errorf("retried after %s, want at least %s", waited, f.After)
	}
	r.say(Ann, Ann, "and here")
	r.Await("the messages", func() bool { return strings.HasSuffix(r.Texts(), "and here") })
	if got := r.Texts(); r.p.Events.History && !r.p.Events.StartsNow && got != "still there, and here" {
		r.t.Errorf("recorded %q", got)
	}
}

// uncommitted makes commits fail as on a full disk. The platform must not be told that the events were received.
func uncommitted(r *Recorder) {
	keeps := r.p.Events.History && !r.p.Events.StartsNow // events from before the first connection
	want := ""
	if !keeps {
		r.begin("zero")
		want = "zero, "
	}
	full := errors.New("the disk is full")
	r.FailWith(func(chat.Event) error { return full })
	r.say(Ann, r.p.home(), "one")
	if !r.p.Events.History { // nothing can be said to a platform without a history while its connection is being replaced
		r.AwaitState("another connection", func(s channel.State) bool {
			return s.Adapter >= 2 && s.Condition == channel.ConditionConnected
		})
	}
	r.say(Ann, r.p.home(), "two")
	if keeps {
		r.Start()
	}
	r.AwaitState("another attempt", func(s channel.State) bool {
		return s.Adapter >= 3 && strings.Contains(s.LastError, full.Error())
	})
	if r.p.Events.Pending != nil {
		r.Await("both pending", func() bool { return r.p.Events.Pending() == 2 })
	}
	r.FailWith(nil)
	if r.p.Events.History {
		want += "one, two, "
		r.AwaitTexts(strings.TrimSuffix(want, ", "))
	} else { // what was read is lost with its connection
		r.AwaitConnected()
	}
	r.awaitAcknowledged()
	r.say(Ann, r.p.home(), "three")
	r.AwaitTexts(want + "three")
	if !r.p.Events.History {
		return
	}
	r.FailWith(func(e chat.Event) error { // the events before it are committed
		if strings.HasSuffix(e.Text, "five") {
			return full
		}
		return nil
	})
	adapter := r.State().Adapter
	for _, text := range []string{"four", "five", "six"} {
		r.say(Ann, r.p.home(), text)
	}
	r.AwaitState("another attempt", func(s channel.State) bool { return s.Adapter > adapter+1 })
	r.FailWith(nil)
	r.AwaitTexts(want + "three, four, five, six")
}

// repeated has the platform repeat each kind of event.
func repeated(r *Recorder) {
	if r.p.Events.Redeliver == nil { // the platform repeats nothing
		r.begin("once")
		r.Reconnect()
		r.say(Ann, r.p.home(), "then")
		r.AwaitTexts("once, then")
		if n := len(r.Recorded()); n != 2 {
			r.t.Errorf("%d events", n)
		}
		return
	}
	p := r.Start().AwaitConnected()
	act := func(f func()) {
		r.t.Helper()
		n := len(r.Recorded())
		f()
		r.Await("the event", func() bool { return len(r.Recorded()) == n+1 })
		r.awaitAcknowledged() // else the repeat is acknowledged unread
		r.p.Events.Redeliver()
		r.Await("the repeated event", func() bool { return len(r.Recorded()) == n+2 })
		if a, b := r.Recorded()[n], r.Recorded()[n+1]; a.Key != b.Key || a.Kind != b.Kind || a.Room != b.Room {
			r.t.Errorf("%+v is repeated as %+v", a, b)
		}
	}
	var id string
	act(func() { id = r.say(Ann, Ann, "once") })
	if !r.p.Events.RepeatsAll {
		return
	}
	if r.p.People.Edit != nil {
		act(func() { r.p.People.Edit(Ann, Ann, id, "changed") })
	}
	if r.p.People.Press != nil {
		sent, err := p.Send(r.t.Context(), r.p.People.Room(Ann),
			chat.Message{Text: "?", Buttons: []chat.Button{{Label: "Yes", Data: "y"}}}, "k")
		if err != nil {
			r.t.Fatal(err)
		}
		r.awaitAcknowledged()
		act(func() { r.p.People.Press(Ann, Ann, sent, "y") })
	}
	if r.p.People.Delete != nil {
		act(func() { r.p.People.Delete(Ann, Ann, id) })
	}
	keys := map[string]bool{}
	for _, e := range r.Events() {
		keys[string(e.Kind)+e.Key] = true
	}
	if len(keys) != len(r.Recorded())/2 {
		r.t.Errorf("different events have the same key: %+v", r.Recorded())
	}
}

// idle expects a connection without messages to stay connected. A platform without connections has nothing to prove.
func idle(r *Recorder) {
	r.Start().AwaitConnected()
	last := r.State().LastSuccess
	for range 2 {
		if !r.connects() {
			break
		}
		last = r.AwaitState("a proof of the connection", func(s channel.State) bool {
			return s.LastSuccess.After(last)
		}).LastSuccess
	}
	if s := r.State(); s.Condition != channel.ConditionConnected || s.Adapter != 1 {
		r.t.Errorf("the state is %+v", s)
	}
}

// peopleBecomeEvents has messages in private and in a group, to the bot and not, a change, a
// deletion and a reply.
func peopleBecomeEvents(r *Recorder) {
	p := r.Start().AwaitConnected()
	say := r.p.People
	event := func(place, key string, e chat.Event) chat.Event {
		if e.Kind == "" {
			e.Kind, e.Key = chat.EventMessage, key
		}
		e.Room, e.User = say.Room(place), chat.User{ID: say.ID(Ann), Name: r.p.name(Ann)}
		e.Addressed = e.Addressed || place == Ann
		return e
	}
	var want []chat.Event
	first := say.Say(Message{From: Ann, Place: Ann, Text: "héllo 👋"})
	want = append(want, event(Ann, first, chat.Event{Text: "héllo 👋"}))
	if say.Edit != nil {
		say.Edit(Ann, Ann, first, "hello")
		want = append(want, event(Ann, "", chat.Event{Kind: chat.EventEdited, TargetID: first, Text: "hello"}))
	}
	want = append(want, event(Dev, say.Say(Message{From: Ann, Place: Dev, Text: "just talking"}),
		chat.Event{Text: "just talking"}))
	want = append(want, event(Dev, say.Say(Message{From: Ann, Place: Dev, Text: "and you?", ToBot: true}),
		chat.Event{Text: "and you?", Addressed: true}))
	r.Await("the events", func() bool { return len(r.Events()) == len(want) })
	if say.Delete != nil {
		say.Delete(Ann, Ann, first)
		e := event(Ann, "", chat.Event{Kind: chat.EventDeleted, TargetID: first})
		e.User, e.Addressed = chat.User{}, false
		want = append(want, e)
	}
	if r.p.Events.Replies {
		sent, err := p.Send(r.t.Context(), say.Room(Dev), chat.Message{Text: "Go on?"}, "k")
		if err != nil {
			r.t.Fatal(err)
		}
		want = append(want, event(Dev, say.Say(Message{From: Ann, Place: Dev, Text: "yes", ReplyTo: sent}),
			chat.Event{Text: "yes", Addressed: true}))
	}
	r.Await("all events", func() bool { return len(r.Events()) == len(want) })
	got := r.Events()
	for i := range got {
		e, w := &got[i], &want[i]
		if e.Kind == chat.EventMessage && e.Addressed && strings.HasSuffix(e.Text, w.Text) { // the bot's name may be in front
			w.Text = e.Text
		}
		if e.Key == "" || w.Key != "" && e.Key != w.Key ||
			r.p.Events.History && r.connects() && r.p.Events.Positions && e.Position == "" {
			r.t.Errorf("key %q at %q, want %q", e.Key, e.Position, w.Key)
		}
		if said := (chat.Context{Kind: chat.ContextReply, ByBot: true, Text: "Go on?"}); len(e.Context) == 1 &&
			w.Text == "yes" {
			said.Author = e.Context[0].Author // the bot
			w.Context = []chat.Context{said}
		}
		if r.p.Events.Times && e.Kind == chat.EventMessage && time.Since(e.Written).Abs() > time.Hour {
			r.t.Errorf("message %q was written at %s", e.Text, e.Written)
		}
		e.Room.Topic = "" // of the platform
		if e.Kind == chat.EventDeleted {
			e.User, e.Addressed = chat.User{}, false // as far as the platform knows
		}
	}
	ignored := cmpopts.IgnoreFields(chat.Event{}, "Key", "Position", "Written", "Accept", "AckInline", "Files")
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		r.t.Error(diff)
	}
}

// pressAnswered has Ann press a button. She alone sees the answer.
func pressAnswered(r *Recorder) {
	p := r.Start().AwaitConnected()
	if r.p.People.Press == nil {
		if r.Capabilities().Buttons {
			r.t.Error("the platform has buttons that people cannot press")
		}
		return
	}
	r.FailWith(func(e chat.Event) error {
		if e.AckInline != nil {
			e.AckInline("Denied.")
		}
		return nil
	})
	sent, err := p.Send(r.t.Context(), r.p.People.Room(Dev),
		chat.Message{Text: "Go on?", Buttons: []chat.Button{{Label: "Yes", Data: "y"}, {Label: "No", Data: "n"}}}, "k")
	if err != nil {
		r.t.Fatal(err)
	}
	answers := r.p.People.Press(Ann, Dev, sent, "n")
	e := r.AwaitEvents(1)[0]
	e.Room.Topic = "" // of the platform
	if e.Kind != chat.EventButton || e.TargetID != sent || e.Data != "n" || e.User.ID != r.p.People.ID(Ann) ||
		e.Room != r.p.People.Room(Dev) {
		r.t.Errorf("the press is %+v", e)
	}
	if err := p.AckButton(r.t.Context(), r.Events()[0], "Denied."); err != nil {
		r.t.Error(err)
	}
	r.Await("the answer", func() bool { return len(answers()) > 0 })
	if got := answers(); len(got) != 1 || got[0] != "Denied." || len(r.p.People.Shown(Dev)) != 1 {
		r.t.Errorf("Ann is answered %q, the group sees %+v", got, r.p.People.Shown(Dev))
	}
}

// malformed delivers malformed events, and a good message between them, which must arrive.
func malformed(r *Recorder) {
	r.Start().AwaitConnected()
	r.p.Events.Malformed()
	r.say(Ann, Ann, "good")
	r.AwaitTexts("good")
	r.Await("a log entry of "+r.p.Events.MalformedLog, func() bool {
		return strings.Contains(r.Log(), r.p.Events.MalformedLog)
	})
	if s := r.State(); s.Adapter != 1 {
		r.t.Errorf("the state is %+v", s)
	}
}

// gap sends more messages to two rooms during an outage than a page of a history has.
func gap(r *Recorder) {
	const n = 130
	r.Start().AwaitConnected()
	r.say(Ann, Ann, "a0")
	r.say(Bob, Dev, "b0")
	r.AwaitEvents(2)
	if !r.connects() {
		r.Reconnect()
	} else {
		r.p.down()
		r.AwaitState("an outage", func(s channel.State) bool { return s.Condition != channel.ConditionConnected })
	}
	want := 2
	if r.p.Events.History {
		want += 2 * n
		for i := range n {
			r.say(Ann, Ann, fmt.Sprintf("a%d", i+1))
			r.say(Bob, Dev, fmt.Sprintf("b%d", i+1))
		}
	}
	if r.p.Events.Forget != nil {
		r.p.Events.Forget()
	}
	if r.connects() {
		r.p.restore(r.t)
	}
	r.Await("the messages", func() bool { return len(r.Events()) >= want })
	next := map[string]int{}
	for _, e := range r.Events() {
		name := e.Text[strings.LastIndexAny(e.Text, "ab"):]
		if want := fmt.Sprintf("%s%d", name[:1], next[name[:1]]); name != want {
			r.t.Fatalf("got %s, want %s", name, want)
		}
		next[name[:1]]++
	}
	r.awaitAcknowledged()
	before := len(r.Recorded())
	r.Reconnect() // nothing is read a second time
	r.say(Ann, Ann, "the end")
	r.Await("the last message", func() bool { return strings.HasSuffix(r.Texts(), "the end") })
	if again := len(r.Recorded()) - before; len(r.Events()) != want+1 || again > 2 { // from the history and as an event
		r.t.Errorf("%d events, %d of them recorded after the second connection", len(r.Events()), again)
	}
}

// newLogin replaces the credentials. The bot stays the same, and no message is lost.
func newLogin(r *Recorder) {
	r.begin("one")
	was := r.Capabilities().BotID
	if r.p.Credentials.Renew == nil {
		r.Reconnect()
	} else {
		adapter := r.State().Adapter
		change := r.p.Credentials.Renew()
		if r.p.Events.History {
			r.say(Ann, r.p.home(), "two")
		}
		change()
		r.ConfigChanged()
		r.AwaitState("another adapter", func(s channel.State) bool {
			return s.Adapter > adapter && s.Condition == channel.ConditionConnected
		})
	}
	if r.p.Credentials.Renew == nil || !r.p.Events.History {
		r.say(Ann, r.p.home(), "two")
	}
	r.AwaitTexts("one, two")
	if is := r.Capabilities().BotID; is != was {
		r.t.Errorf("the bot was %q and is %q", was, is)
	}
}

// Fault is the type that all fakes share.
type Fault = platformtest.Fault
