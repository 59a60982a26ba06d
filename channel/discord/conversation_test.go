package discord_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/discord"
	"mailroom/channel/discord/discordtest"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/stream"
)

// startServer runs a server with the channel "dc" and an agent until the test ends. Ann is an
// admin, and everyone may use the bot in chats.
func startServer(t *testing.T, dc *discordtest.Platform, ann *discordtest.Person, agent mailroom.AgentFunc, chats ...string) {
	t.Helper()
	record := &logBuffer{}
	log := slog.New(slog.NewTextHandler(record, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b := bus.New()
	l := ledger.New(memory.New(), ledger.Options{
		Publish: func(thread string, entries []mailroom.Entry) { b.Publish(bus.Notice{Thread: thread, Entries: entries}) },
	})
	o := discord.Options{
		API: dc.URL, RoomInterval: 10 * time.Millisecond, EditInterval: 100 * time.Millisecond,
		Token: func() (string, error) { return discordtest.Token, nil },
	}
	runner := channel.New(channel.Options{
		Name: "dc", Kind: discord.Kind, Ledger: l, Log: log, Reconnect: channel.ReconnectPolicy{IdleTimeout: time.Minute}, // a slow machine must not look silent
		Connect: chat.Connect(chat.Options{
			Agent: "codex", Access: chat.AccessPolicy{Admins: []string{ann.ID}, Chats: chats, Pairing: true}, Follow: stream.New(l, b), Previews: true,
		}, o.Dialer()),
	})
	e := engine.New(l, b, engine.Options{
		Agents: map[string]engine.Agent{"codex": {Agent: agent}, channel.AgentName("dc"): {Agent: runner.Agent(), Ready: runner.Connected}},
		Local:  true, ShutdownGrace: 100 * time.Millisecond, Log: log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ledgerCtx, cancelLedger := context.WithCancel(context.Background())
	var parts, last sync.WaitGroup
	last.Go(func() { _ = l.Run(ledgerCtx) }) // callers get its errors
	parts.Go(func() { _ = e.Run(ctx) })      // callers get its errors
	parts.Go(func() { runner.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
		if t.Failed() {
			t.Logf("%s\n%s", record.String(), dc)
		}
	})
	dc.WaitFor(t, "the connection of the bot", func() bool { return dc.Connections() == 1 })
}

// approvalAgent asks for an approval and replies with the decision.
func approvalAgent(ctx context.Context, s mailroom.Session) error {
	got, err := s.Wait(ctx, false, mailroom.Ask{
		Name: "rm", Kind: mailroom.TicketApproval, Prompt: "May I?", Action: "rm -r build", Arguments: json.RawMessage(`{"path":"build"}`),
	})
	if err != nil {
		return err
	}
	return s.Stream(ctx, "It is **"+string(got[0].Decision)+"**.")
}

// question returns the message with buttons in a channel, nil if there is none.
func question(c *discordtest.Channel) (found *discordtest.Message) {
	for _, m := range c.Replies() {
		if len(m.Buttons) > 0 {
			found = &m
		}
	}
	return found
}

func TestLateButtonPressShowsTheDecision(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, bob, dev := dc.Person("Ann"), dc.Person("Bob"), dc.Channel("dev")
	startServer(t, dc, ann, approvalAgent)
	ann.Sends(dev, bot+" clean up")
	dc.WaitFor(t, "the question", func() bool { return question(dev) != nil })
	q := question(dev)
	if !strings.Contains(q.Text, "rm -r build") || len(q.Buttons) != 2 {
		t.Errorf("question %+v", q)
	}
	approve, deny := q.Buttons[0], q.Buttons[1]
	bobsPress := bob.Presses(dev, q.ID, approve.Label)
	press := ann.Presses(dev, q.ID, deny.Label)
	dc.WaitFor(t, "the reply of the agent", func() bool { return strings.Contains(strings.Join(dev.Texts(), "\n"), "It is **deny**.") })
	dc.WaitFor(t, "the redrawn question", func() bool { return question(dev) == nil })
	late := ann.PressesData(dev, q.ID, approve.Data) // on an outdated screen
	dc.WaitFor(t, "the answer to the late press", func() bool { _, n := late.Answer(dc); return n > 0 })
	for name, press := range map[string]*discordtest.ButtonPress{"the press": press, "the late press": late} {
		if answer, times := press.Answer(dc); times != 1 || !strings.HasPrefix(answer, "Denied by ") {
			t.Errorf("%s was answered %q, %d times", name, answer, times)
		}
	}
	if answer, times := bobsPress.Answer(dc); times != 1 || answer != "You may not decide this." {
		t.Errorf("another person's press was answered %q", answer)
	}
	if all := strings.Join(dev.Texts(), "\n"); strings.Contains(all, "Approved") || strings.Count(all, "It is **deny**.") != 1 {
		t.Errorf("the channel has\n%s", all)
	}
}

func TestACommandDecidesWhatAButtonWould(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	private := ann.Private()
	startServer(t, dc, ann, approvalAgent)
	ann.Sends(private, "clean up")
	dc.WaitFor(t, "the question", func() bool { return question(private) != nil })
	q := question(private)
	ann.Sends(private, "!status") // a later reply shows that the receipt of the question is stored
	dc.WaitFor(t, "the status", func() bool { return len(private.Texts()) == 2 })
	ann.Sends(private, "!approve")
	dc.WaitFor(t, "the reply of the agent", func() bool { return strings.Contains(strings.Join(private.Texts(), "\n"), "It is **approve**.") })
	dc.WaitFor(t, "the redrawn question", func() bool { return question(private) == nil })
	late := ann.PressesData(private, q.ID, q.Buttons[1].Data)
	dc.WaitFor(t, "the answer to the late press", func() bool { _, n := late.Answer(dc); return n > 0 })
	if answer, _ := late.Answer(dc); !strings.HasPrefix(answer, "Approved by ") || !strings.Contains(q.Text, "!approve") {
		t.Errorf("the late press was answered %q, after %q", answer, q.Text)
	}
}

func TestThreadOfAnAllowedChannelIsItsOwnConversation(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann, bob, dev, ops := dc.Person("Ann"), dc.Person("Bob"), dc.Channel("dev"), dc.Channel("ops")
	thread, other := dev.Thread("plans", true), ops.Thread("plans", true)
	var mu sync.Mutex
	threads := map[string][]string{}
	startServer(t, dc, ann, func(ctx context.Context, s mailroom.Session) error {
		input, err := s.Input(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		threads[s.Run().Thread] = append(threads[s.Run().Thread], input[0].Text)
		mu.Unlock()
		return s.Stream(ctx, "You said: "+input[0].Text)
	}, dev.ID)
	bob.Sends(other, bot+" is anybody here?") // an unauthorized user in this channel
	bob.Sends(thread, bot+" what about this?")
	dc.WaitFor(t, "the answer", func() bool { return len(thread.Texts()) == 1 })
	bob.Sends(dev, bot+": and here?")
	bob.Sends(thread, "!status")
	bob.Sends(thread, bot+" !deny")
	dc.WaitFor(t, "the other answers", func() bool { return len(thread.Texts()) == 2 && len(dev.Texts()) == 1 })
	if m := thread.Replies(); m[0].Text != "You said: From dc:"+bob.ID+" (calls themselves \"Bob\"):\n> what about this?" || m[0].ReplyTo == "" || !strings.HasPrefix(m[1].Text, "Only an admin may use !deny") {
		t.Errorf("the thread has %q", thread.Texts())
	}
	mu.Lock()
	defer mu.Unlock()
	if len(threads) != 2 || len(dev.Texts()) != 1 || len(ops.Texts())+len(other.Texts()) != 0 {
		t.Errorf("conversations %q; channels %q, %q, %q", threads, dev.Texts(), ops.Texts(), other.Texts())
	}
}

// TestRateLimitedChatGetsNoCalls checks that nothing is sent during a rate limit, and that the reply
// arrives once after it.
func TestRateLimitedChatGetsNoCalls(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	for name, everywhere := range map[string]bool{"one channel": false, "all events": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dc := discordtest.New(t)
			ann := dc.Person("Ann")
			done := make(chan struct{})
			startServer(t, dc, ann, func(ctx context.Context, s mailroom.Session) error {
				for i := range 1000 {
					select {
					case <-done:
						return s.Stream(ctx, "the end.")
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(40 * time.Millisecond):
					}
					if err := s.Stream(ctx, fmt.Sprintf("%d.\n", i)); err != nil { // short, so that the preview fits one message
						return err
					}
				}
				return nil
			})
			ann.Sends(ann.Private(), "tell me a story")
			dc.WaitFor(t, "a preview with edits", func() bool {
				r := ann.Private().Replies()
				return len(r) == 1 && r[0].Edits > 0
			})
			if everywhere {
				dc.LimitAll(limit)
			} else {
				dc.Limit(ann.Private(), limit)
			}
			began := time.Now()
			refused := func() (calls []discordtest.Call) {
				for _, c := range dc.Calls("") {
					if c.Status == 429 {
						calls = append(calls, c)
					}
				}
				return calls
			}
			dc.WaitFor(t, "the first rejected call", func() bool { return len(refused()) > 0 })
			close(done) // the reply is complete while the limit holds
			dc.WaitFor(t, "the final text", func() bool {
				r := ann.Private().Replies()
				return strings.HasSuffix(r[len(r)-1].Text, "the end.")
			})
			waited := time.Since(began)
			first := refused()[0]
			tries := 0
			for _, c := range dc.Calls("") {
				if c.At.After(first.At) && c.At.Before(began.Add(limit)) {
					tries++
					t.Errorf("%s was called %s after the limit began, and the first rejected call %s after: %d, %v", c.Name, c.At.Sub(began), first.At.Sub(began), c.Status, c.Params)
				}
			}
			if n := strings.Count(strings.Join(ann.Private().Texts(), "\n"), "the end."); n != 1 || waited < limit || len(ann.Private().Texts()) != 1 {
				t.Errorf("after %s the end arrived %d times in %d messages", waited, n, len(ann.Private().Texts()))
			}
			t.Logf("limit %s: rejected once (%s), tried %d times during it, the final text arrived once after %s", limit, first.Name, tries, waited.Round(time.Millisecond))
		})
	}
}

func TestALongAnswerArrivesWhole(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "%d 👩‍💻 some words, and 👋 more of them\n", i)
	}
	startServer(t, dc, ann, func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, text.String()) })
	ann.Sends(ann.Private(), "go on")
	want := strings.Fields(text.String())
	dc.WaitFor(t, "the whole reply", func() bool { return len(strings.Fields(strings.Join(ann.Private().Texts(), "\n"))) >= len(want) })
	if got := strings.Fields(strings.Join(ann.Private().Texts(), "\n")); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d messages with %d words, want %d", len(ann.Private().Texts()), len(got), len(want))
	}
}

// TestReplyWithALostReceiptIsSentOnce loses or breaks the responses to sends, and checks that
// each reply arrives once while its nonce is known.
func TestReplyWithALostReceiptIsSentOnce(t *testing.T) {
	t.Parallel()
	dc := discordtest.New(t)
	ann := dc.Person("Ann")
	startServer(t, dc, ann, func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, "done") })
	dc.Fail(discordtest.Send, discordtest.Fault{Lose: true}, discordtest.Fault{Status: 502, Raw: "bad gateway"})
	ann.Sends(ann.Private(), "do it")
	dc.WaitFor(t, "the answer", func() bool { return len(ann.Private().Texts()) > 0 })
	ann.Sends(ann.Private(), "and again")
	dc.WaitFor(t, "the next answer", func() bool { return len(ann.Private().Texts()) > 1 })
	if got := ann.Private().Texts(); len(got) != 2 {
		t.Errorf("Ann got %q", got)
	}
}
