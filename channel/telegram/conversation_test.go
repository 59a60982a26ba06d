package telegram_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/telegram"
	"mailroom/channel/telegram/telegramtest"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/stream"
)

// startServer runs a server with the channel "tg" and an agent until the test ends. Ann is an
// admin.
func startServer(t *testing.T, tg *telegramtest.Platform, ann *telegramtest.Person, agent mailroom.AgentFunc) {
	t.Helper()
	access := chat.AccessPolicy{Admins: []string{fmt.Sprint(ann.ID)}, Pairing: true}
	startServerWith(t, tg, chat.Options{Agent: "codex", Access: access, Previews: true}, agent)
}

// discardFiles is a [chat.FileStore] that discards the content.
type discardFiles struct{}

func (discardFiles) Save(_ context.Context, name string, r io.Reader) (string, error) {
	_, err := io.Copy(io.Discard, r)
	return "nowhere:" + name, err
}

// startServerWith is like startServer with other options; it sets Follow.
func startServerWith(t *testing.T, tg *telegramtest.Platform, options chat.Options, agent mailroom.AgentFunc) {
	t.Helper()
	record := &logBuffer{}
	log := slog.New(slog.NewTextHandler(record, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b := bus.New()
	l := ledger.New(memory.New(), ledger.Options{
		Publish: func(thread string, entries []mailroom.Entry) { b.Publish(bus.Notice{Thread: thread, Entries: entries}) },
	})
	options.Follow = stream.New(l, b)
	o := telegram.Options{
		API: tg.URL, Poll: time.Second, RoomInterval: 10 * time.Millisecond, EditInterval: 100 * time.Millisecond,
		Token:    func() (string, error) { return telegramtest.Token, nil },
		Commands: []telegram.Command{{Name: "stop", Description: "stop it"}},
	}
	runner := channel.New(channel.Options{
		Name: "tg", Kind: telegram.Kind, Ledger: l, Log: log, Reconnect: channel.ReconnectPolicy{IdleTimeout: time.Minute}, // a slow machine must not look silent
		Connect: chat.Connect(options, o.Dial),
	})
	e := engine.New(l, b, engine.Options{
		Agents: map[string]engine.Agent{"codex": {Agent: agent}, channel.AgentName("tg"): {Agent: runner.Agent(), Ready: runner.Connected}},
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
			t.Logf("%s\n%s", record.String(), tg)
		}
	})
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

func TestAButtonDecidesOnceAndIsRedrawn(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann, bob := tg.Person("Ann"), tg.Person("Bob")
	group := tg.Group("team")
	startServer(t, tg, ann, approvalAgent)
	ann.Sends(group, "@mailroom_bot clean up")
	asked := func() (found *telegramtest.Message) {
		for _, m := range group.Replies() {
			if len(m.Buttons) > 0 {
				found = &m
			}
		}
		return found
	}
	tg.WaitFor(t, "the question", func() bool { return asked() != nil })
	q := asked()
	if !strings.Contains(q.Text, "rm -r build") || len(q.Buttons) != 2 {
		t.Errorf("question %+v", q)
	}
	approve, deny := q.Buttons[0], q.Buttons[1]
	bobsPress := bob.Presses(group, q.ID, approve.Label)
	tg.WaitFor(t, "the answer to Bob's press", func() bool { _, n := bobsPress.Answer(tg); return n > 0 && tg.Pending() == 0 })
	if answer, times := bobsPress.Answer(tg); answer != "You may not decide this." || times != 1 || asked() == nil {
		t.Errorf("another person's press was answered %q, %d times", answer, times)
	}
	press := ann.Presses(group, q.ID, deny.Label)
	tg.WaitFor(t, "the reply of the agent", func() bool { return strings.Contains(strings.Join(group.Texts(), "\n"), "It is deny.") })
	tg.WaitFor(t, "the redrawn question", func() bool { return asked() == nil })
	late := ann.PressesData(group, q.ID, approve.Data) // on an outdated screen
	tg.WaitFor(t, "the answer to the late press", func() bool { _, n := late.Answer(tg); return n > 0 })
	for name, press := range map[string]*telegramtest.ButtonPress{"the press": press, "the late press": late} {
		if answer, times := press.Answer(tg); times != 1 || !strings.HasPrefix(answer, "Denied by ") {
			t.Errorf("%s was answered %q, %d times", name, answer, times)
		}
	}
	if all := strings.Join(group.Texts(), "\n"); strings.Contains(all, "Approved") || strings.Count(all, "It is deny.") != 1 {
		t.Errorf("the group has\n%s", all)
	}
	if tg.Commands() != 1 {
		t.Errorf("%d commands in the menu", tg.Commands())
	}
}

// TestAnOldApprovalInATopicIsDecided presses a button of a message that is too old for the bot
// to access: the update does not contain the topic.
func TestAnOldApprovalInATopicIsDecided(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	forum, other := tg.Group("forum"), tg.Group("other")
	topic := forum.Topic()
	startServer(t, tg, ann, approvalAgent)
	ann.Sends(forum, "@mailroom_bot clean up", telegramtest.MessageOptions{Topic: topic})
	var q telegramtest.Message
	tg.WaitFor(t, "the question", func() bool {
		for _, m := range forum.Replies() {
			if len(m.Buttons) > 0 {
				q = m
			}
		}
		return q.ID != 0
	})
	elsewhere := ann.PressesInaccessibleData(other, q.Buttons[0].Data) // the same data in another chat
	tg.WaitFor(t, "the answer to the press elsewhere", func() bool { _, n := elsewhere.Answer(tg); return n > 0 })
	if answer, _ := elsewhere.Answer(tg); !strings.Contains(answer, "matches no question") {
		t.Errorf("a press in another chat was answered %q", answer)
	}
	press := ann.PressesInaccessible(forum, q.ID, q.Buttons[0].Label)
	tg.WaitFor(t, "the reply of the agent", func() bool { return strings.Contains(strings.Join(forum.Texts(), "\n"), "It is approve.") })
	tg.WaitFor(t, "the answer to the press", func() bool { _, n := press.Answer(tg); return n > 0 })
	if answer, _ := press.Answer(tg); !strings.HasPrefix(answer, "Approved by ") {
		t.Errorf("the press was answered %q", answer)
	}
}

// TestRateLimitedChatGetsNoCalls checks that nothing is sent during a rate limit, and that the reply
// arrives once after it.
func TestRateLimitedChatGetsNoCalls(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	done := make(chan struct{})
	startServer(t, tg, ann, func(ctx context.Context, s mailroom.Session) error {
		for i := range 1000 {
			select {
			case <-done:
				return s.Stream(ctx, "the end.")
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
			if err := s.Stream(ctx, fmt.Sprintf("Line %d of it.\n", i)); err != nil {
				return err
			}
		}
		return nil
	})
	ann.Sends(ann.Private(), "tell me a long story")
	tg.WaitFor(t, "a preview with edits", func() bool {
		r := ann.Private().Replies()
		return len(r) == 1 && r[0].Edits > 0
	})
	tg.Limit(ann.Private(), limit)
	began := time.Now()
	refused := func() (calls []telegramtest.Call) {
		for _, c := range tg.Calls("") {
			if c.Status == 429 {
				calls = append(calls, c)
			}
		}
		return calls
	}
	tg.WaitFor(t, "the first rejected call", func() bool { return len(refused()) > 0 })
	close(done) // the reply is complete while the limit holds
	whole := func() bool {
		r := ann.Private().Replies()
		return strings.HasSuffix(r[len(r)-1].Text, "the end.")
	}
	tg.WaitFor(t, "the final text", whole)
	waited := time.Since(began)
	first := refused()[0]
	tries := 0
	for _, c := range tg.Calls("") {
		if c.At.After(first.At) && c.At.Before(began.Add(limit)) && c.Params["chat_id"] != nil {
			tries++
			t.Errorf("%s was called %s after the limit began, and the first rejected call %s after: %d, %v", c.Name, c.At.Sub(began), first.At.Sub(began), c.Status, c.Params)
		}
	}
	if n := strings.Count(strings.Join(ann.Private().Texts(), "\n"), "the end."); n != 1 || waited < limit || len(ann.Private().Texts()) != 1 {
		t.Errorf("after %s the end arrived %d times in %d messages", waited, n, len(ann.Private().Texts()))
	}
	t.Logf("limit %s: rejected once (%s), tried %d times during it, the final text arrived once after %s", limit, first.Name, tries, waited.Round(time.Millisecond))
}

func TestALongAnswerArrivesWhole(t *testing.T) {
	t.Parallel()
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	var text strings.Builder
	for i := range 400 {
		fmt.Fprintf(&text, "%d 👩‍💻 some words, and 👋 more of them\n", i)
	}
	startServer(t, tg, ann, func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, text.String()) })
	ann.Sends(ann.Private(), "go on")
	want := strings.Fields(text.String())
	tg.WaitFor(t, "the whole reply", func() bool { return len(strings.Fields(strings.Join(ann.Private().Texts(), "\n"))) >= len(want) })
	if got := strings.Fields(strings.Join(ann.Private().Texts(), "\n")); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d messages with %d words, want %d", len(ann.Private().Texts()), len(got), len(want))
	}
}
