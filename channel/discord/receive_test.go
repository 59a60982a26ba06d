package discord_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/discord"
	"mailroom/channel/discord/discordtest"
	"mailroom/channel/platformtest"
)

const (
	bot  = "<@" + discordtest.BotID + ">"
	role = "<@&" + discordtest.RoleID + ">"
)

func room(c *discordtest.Channel) chat.Room {
	if c.Parent != "" {
		return chat.Room{Chat: c.Parent, Topic: c.ID, Group: true}
	}
	return chat.Room{Chat: c.ID, Group: c.Type != 1}
}

func TestPlatformEventsBecomeChatEvents(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	thread, quiet := dev.Thread("plans", false), dev.Thread("secrets", true)
	private := ann.Private()
	fx := newRecorder(t, dc).Start()
	p := fx.AwaitConnected()
	sent, err := p.Send(t.Context(), room(dev), chat.Message{Text: "Go on?", Buttons: []chat.Button{{Label: "Yes", Data: "yes:1"}}}, "k")
	if err != nil {
		t.Fatal(err)
	}
	user := chat.User{ID: ann.ID, Name: "Ann"}
	var want []chat.Event
	sends := func(c *discordtest.Channel, text string, e chat.Event, how ...discordtest.MessageOptions) {
		e.Kind, e.Key, e.Room, e.User = chat.EventMessage, ann.Sends(c, text, how...), room(c), user
		e.Addressed = e.Addressed || !e.Room.Group
		want = append(want, e)
	}
	text := func(words string) chat.Event { return chat.Event{Text: words} }
	addressed := func(words string) chat.Event { return chat.Event{Text: words, Addressed: true} }
	sends(private, "héllo 👋", text("héllo 👋"))
	ann.Edits(private, want[0].Key, "hello")
	want = append(want, chat.Event{Kind: chat.EventEdited, TargetID: want[0].Key, Room: room(private), User: user, Text: "hello", Addressed: true})
	private.Unfurl(want[0].Key) // another event of the same edit
	want = append(want, want[1])
	sends(dev, "just talking", text("just talking"))
	dev.Unfurl(want[3].Key) // not an edit
	sends(dev, bot+" what is this?", addressed("what is this?"))
	sends(dev, " "+role+": "+bot+", !stop", addressed("!stop"))
	sends(dev, "ask "+bot+" or <@17> "+role, addressed("ask @mailroom or <@17> @mailroom"))
	sends(dev, "mail@mailroom or @everyone is no name", text("mail@mailroom or @everyone is no name"))
	sends(dev, "yes", answering(addressed("yes"), botUser(), "Go on?"), discordtest.MessageOptions{ReplyTo: sent})
	sends(dev, "no", answering(text("no"), user, "just talking"), discordtest.MessageOptions{ReplyTo: want[3].Key})
	sends(thread, "in a thread", text("in a thread"))
	sends(quiet, "in one that is not known", text("in one that is not known"))
	sends(dev, "see", chat.Event{Text: "see", Files: []chat.File{{Name: "notes.txt", MimeType: "text/plain; charset=utf-8", Size: 7}}}, discordtest.MessageOptions{File: "notes.txt", Content: []byte("one\ntwo")})
	sends(dev, "", chat.Event{Context: []chat.Context{{Kind: chat.ContextForward, Text: "what was said elsewhere"}}}, discordtest.MessageOptions{Forwarded: "what was said elsewhere"})
	for _, how := range []discordtest.MessageOptions{{Bot: true}, {Webhook: true}, {Type: 7}} {
		ann.Sends(dev, bot+" not from a person", how)
	}
	ann.Deletes(dev, want[3].Key)
	want = append(want, chat.Event{Kind: chat.EventDeleted, TargetID: want[3].Key, Room: room(dev)})
	ann.Deletes(thread, want[10].Key, "17")
	want = append(want, chat.Event{Kind: chat.EventDeleted, TargetID: want[10].Key, Room: room(thread)}, chat.Event{Kind: chat.EventDeleted, TargetID: "17", Room: room(thread)})
	ann.Presses(dev, sent, "Yes")
	want = append(want, chat.Event{Kind: chat.EventButton, TargetID: sent, Data: "yes:1", Room: room(dev), User: user, Addressed: true})
	ann.Sends(dev, "the end")
	want = append(want, text("the end"))
	want[len(want)-1].Kind, want[len(want)-1].Room, want[len(want)-1].User = chat.EventMessage, room(dev), user
	platformtest.WaitFor(t, "all events", func() bool { return len(fx.Recorded()) == len(want) })
	got := fx.Recorded()
	for i, e := range got { // its thread was looked up concurrently
		if e.Text == "in one that is not known" {
			got = slices.Insert(slices.Delete(got, i, i+1), 11, e)
			break
		}
	}
	hidden := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Open" || p.Last().String() == ".URI" }, cmp.Ignore())
	if diff := cmp.Diff(want, got, hidden, cmpopts.IgnoreFields(chat.Event{}, "Key", "Position", "Written")); diff != "" {
		t.Error(diff)
	}
	keys := map[string]int{}
	for i, e := range got {
		if want[i].Key != "" && e.Key != want[i].Key {
			t.Errorf("key of %q is %q, want %q", e.Text, e.Key, want[i].Key)
		}
		keys[e.Key]++
	}
	if len(keys) != len(got)-1 || got[1].Key != got[2].Key {
		t.Errorf("%d events with the keys %v", len(got), keys)
	}
	if n := len(dc.Calls(discordtest.Lookup)); n != 1 {
		t.Errorf("%d thread lookups, want 1", n)
	}
	if caps := fx.Capabilities(); caps.BotID != discordtest.BotID || caps.BotName != discordtest.Username {
		t.Errorf("capabilities %+v", caps)
	}
}

func TestUnknownThreadIsSkipped(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	quiet := dev.Thread("secrets", true)
	fx := newRecorder(t, dc)
	fx.Start().AwaitConnected()
	dc.Fail(discordtest.Lookup, discordtest.Fault{Status: 404, Code: "10003", Message: "Unknown Channel"},
		discordtest.Fault{Status: 500, Message: "Internal Server Error"})
	ann.Sends(quiet, "nowhere")
	platformtest.WaitFor(t, "the log entry", func() bool {
		return strings.Contains(fx.Log(), "their thread does not exist or is hidden")
	})
	ann.Sends(quiet, "later")
	fx.AwaitTexts("later")
	if started, resumed := dc.Sessions(); started != 1 || resumed != 0 || len(dc.Calls(discordtest.Lookup)) != 3 {
		t.Errorf("%d sessions started, %d resumed; want 1, 0 and 3 lookups", started, resumed)
	}
}

func TestFilesAreDownloadedWhenOpened(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	fx := newRecorder(t, dc).Start()
	fx.AwaitConnected()
	ann.Sends(ann.Private(), "", discordtest.MessageOptions{File: "notes.txt", Content: []byte("one\ntwo")})
	platformtest.WaitFor(t, "the message with the file", func() bool { return len(fx.Recorded()) >= 1 })
	f := fx.Recorded()[0].Files[0]
	if n := len(dc.Calls(discordtest.File)); n != 0 || f.URI == "" || strings.Contains(f.URI, secret) {
		t.Errorf("%d downloads before a file was opened; %q", n, f.URI)
	}
	r, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if string(content) != "one\ntwo" || err != nil || r.Close() != nil {
		t.Errorf("content %q, %v", content, err)
	}
	if calls := dc.Calls(discordtest.File); len(calls) != 1 || calls[0].Header.Get("Authorization") != "" {
		t.Errorf("downloads %+v", calls)
	}
	for name, url := range map[string]string{
		"elsewhere":     "https://example.org/attachments/1/2/notes.txt",
		"not encrypted": "http://cdn.discordapp.com/attachments/1/2/n",
		"with a name":   "https://cdn.discordapp.com@example.org/n", "of a file": "file:///etc/passwd", "none": "\x00",
	} {
		dc.PushEvent("MESSAGE_CREATE", map[string]any{
			"id": "77", "channel_id": "5", "author": map[string]any{"id": ann.ID}, "content": name,
			"attachments": []any{map[string]any{"filename": "n", "url": url}},
		})
	}
	dc.PushEvent("MESSAGE_CREATE", map[string]any{
		"id": "78", "channel_id": "5", "author": map[string]any{"id": ann.ID}, "content": "where it was",
		"attachments": []any{map[string]any{"filename": "n", "url": "http://" + strings.TrimSuffix(strings.TrimPrefix(dc.URL,
			"http://"), "/api/v10") + "/attachments/9?ex=1"}},
	})
	platformtest.WaitFor(t, "all messages", func() bool { return len(fx.Recorded()) >= 7 })
	for _, e := range fx.Recorded()[1:6] {
		if e.Files[0].Open != nil {
			t.Errorf("a file %s, %q, can be opened", e.Text, e.Files[0].URI)
		}
	}
	if _, err := fx.Recorded()[6].Files[0].Open(t.Context()); channeltest.SendClass(err) != mailroom.ClassPermanent ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("an expired file: %v", err)
	}
}

func TestButtonPressIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	fx := newRecorder(t, dc).Start()
	p := fx.AwaitConnected()
	id, err := p.Send(t.Context(), room(ann.Private()),
		chat.Message{Text: "Go on?", Buttons: []chat.Button{{Label: "Yes", Data: "y"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	press := ann.Presses(ann.Private(), id, "Yes")
	late := ann.Presses(ann.Private(), id, "Yes")
	late.Expire()
	platformtest.WaitFor(t, "the presses", func() bool { return len(fx.Recorded()) >= 2 })
	for _, e := range append(fx.Recorded(), fx.Recorded()...) {
		if err := p.AckButton(t.Context(), e, strings.Repeat("é", 2100)); err != nil {
			t.Errorf("the press is answered: %v", err)
		}
	}
	if answers := press.Answers(); len(answers) != 1 || len([]rune(answers[0])) != discord.MaxMessage {
		t.Errorf("the press is answered %q", answers)
	}
	calls := dc.Calls(discordtest.Callback)
	if len(calls) != 2 || calls[0].Header.Get("Authorization") != "" {
		t.Errorf("%d answers to 2 presses", len(calls))
	}
	if data := calls[0].Params["data"].(map[string]any); data["flags"] != 68.0 {
		t.Errorf("the answer is not ephemeral: %v", data)
	}
	if fx.Recorded()[0].Position == "" || strings.Contains(fmt.Sprint(fx.Recorded()), "-secret") {
		t.Errorf("an event contains the interaction token: %v", fx.Recorded())
	}
}

// TestButtonPressBehindASlowEventIsAnswered handles an event for longer than Discord waits for
// the answer to a press.
func TestButtonPressBehindASlowEventIsAnswered(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, dev := dc.Person("Ann"), dc.Channel("dev")
	fx := newRecorder(t, dc)
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	fx.FailWith(func(chat.Event) error { <-hold; return nil })
	p := fx.Start().AwaitConnected()
	t.Cleanup(release)
	id, err := p.Send(t.Context(), room(dev), chat.Message{Text: "Go on?",
		Buttons: []chat.Button{{Label: "Yes", Data: "y"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	ann.Sends(dev, "see this")
	press, other := ann.Presses(dev, id, "Yes"), ann.Presses(dev, id, "Yes")
	dc.WaitFor(t, "the deferred responses", func() bool { return press.Deferred(dc) && other.Deferred(dc) })
	if times := len(press.Answers()); times != 0 || len(fx.Recorded()) != 0 {
		t.Errorf("%d answers before the press was handled", times)
	}
	release()
	platformtest.WaitFor(t, "the press", func() bool { return len(fx.Recorded()) >= 3 })
	for range 2 {
		if err := p.AckButton(t.Context(), fx.Recorded()[1], "Approved."); err != nil {
			t.Errorf("the press is answered: %v", err)
		}
	}
	if answers := press.Answers(); !slices.Equal(answers, []string{"Approved."}) {
		t.Errorf("the press is answered %q", answers)
	}
	if times := len(other.Answers()); times != 0 {
		t.Errorf("the other press was answered %d times", times)
	}
}

func botUser() chat.User { return chat.User{ID: discordtest.BotID, Name: discordtest.Username} }

// answering returns an event that answers a message.
func answering(e chat.Event, author chat.User, said string) chat.Event {
	e.Context = []chat.Context{{Kind: chat.ContextReply, Author: author, ByBot: author == botUser(), Text: said}}
	return e
}
