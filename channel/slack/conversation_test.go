package slack_test

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
	"mailroom/channel/slack"
	"mailroom/channel/slack/slacktest"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/stream"
)

// startServer runs a server with the channel "sl" and an agent until the test ends. Ann is an
// admin. rest waits until no run or delivery is pending.
func startServer(t *testing.T, sl *slacktest.Platform, ann *slacktest.Person, previews bool, agent mailroom.AgentFunc) (rest func()) {
	t.Helper()
	record := &logBuffer{}
	log := slog.New(slog.NewTextHandler(record, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b := bus.New()
	l := ledger.New(memory.New(), ledger.Options{
		Publish: func(thread string, entries []mailroom.Entry) { b.Publish(bus.Notice{Thread: thread, Entries: entries}) },
	})
	o := slack.Options{
		API: sl.URL, RoomInterval: 10 * time.Millisecond, EditInterval: 100 * time.Millisecond, IdleTimeout: time.Second,
		Token:    func() (string, error) { return slacktest.Token, nil },
		AppToken: func() (string, error) { return slacktest.AppToken, nil },
	}
	runner := channel.New(channel.Options{
		Name: "sl", Kind: slack.Kind, Ledger: l, Log: log, Reconnect: channel.ReconnectPolicy{IdleTimeout: time.Minute}, // a slow machine must not look silent
		Connect: chat.Connect(chat.Options{
			Agent: "codex", Access: chat.AccessPolicy{Admins: []string{ann.ID}, Pairing: true}, Follow: stream.New(l, b), Previews: previews,
		}, o.Dial),
	})
	e := engine.New(l, b, engine.Options{
		Agents: map[string]engine.Agent{"codex": {Agent: agent}, channel.AgentName("sl"): {Agent: runner.Agent(), Ready: runner.Connected}},
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
			t.Logf("%s\n%s", record.String(), sl)
		}
	})
	return func() {
		t.Helper()
		waitFor(t, "everything delivered", func() bool {
			left := 1
			err := l.View(ctx, func(r store.Reader) (err error) {
				counts, err := r.Count(store.CountQuery{Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning}})
				left = counts.Sum()
				return err
			})
			return err == nil && left == 0
		})
	}
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
func question(c *slacktest.Channel) (found *slacktest.Message) {
	for _, m := range c.Replies() {
		if len(m.Buttons) > 0 {
			found = &m
		}
	}
	return found
}

func TestAButtonDecidesOnceAndIsRedrawn(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, bob, dev := sl.Person("Ann"), sl.Person("Bob"), sl.Channel("dev")
	startServer(t, sl, ann, true, approvalAgent)
	root := ann.Sends(dev, mention+" clean up")
	sl.WaitFor(t, "the question", func() bool { return question(dev) != nil })
	q := question(dev)
	if !strings.Contains(q.PlainText, "rm -r build") || len(q.Buttons) != 2 || q.Thread != root {
		t.Errorf("question %+v", q)
	}
	approve, deny := q.Buttons[0], q.Buttons[1]
	sl.WaitFor(t, "the acknowledgement of the question", func() bool { return sl.Pending() == 0 })
	bob.Presses(dev, q.TS, approve.Label)
	sl.WaitFor(t, "the answer to Bob", func() bool { return len(dev.Ephemeral(bob)) > 0 })
	if answers := dev.Ephemeral(bob); len(answers) != 1 || answers[0] != "You may not decide this." || question(dev) == nil {
		t.Errorf("another person's press was answered %q", answers)
	}
	ann.Presses(dev, q.TS, deny.Label)
	sl.WaitFor(t, "the reply of the agent", func() bool { return strings.Contains(strings.Join(dev.Texts(), "\n"), "It is *deny*.") })
	sl.WaitFor(t, "the redrawn question", func() bool { return question(dev) == nil })
	ann.PressesData(dev, q.TS, approve.Value) // on an outdated screen
	sl.WaitFor(t, "the answer to the late press", func() bool { return len(dev.Ephemeral(ann)) == 2 })
	for _, answer := range dev.Ephemeral(ann) {
		if !strings.HasPrefix(answer, "Denied by ") {
			t.Errorf("a press was answered %q", answer)
		}
	}
	if all := strings.Join(dev.Texts(), "\n"); strings.Contains(all, "Approved") || strings.Count(all, "It is *deny*.") != 1 {
		t.Errorf("the channel has\n%s", all)
	}
	for _, m := range dev.Replies() {
		if m.Thread != root {
			t.Errorf("a reply outside of the thread: %+v", m)
		}
	}
}

func TestACommandDecidesInTheThreadThatAsked(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann, dev := sl.Person("Ann"), sl.Channel("dev")
	rest := startServer(t, sl, ann, true, approvalAgent)
	one := ann.Sends(dev, mention+" clean up")
	two := ann.Sends(dev, mention+" clean up too")
	asked := func(thread string) (n int) {
		for _, m := range dev.Replies() {
			if m.Thread == thread && len(m.Buttons) > 0 {
				n++
			}
		}
		return n
	}
	sl.WaitFor(t, "both questions", func() bool { return asked(one) == 1 && asked(two) == 1 })
	rest() // wait until the receipts of the questions are stored
	ann.Sends(dev, mention+" !approve", slacktest.MessageOptions{Thread: two})
	replied := func(thread, text string) bool {
		for _, m := range dev.Replies() {
			if m.Thread == thread && strings.Contains(m.PlainText, text) {
				return true
			}
		}
		return false
	}
	sl.WaitFor(t, "the outcome of the second question", func() bool { return replied(two, "It is *approve*.") && asked(two) == 0 })
	if asked(one) != 1 || replied(one, "It is") {
		t.Errorf("the other question was decided: %q", dev.Texts())
	}
	ann.Sends(ann.Private(), "!help")
	sl.WaitFor(t, "the help", func() bool { return len(ann.Private().Texts()) > 0 })
	if text := ann.Private().Texts()[0]; !strings.Contains(text, "!approve") || strings.Contains(text, "/") {
		t.Errorf("help: %q", text)
	}
}

// TestRateLimitedMethodGetsNoCalls checks that nothing is sent during a rate limit, and that the reply
// arrives once after it.
func TestRateLimitedMethodGetsNoCalls(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	done := make(chan struct{})
	startServer(t, sl, ann, true, func(ctx context.Context, s mailroom.Session) error {
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
	sl.WaitFor(t, "a preview with edits", func() bool {
		r := ann.Private().Replies()
		return len(r) == 1 && r[0].Edits > 0
	})
	sl.Limit("chat.update", limit)
	sl.Limit("chat.postMessage", limit)
	began := time.Now()
	refused := func() (calls []slacktest.Call) {
		for _, c := range sl.Calls("") {
			if c.Code == "ratelimited" {
				calls = append(calls, c)
			}
		}
		return calls
	}
	sl.WaitFor(t, "the first rejected call", func() bool { return len(refused()) > 0 })
	close(done) // the reply is complete while the limit holds
	sl.WaitFor(t, "the final text", func() bool {
		r := ann.Private().Replies()
		return strings.HasSuffix(r[len(r)-1].PlainText, "the end.")
	})
	waited := time.Since(began)
	first := refused()[0]
	tries := 0
	for _, c := range sl.Calls("") {
		if c.At.After(first.At) && c.At.Before(began.Add(limit)) && strings.HasPrefix(c.Name, "chat.") {
			tries++
			t.Errorf("%s was called %s after the limit began: %s, %v", c.Name, c.At.Sub(began), c.Code, c.Params)
		}
	}
	if n := strings.Count(strings.Join(ann.Private().Texts(), "\n"), "the end."); n != 1 || waited < limit || len(ann.Private().Texts()) != 1 {
		t.Errorf("after %s the end arrived %d times in %d messages", waited, n, len(ann.Private().Texts()))
	}
	t.Logf("limit %s: rejected once (%s), tried %d times during it, the final text arrived once after %s", limit, first.Name, tries, waited.Round(time.Millisecond))
}

// TestReplyWithALostReceiptIsSentOnce loses or breaks the responses to sends, and checks that
// no reply is sent twice.
func TestReplyWithALostReceiptIsSentOnce(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	sl.Fail("chat.postMessage", slacktest.Fault{Lose: true}, slacktest.Fault{Code: "internal_error"}, slacktest.Fault{Half: true})
	startServer(t, sl, ann, false, func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, "the answer") })
	ann.Sends(ann.Private(), "well?")
	sl.WaitFor(t, "the answer", func() bool { return len(ann.Private().Texts()) > 0 })
	ann.Sends(ann.Private(), "and?")
	sl.WaitFor(t, "the next one", func() bool { return len(ann.Private().Texts()) > 1 })
	ann.Sends(ann.Private(), "so?")
	sl.WaitFor(t, "the last one", func() bool { return len(ann.Private().Texts()) > 2 })
	if got := strings.Join(ann.Private().Texts(), ", "); got != "the answer, the answer, the answer" {
		t.Errorf("Ann got %q", got)
	}
	if n := len(sl.Calls("conversations.history")); n != 3 {
		t.Errorf("%d searches for a message, want 3", n)
	}
}

func TestALongAnswerArrivesWhole(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "%d 👩‍💻 some <words> & 👋 more of them\n", i)
	}
	startServer(t, sl, ann, true, func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, text.String()) })
	ann.Sends(ann.Private(), "go on")
	want := strings.Fields(text.String())
	sl.WaitFor(t, "the whole reply", func() bool { return len(strings.Fields(strings.Join(ann.Private().Texts(), "\n"))) >= len(want) })
	if got := strings.Fields(strings.Join(ann.Private().Texts(), "\n")); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d words, want %d", len(got), len(want))
	}
}
