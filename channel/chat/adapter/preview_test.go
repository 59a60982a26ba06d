package adapter_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/outbound"
	"mailroom/stream"
	"mailroom/thread"
)

// withPreviews enables previews with a second between edits.
func withPreviews(o *serverFixture) *serverFixture {
	o.options.Previews = true
	o.platform.Capabilities.RoomInterval, o.platform.Capabilities.EditInterval = 500*time.Millisecond, time.Second
	return o
}

func errCannotEdit() error {
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("message can't be edited")}
}

func TestAPreviewBecomesTheReply(t *testing.T) {
	withServer(t, slowWriter(40), func(o *serverFixture) {
		withPreviews(o).platform.Capabilities.MaxUnits = 100
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(2)
		<-time.After(time.Minute)
		texts := o.sentTexts()
		if got := strings.Join(texts, " "); got != words(40) {
			t.Errorf("got %q", got)
		}
		sent := o.platform.Sent()
		if n := len(sent[0].Versions); n < 4 {
			t.Errorf("%d versions of the reply: %+v", n, sent[0].Versions)
		}
		for i, v := range sent[0].Versions[:len(sent[0].Versions)-1] {
			if !strings.HasSuffix(v.Text, " …") {
				t.Errorf("version %d is not marked as unfinished: %q", i, v.Text)
			}
			if gap := sent[0].At[i+1].Sub(sent[0].At[i]); gap < 500*time.Millisecond {
				t.Errorf("version %d follows after %s", i+1, gap)
			}
		}
		for _, s := range sent[1:] {
			if len(s.Versions) != 1 {
				t.Errorf("edited message without a preview: %+v", s.Versions)
			}
		}
	})
}

func TestWithoutPreviewsOnlyTheReplyIsSent(t *testing.T) {
	withServer(t, slowWriter(40), func(o *serverFixture) {
		withPreviews(o).options.Previews = false
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(1)
		if sent := o.platform.Sent(); len(sent[0].Versions) != 1 ||
			sent[0].Message.Text != words(40)[:len(sent[0].Message.Text)] {
			t.Errorf("got %+v", sent)
		}
		if n := o.platform.TypingCount(); n < 2 || n > 4 { // in twelve seconds
			t.Errorf("%d typing indicators", n)
		}
	})
}

func TestAReplyIsANewMessageIfItsPreviewCannotBeEdited(t *testing.T) {
	withServer(t, slowWriter(10), func(o *serverFixture) {
		withPreviews(o).platform.Hook(CallEdit, func(context.Context, CallArgs) error { return errCannotEdit() })
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(2)
		if texts := o.sentTexts(); len(texts) != 2 || texts[1] != words(10) {
			t.Errorf("got %q", texts)
		}
	})
}

func TestEachMessageOfARunHasItsOwnPreview(t *testing.T) {
	withServer(t, func(ctx context.Context, s mailroom.Session) error {
		if err := slowWriter(10)(ctx, s); err != nil {
			return err
		}
		if err := s.Append(ctx, mailroom.Step{}); err != nil {
			return err
		}
		return slowWriter(12)(ctx, s)
	}, func(o *serverFixture) {
		withPreviews(o).start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(4)
		o.expectSent(words(10), words(12))
		for _, s := range o.platform.Sent() {
			if len(s.Versions) < 3 {
				t.Errorf("%d versions of a message: %+v", len(s.Versions), s.Versions)
			}
		}
	})
}

func TestAQuestionReplacesAPreview(t *testing.T) {
	withServer(t, func(ctx context.Context, s mailroom.Session) error {
		if s.Run().Attempt == 1 {
			if err := slowWriter(10)(ctx, s); err != nil {
				return err
			}
			if err := s.Append(ctx, mailroom.Step{Internal: true}); err != nil {
				return err
			}
		}
		return askingAgent(payment())(ctx, s)
	}, func(o *serverFixture) {
		withPreviews(o).start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(2)
		sent := o.platform.Sent()
		if len(sent) != 1 || !strings.HasPrefix(sent[0].Message.Text, "codex asks: May I pay?") ||
			len(sent[0].Message.Buttons) != 2 {
			t.Errorf("got %+v", sent)
		}
		o.platform.PressButton("ann", sent[0], "Deny")
		<-time.After(time.Minute)
		if got := o.sentTexts(); len(got) != 2 || !strings.HasPrefix(got[0], "Denied by ") ||
			got[1] != "it was: decided deny" {
			t.Errorf("got %q", got)
		}
	})
}

func TestAPreviewContinuesOverTheNextConnection(t *testing.T) {
	withServer(t, slowWriter(200), func(o *serverFixture) { // one minute
		withPreviews(o).platform.Capabilities.MaxUnits = 2000
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.platform.Await("a preview", func() bool { s := o.platform.Sent(); return len(s) == 1 && len(s[0].Versions) == 3 })
		o.platform.Hook(CallReceive, func(context.Context, CallArgs) error {
			o.platform.Hook(CallReceive, nil)
			return errors.New("the connection was lost")
		})
		o.platform.SendPrivate("eve", "I have no access")
		<-time.After(50 * time.Second)
		if n := len(o.platform.Sent()[0].Versions); o.platform.DialCount() != 2 || n < 10 {
			t.Errorf("after %d connections: %d versions", o.platform.DialCount(), n)
		}
		<-time.After(2 * time.Minute)
		o.expectSent(words(200))
	})
}

func TestConversationsOfOneRoomHaveSeparatePreviews(t *testing.T) {
	withServer(t, func(ctx context.Context, s mailroom.Session) error {
		if err := slowWriter(10)(ctx, s); err != nil {
			return err
		}
		<-time.After(20 * time.Second) // a tool call
		return slowWriter(10)(ctx, s)
	}, func(o *serverFixture) {
		withPreviews(o).start()
		o.platform.SendPrivate("ann", "go")
		<-time.After(5 * time.Second)
		o.platform.SendPrivate("ann", "/new")
		o.platform.SendPrivate("ann", "go")
		<-time.After(time.Minute)
		previews := 0
		for _, s := range o.platform.Sent() {
			if len(s.Versions) > 1 {
				previews++
			}
			if strings.HasSuffix(s.Message.Text, "…") {
				t.Errorf("unfinished message: %+v", s)
			}
		}
		if previews != 2 {
			t.Errorf("%d previews: %q", previews, o.sentTexts())
		}
	})
}

// TestAServerRestartsDuringAPreview restarts. The server finds its preview or records that one
// may remain.
func TestAServerRestartsDuringAPreview(t *testing.T) {
	t.Run("between two edits", func(t *testing.T) {
		withServer(t, slowWriter(20), func(o *serverFixture) {
			withPreviews(o).start()
			o.platform.SendPrivate("ann", "go")
			o.platform.Await("a preview", func() bool { s := o.platform.Sent(); return len(s) == 1 && len(s[0].Versions) == 2 })
			o.stop()
			o.start()
			o.awaitSettled(2)
			o.expectSent(words(20))
		})
	})
	for name, c := range map[string]struct {
		history bool
		texts   int
		noted   int
	}{
		"while it is sent, with a history": {true, 1, 0},
		"while it is sent, with none":      {false, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := withPreviews(newServer(t, func(ctx context.Context, s mailroom.Session) error {
				if err := s.Stream(ctx, words(5)); err != nil || s.Run().Attempt > 1 {
					return err
				}
				<-ctx.Done() // writes until the server is killed
				return context.Cause(ctx)
			}))
			path := filepath.Join(t.TempDir(), "mailroom.db")
			o.open(path)
			if !c.history {
				o.platform.Hook(CallFind, func(context.Context, CallArgs) error { return chat.ErrNoHistory })
			}
			killed := make(chan struct{})
			o.platform.Capabilities.EditInterval = 10 * time.Millisecond
			o.platform.Hook(CallSend, func(_ context.Context, call CallArgs) error {
				call.Do()
				o.platform.Hook(CallSend, nil)
				err := o.store.Close()
				close(killed)
				return err
			})
			o.start()
			o.platform.SendPrivate("ann", "hello")
			<-killed
			o.stop()
			o.open(path)
			o.start()
			o.awaitSettled(2)
			if texts := o.sentTexts(); len(texts) != c.texts || texts[len(texts)-1] != words(5) {
				t.Errorf("got %q", texts)
			}
			if n := len(o.notes(outbound.KindUnsent)); n != c.noted {
				t.Errorf("%d entries for a preview that may remain", n)
			}
			o.stop()
			if err := o.store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// brokenStreams panic in the first Follow.
type brokenStreams struct {
	chat.Follower
	calls atomic.Int32
}

func (s *brokenStreams) Follow(ctx context.Context, q stream.Query, emit func(stream.Event) error) error {
	if s.calls.Add(1) == 1 {
		panic("bug")
	}
	return s.Follower.Follow(ctx, q, emit)
}

func TestAConversationIsShownAgainAfterAPanic(t *testing.T) {
	withServer(t, slowWriter(10), func(o *serverFixture) {
		withPreviews(o).follow = func(f chat.Follower) chat.Follower { return &brokenStreams{Follower: f} }
		o.start()
		o.platform.SendPrivate("ann", "go")
		o.awaitSettled(1)
		if n := len(o.platform.Sent()[0].Versions); n != 1 {
			t.Errorf("the first reply was shown %d times, want once", n)
		}
		o.platform.SendPrivate("ann", "again")
		o.awaitSettled(3)
		if n := len(o.platform.Sent()[1].Versions); n < 2 {
			t.Errorf("the second reply was shown %d times, want a preview before it", n)
		}
	})
}

// TestTheSilentWordDoesNotFlash lets a message to the agent arrive while its user follows the conversation, and has the
// agent write the word in pieces.
func TestTheSilentWordDoesNotFlash(t *testing.T) {
	beats := mailroom.AgentFunc(func(ctx context.Context, s mailroom.Session) error {
		if s.Run().Metadata["silent_word"] == "" {
			return slowWriter(10)(ctx, s)
		}
		for _, piece := range []string{"**HEART", "BEAT", "_OK", "**"} {
			if err := s.Stream(ctx, piece); err != nil {
				return err
			}
			<-time.After(4 * time.Second)
		}
		return nil
	})
	withServer(t, beats, func(o *serverFixture) {
		withPreviews(o).start()
		o.platform.SendPrivate("ann", "go")
		<-time.After(2 * time.Second)
		beat := func(key, word string) {
			_, err := o.ledger.Submit(o.t.Context(), thread.Submit{Key: key, Thread: channel.ThreadID("c", BotID, "with-ann"),
				Messages: []thread.NewMessage{{Parts: mailroom.Text("anything new?")}},
				Metadata: map[string]string{"silent_word": word}})
			if err != nil {
				t.Fatal(err)
			}
		}
		beat("one", "HEARTBEAT_OK")
		beat("two", "NOTHING")
		<-time.After(2 * time.Minute)
		o.expectSent(words(10), "**HEARTBEAT_OK**") // of the second one, for which it is no silent word
		for _, s := range o.platform.Sent() {
			for _, v := range s.Versions[:len(s.Versions)-1] {
				if strings.Contains(v.Text, "HEART") {
					t.Errorf("the chat showed %q", v.Text)
				}
			}
		}
	})
}
