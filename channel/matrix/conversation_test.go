package matrix_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/matrix"
	"mailroom/channel/matrix/matrixtest"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/store/memory"
	"mailroom/stream"
)

// conversation is a server whose channel "mx" connects an agent with Ann, an admin.
type conversation struct {
	t        *testing.T
	proxy    *matrixtest.Proxy
	bot, ann *matrixtest.Person
	private  string
}

func startServer(t *testing.T, url string, agent mailroom.AgentFunc) *conversation {
	t.Helper()
	w := &conversation{t: t, proxy: matrixtest.NewProxy(t, url)}
	w.bot, w.ann = matrixtest.NewPerson(t, url, "mailroom", "Mailroom"), matrixtest.NewPerson(t, url, "ann", "Ann")
	record := &logBuffer{}
	log := slog.New(slog.NewTextHandler(record, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b := bus.New()
	l := ledger.New(memory.New(), ledger.Options{
		Publish: func(thread string, entries []mailroom.Entry) { b.Publish(bus.Notice{Thread: thread, Entries: entries}) },
	})
	o := matrix.Options{
		Homeserver: w.proxy.URL, Poll: time.Second, Gap: 10 * time.Millisecond, EditGap: 100 * time.Millisecond,
		Token: func() (string, error) { return w.bot.Token, nil },
	}
	runner := channel.New(channel.Options{
		Name: "mx", Kind: matrix.Kind, Ledger: l, Log: log, Reconnect: channel.ReconnectPolicy{IdleTimeout: time.Minute}, // a busy machine must not look like a dead connection
		Connect: chat.Connect(chat.Options{
			Agent: "codex", Access: chat.AccessPolicy{Admins: []string{w.ann.ID}, Pairing: true}, Follow: stream.New(l, b), Previews: true,
		}, o.Dial),
	})
	e := engine.New(l, b, engine.Options{
		Agents: map[string]engine.Agent{"codex": {Agent: agent}, channel.AgentName("mx"): {Agent: runner.Agent()}},
		Local:  true, ShutdownGrace: 100 * time.Millisecond, Log: log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ledgerCtx, cancelLedger := context.WithCancel(context.Background())
	var parts, last sync.WaitGroup
	last.Go(func() { _ = l.Run(ledgerCtx) }) // returns when its context ends
	parts.Go(func() { _ = e.Run(ctx) })      // as above
	parts.Go(func() { runner.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		parts.Wait()
		cancelLedger()
		last.Wait()
		if t.Failed() {
			t.Logf("%s", record.String())
		}
	})
	w.private = w.newRoom(w.ann)
	return w
}

// newRoom creates a private room with the bot and waits until the bot has joined.
func (w *conversation) newRoom(who *matrixtest.Person) string {
	w.t.Helper()
	room := who.NewRoom(true, w.bot)
	matrixtest.WaitFor(w.t, "the bot there", func() bool { return who.IsIn(room, w.bot) })
	return room
}

// waitMessage waits for a message of the bot that begins with a text, and returns it.
func (w *conversation) waitMessage(who *matrixtest.Person, room, words string) (found string) {
	w.t.Helper()
	matrixtest.WaitFor(w.t, words, func() bool {
		i := slices.IndexFunc(who.Texts(room, w.bot), func(s string) bool { return strings.HasPrefix(s, words) })
		if i >= 0 {
			found = who.Texts(room, w.bot)[i]
		}
		return i >= 0
	})
	return found
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

func TestACommandDecidesOnceAndTheQuestionIsRedrawn(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := startServer(t, url, approvalAgent)
		bob := matrixtest.NewPerson(t, url, "bob", "Bob")
		group := w.ann.NewRoom(false, w.bot, bob)
		bob.Joins(group)
		matrixtest.WaitFor(t, "the bot there", func() bool { return w.ann.IsIn(group, w.bot) })
		w.ann.Says(group, "Mailroom: clean up")
		asked := w.waitMessage(w.ann, group, "codex asks: May I?")
		word := regexp.MustCompile(`!approve (\S+)`).FindStringSubmatch(asked)
		if word == nil || !strings.Contains(asked, "rm -r build") {
			t.Fatalf("the question is %q", asked)
		}
		bob.Says(group, "Mailroom: !approve "+word[1])
		w.ann.Says(group, "Mailroom: !deny "+word[1])
		w.waitMessage(w.ann, group, "It is **deny**.")
		matrixtest.WaitFor(t, "the question redrawn", func() bool {
			return !strings.Contains(strings.Join(w.ann.Texts(group, w.bot), "\n"), "!approve")
		})
		w.ann.Says(group, "Mailroom: !approve "+word[1]) // a client that still shows the open question
		matrixtest.WaitFor(t, "the late one answered", func() bool { return strings.Count(strings.Join(w.ann.Texts(group, w.bot), "\n"), "Denied by") >= 2 })
		all := strings.Join(w.ann.Texts(group, w.bot), "\n")
		if strings.Contains(all, "Approved") || strings.Count(all, "It is **deny**.") != 1 || strings.Contains(all, "bob") {
			t.Errorf("the group reads\n%s", all)
		}
	})
}

// TestWhileTheAccountIsLimitedNothingIsTried checks that the text written during the limit arrives
// once, when the limit ends.
func TestWhileTheAccountIsLimitedNothingIsTried(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second
	done := make(chan struct{})
	w := startServer(t, matrixtest.Start(t).URL, func(ctx context.Context, s mailroom.Session) error {
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
	w.ann.Says(w.private, "tell me a long story")
	edits := func() int { return len(w.proxy.Calls("send")) - 1 }
	matrixtest.WaitFor(t, "a preview that grows", func() bool { return edits() > 0 })
	w.proxy.Limit(limit)
	began := time.Now()
	refused := func() (calls []matrixtest.Call) {
		for _, c := range w.proxy.Calls("") {
			if c.Status == 429 {
				calls = append(calls, c)
			}
		}
		return calls
	}
	matrixtest.WaitFor(t, "the first that is refused", func() bool { return len(refused()) > 0 })
	close(done) // the final text is complete while the limit holds
	matrixtest.WaitFor(t, "the final text", func() bool {
		texts := w.ann.Texts(w.private, w.bot)
		return strings.HasSuffix(texts[len(texts)-1], "the end.")
	})
	waited, first, tries := time.Since(began), refused()[0], 0
	for _, c := range w.proxy.Calls("") {
		if (c.Name == "send" || c.Name == "typing") && c.At.After(first.At) && c.At.Before(began.Add(limit)) {
			tries++
			t.Errorf("%s was called %s after the start of the limit, the first call %s after: %d", c.Path, c.At.Sub(began), first.At.Sub(began), c.Status)
		}
	}
	texts := w.ann.Texts(w.private, w.bot)
	if n := strings.Count(strings.Join(texts, "\n"), "the end."); n != 1 || waited < limit || len(texts) != 1 {
		t.Errorf("after %s the final text is %d times in %d messages", waited, n, len(texts))
	}
	t.Logf("limit %s: refused once (%s), tried %d times until then, the final text arrived once after %s", limit, first.Name, tries, waited.Round(time.Millisecond))
}

func TestALongAnswerArrivesWhole(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		var said strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&said, "%d 👩‍💻 some words, and 👋 more of them\n", i)
		}
		w := startServer(t, url, func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, said.String()) })
		w.ann.Says(w.private, "go on")
		want := strings.Fields(said.String())
		matrixtest.WaitFor(t, "the whole", func() bool {
			return len(strings.Fields(strings.Join(w.ann.Texts(w.private, w.bot), "\n"))) >= len(want)
		})
		if got := strings.Fields(strings.Join(w.ann.Texts(w.private, w.bot), "\n")); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%d messages hold %d words, want %d", len(w.ann.Texts(w.private, w.bot)), len(got), len(want))
		}
	})
}

// TestOnlyAllowedUsersCanInviteTheBot also checks that a private room with a stranger serves for
// pairing only.
func TestOnlyAllowedUsersCanInviteTheBot(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := startServer(t, url, func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, "yes") })
		bob := matrixtest.NewPerson(t, url, "bob", "Bob")
		group := bob.NewRoom(false, w.bot)
		private := w.newRoom(bob)
		bob.Says(private, "hello?")
		w.waitMessage(bob, private, "I do not know you.")
		if bob.IsIn(group, w.bot) {
			t.Error("the bot joined a stranger's group")
		}
		w.ann.Says(w.private, "and I?")
		w.waitMessage(w.ann, w.private, "yes")
	})
}

// TestAnEncryptedRoomGetsOneNotice is for rooms of authorized users.
func TestAnEncryptedRoomGetsOneNotice(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		w := startServer(t, url, func(ctx context.Context, s mailroom.Session) error { return s.Stream(ctx, "yes") })
		for i := range 3 {
			w.ann.Sends(w.private, "m.room.encrypted", map[string]any{"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": fmt.Sprint(i)})
		}
		w.waitMessage(w.ann, w.private, "This room is encrypted")
		w.ann.Says(w.private, "plainly")
		w.waitMessage(w.ann, w.private, "yes")
		if got := w.ann.Texts(w.private, w.bot); len(got) != 2 {
			t.Errorf("the bot said %q", got)
		}
	})
}
