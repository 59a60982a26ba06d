package adapter_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/store"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// TestEachTierHasItsCommands runs each command as each kind of user, in private, in an open group and in a
// closed one.
func TestEachTierHasItsCommands(t *testing.T) {
	const closed = "closed"
	commands := []string{"hello", "/help", "/status", "/queue q", "/steer s", "/new", "/stop", "/approve", "/deny"}
	for _, tc := range []struct {
		user, group string // "" in private
		want        string // per command: a answered, t sent to the agent, r refused, - ignored
	}{
		{boss, "", "taattaaaa"}, {friend, "", "taattaarr"}, {stranger, "", "---------"},
		{boss, closed, "taattaaaa"}, {friend, closed, "taattaarr"}, {stranger, closed, "---------"},
		{stranger, room, "taattaarr"}, {boss, room, "taattaaaa"},
	} {
		t.Run(tc.user+" "+tc.group, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.access.Pairing = false
			w.start()
			got := ""
			for _, c := range commands {
				before, heard := len(w.platform.Sent()), len(w.awaitHeard(0))
				if tc.group == "" {
					w.platform.SendPrivate(tc.user, c)
				} else {
					w.platform.SendGroup(tc.group, tc.user, c)
				}
				w.awaitSettled()
				after := texts(w.platform.Sent())[before:]
				switch {
				case len(w.awaitHeard(0)) > heard:
					got += "t"
				case len(after) == 0:
					got += "-"
				case strings.Contains(after[0], "Only an admin"):
					got += "r"
				default:
					got += "a"
				}
			}
			wantEqual(t, fmt.Sprint(commands), got, tc.want)
			if tc.user == stranger && tc.group != room {
				wantEqual(t, "threads", w.threads(), nil)
			}
		})
	}
}

func TestACommandActsWhileTheAgentIsBusy(t *testing.T) {
	w := newFixture(t).start()
	w.platform.SendPrivate(boss, "hold")
	w.awaitHeard(1)
	w.platform.SendPrivate(boss, "later")
	w.platform.SendPrivate(boss, "/status")
	s := w.awaitText("is running, since")
	if !strings.Contains(s.Message.Text, "1 message waiting") {
		t.Errorf("status: %s", s.Message.Text)
	}
	w.platform.SendPrivate(boss, "/stop")
	w.awaitText("Stopping. Discarded from the queue: 1 message.")
	w.awaitSettled()
	w.platform.SendPrivate(boss, "next")
	w.awaitText("next!")
	wantEqual(t, "messages to the agent", w.awaitHeard(2), []string{"hold", "next"})
}

func TestAMessageToABusyAgentFollowsTheMode(t *testing.T) {
	for _, tc := range []struct {
		busy  mailroom.Mode
		say   string
		heard string
		steer string
	}{
		{"", "more", "hold,more", ""}, {mailroom.ModeQueue, "/steer more", "hold", "more"},
		{mailroom.ModeSteer, "more", "hold", "more"}, {mailroom.ModeSteer, "/queue more", "hold,more", ""},
		{mailroom.ModeInterrupt, "more", "hold,more", ""}, {mailroom.ModeCollect, "more", "hold,more", ""},
	} {
		t.Run(string(tc.busy)+" "+tc.say, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t)
			w.access.BusyMode = tc.busy
			w.start()
			w.platform.SendPrivate(boss, "hold")
			w.awaitHeard(1)
			w.platform.SendPrivate(boss, tc.say)
			w.platform.AwaitReceived()
			if tc.busy == mailroom.ModeInterrupt {
				w.awaitHeard(2) // before it is released
			}
			if tc.steer != "" {
				w.await("it to be steered", func(store.Reader) bool {
					w.agent.mu.Lock()
					defer w.agent.mu.Unlock()
					return len(w.agent.steered) > 0
				})
			}
			w.agent.release()
			w.awaitSettled()
			wantEqual(t, "messages to the agent", strings.Join(w.awaitHeard(1), ","), tc.heard)
			w.agent.mu.Lock()
			defer w.agent.mu.Unlock()
			wantEqual(t, "steered", strings.Join(w.agent.steered, ","), tc.steer)
		})
	}
}

func TestANewConversationIsAnotherThreadInTheSameRoom(t *testing.T) {
	w := newFixture(t).start()
	w.platform.SendPrivate(boss, "hold")
	w.awaitHeard(1)
	w.platform.SendPrivate(boss, "/new")
	w.platform.SendPrivate(boss, "fresh")
	w.awaitText("fresh!") // while the old run continues
	w.agent.release()
	w.awaitText("hold!")
	w.agent.mu.Lock()
	defer w.agent.mu.Unlock()
	if a, b := w.agent.threads[0], w.agent.threads[1]; a == b || !strings.HasPrefix(b, a+":::") {
		t.Errorf("conversations %s and %s", a, b)
	}
	for _, s := range w.platform.Sent() {
		wantEqual(t, "room of "+s.Message.Text, s.Room, PrivateRoom(boss))
	}
}

func TestEachUserOfAGroupCanHaveAConversation(t *testing.T) {
	w := newFixture(t)
	w.access.PerUser = true
	w.start()
	w.platform.SendGroup(room, "x", "hold")
	w.awaitHeard(1)
	w.platform.SendGroup(room, "y", "hello")
	w.awaitText("hello!")
	w.await("the delivery to end, which /stop would end", func(r store.Reader) bool {
		counts, err := r.Count(store.CountQuery{Agent: "channel:tg",
			Statuses: []mailroom.Status{mailroom.StatusQueued, mailroom.StatusRunning}})
		return err == nil && counts.Sum() == 0
	})
	w.platform.SendGroup(room, "y", "/stop")
	w.awaitText("Nothing is running.")
	w.platform.SendGroup(room, "x", "/stop")
	w.awaitText("Stopping.")
}

func TestAnApprovalIsDecidedByCommandAndByButton(t *testing.T) {
	for name, decide := range map[string]func(w *fixture, s Sent){
		"run: approvedecided by command": func(w *fixture, _ Sent) { w.platform.SendPrivate(boss, "/approve") },
		"run: denydecided by command":    func(w *fixture, _ Sent) { w.platform.SendPrivate(boss, "/deny too risky") },
		"run: approvedecided by button": func(w *fixture, s Sent) {
			w.platform.PressButton(boss, s, s.Versions[0].Buttons[0].Label)
		},
		"run: denydecided by button": func(w *fixture, s Sent) {
			w.platform.PressButton(boss, s, s.Versions[0].Buttons[1].Label)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t).start()
			w.platform.SendPrivate(boss, "ask run")
			s := w.awaitText("May I run?")
			w.awaitSettled()
			decide(w, s)
			want, _, _ := strings.Cut(name, " by ")
			w.awaitText(want)
			wantEqual(t, "decided by", w.ticket().DecidedBy, "tg:"+boss)
		})
	}
}

func TestALateButtonPressShowsTheDecision(t *testing.T) {
	w := newFixture(t).start()
	w.platform.SendPrivate(boss, "ask run")
	s := w.awaitText("May I run?")
	w.awaitSettled()
	awaitAcks := func(n int) { // they are sent in the background
		t.Helper()
		w.platform.Await(fmt.Sprint(n, " button results"), func() bool { return len(w.platform.ButtonAcks()) == n })
	}
	w.platform.PressButton(friend, s, s.Versions[0].Buttons[0].Label)
	w.platform.AwaitReceived()
	awaitAcks(1)
	wantEqual(t, "the ticket after an unauthorized button press", w.ticket().State, mailroom.TicketOpen)
	w.platform.SendPrivate(boss, "/deny")
	w.awaitText("Denied by")
	w.platform.PressButton(boss, s, s.Versions[0].Buttons[0].Label)
	w.awaitSettled()
	awaitAcks(2)
	acks := w.platform.ButtonAcks()
	if len(acks) != 2 || !strings.Contains(acks[0].Text, "Only an admin") ||
		!strings.HasPrefix(acks[1].Text, "Denied by") {
		t.Errorf("button results %+v", acks)
	}
	wantEqual(t, "the decision", w.ticket().Decision, mailroom.VerdictDeny)
}

func TestAButtonOfAnotherRoomDecidesNothing(t *testing.T) {
	w := newFixture(t).start()
	w.platform.SendPrivate(boss, "ask run")
	s := w.awaitText("May I run?")
	w.awaitSettled()
	w.platform.AddEvent(chat.Event{Kind: chat.EventButton, Room: GroupRoom(room), User: chat.User{ID: boss},
		TargetID: s.ID, Data: s.Versions[0].Buttons[0].Data})
	w.platform.SendGroup(room, boss, "/approve")
	w.awaitText("No question in this chat")
	wantEqual(t, "the ticket", w.ticket().State, mailroom.TicketOpen)
}

// TestAKillBetweenAnyTwoWritesChangesNothing runs each command with a kill at each write of the
// ledger, with the write lost or applied, and restarts.
func TestAKillBetweenAnyTwoWritesChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		before []string // earlier messages, settled except "hold"
		say    string
		press  bool
		heard  string // all inputs of the agent, with a last "after"
		words  string // the response, expected once
	}{
		"message": {say: "hello", heard: "hello,after", words: "hello!"},
		"queue":   {say: "/queue hello", heard: "hello,after", words: "hello!"},
		"help":    {say: "/help", heard: "after", words: "act at once"},
		"status":  {say: "/status", heard: "after", words: "no messages yet"},
		"new":     {before: []string{"one"}, say: "/new", heard: "one,after", words: "A new conversation"},
		"stop":    {before: []string{"hold"}, say: "/stop", heard: "hold,after", words: "Stopping."},
		"approve": {before: []string{"ask run"}, say: "/approve", heard: "ask run,after", words: "Approved by Name of"},
		"deny":    {before: []string{"ask run"}, say: "/deny no", heard: "ask run,after", words: "Denied by Name of"},
		"tap":     {before: []string{"ask run"}, press: true, heard: "ask run,after", words: "Approved by Name of"},
	} {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s applied=%v", name, applied), func(t *testing.T) {
				t.Parallel()
				writes := 0
				for n := 1; ; n++ {
					w := newFixture(t)
					if !w.runWithKill(tc.before, tc.say, tc.press, n, applied) {
						w.stop()
						break
					}
					writes++
					w.platform.SendPrivate(boss, "after")
					w.awaitText("after!")
					w.awaitSettled()
					wantEqual(t, fmt.Sprintf("messages to the agent, killed at write %d", n), strings.Join(w.awaitHeard(0), ","),
						tc.heard)
					if got := strings.Count(strings.Join(versions(w.platform.Sent()), "\n"), tc.words); got != 1 {
						t.Errorf("killed at write %d: %q sent %d times: %q", n, tc.words, got, versions(w.platform.Sent()))
					}
					w.stop()
				}
				if writes == 0 {
					t.Error("no write was killed")
				}
			})
		}
	}
}

// versions returns every text that the platform has shown.
func versions(sent []Sent) (all []string) {
	for _, s := range sent {
		for _, v := range s.Versions {
			all = append(all, v.Text)
		}
	}
	return all
}

// runWithKill sends a message with a kill at the n-th write and restarts. It reports whether that
// write was reached.
func (w *fixture) runWithKill(before []string, say string, press bool, n int, applied bool) bool {
	w.t.Helper()
	w.start()
	for i, text := range before {
		w.platform.SendPrivate(boss, text)
		w.awaitHeard(i + 1)
	}
	var asked Sent
	if len(before) > 0 && before[0] != "hold" {
		asked = w.platform.AwaitSent(1)[0]
		w.awaitSettled()
	}
	died := w.faults.arm(n, applied)
	if press {
		w.platform.PressButton(boss, asked, asked.Versions[0].Buttons[0].Label)
	} else {
		w.platform.SendPrivate(boss, say)
	}
	w.await("the kill, or the end", func(store.Reader) bool {
		select {
		case <-died:
			return true
		default:
			return w.platform.AllReceived()
		}
	})
	if !w.faults.isDead() {
		return false
	}
	w.stop()
	w.faults.revive()
	w.start()
	return true
}

func TestADecisionOutlivesAProcessThatDiedBeforeItsAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "db")
	open := func() store.Store {
		s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	w := newFixture(t)
	w.store = open()
	w.start()
	w.platform.SendPrivate(boss, "ask run")
	w.awaitText("May I run?")
	w.awaitSettled()
	died := w.faults.arm(2, true) // the decision is written, its result lost
	w.platform.SendPrivate(boss, "/approve")
	<-died
	w.stop()
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "answers before the kill", strings.Count(strings.Join(versions(w.platform.Sent()), "\n"), "Approved"), 0)
	w.faults.revive()
	w.store = open()
	w.start()
	w.awaitText("Approved by Name of boss")
	w.awaitText("run: approvedecided")
	w.stop()
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFloodOfStrangersHasNoEffect(t *testing.T) {
	w := newFixture(t).start()
	const secret = "s3cr3t-words"
	for i := range 100 {
		id := fmt.Sprintf("evil%d", i)
		w.platform.SendPrivate(id, secret)
		w.platform.SendGroup("closed", id, "/approve "+secret)
		w.platform.AddEvent(chat.Event{Kind: chat.EventButton, Room: GroupRoom("closed"), User: chat.User{ID: id},
			TargetID: "m1", Data: secret})
		w.platform.AddEvent(chat.Event{Kind: chat.EventEdited, Room: PrivateRoom(id), User: chat.User{ID: id}, TargetID: "e1",
			Text: secret})
	}
	w.platform.SendPrivate(friend, "hello")
	w.awaitText("hello!")
	w.awaitSettled()
	const requests = 3                         // open at once
	sent := w.platform.AwaitSent(requests + 1) // codes are sent in the background
	code := codeIn(w.awaitText("pair approve ").Message.Text)
	if len(sent) != requests+1 {
		t.Errorf("%d messages: %q", len(sent), texts(sent))
	}
	wantEqual(t, "messages to the agent", w.awaitHeard(0), []string{"hello"})
	for _, ack := range w.platform.ButtonAcks() {
		wantEqual(t, "the result for a stranger", ack.Text, "You may not decide this.")
	}
	wantEqual(t, "threads", w.threads(), []string{"out:tg:bot-1:with-friend", "tg:bot-1:with-friend"})
	if strings.Contains(w.logs.String(), secret) || strings.Contains(w.logs.String(), "evil") {
		t.Errorf("log: %s", w.logs.String())
	}
	w.view(func(r store.Reader) error {
		rows, err := r.Cursors(store.CursorQuery{})
		for _, c := range rows {
			if strings.Contains(string(c.Position), secret) || strings.Contains(string(c.Position), code) {
				t.Errorf("stored position: %s", c.Position)
			}
		}
		return err
	})
}

// codeIn returns the code in a message to a stranger.
func codeIn(text string) string {
	_, rest, _ := strings.Cut(text, "pair approve ")
	return strings.Fields(rest)[0]
}

func TestAStrangerIsPairedWithTheirCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.poll, w.platform.Capabilities.CommandPrefix = time.Minute, "!"
		w.start()
		operator := chat.PairingOperator{Ledger: w.ledger, Channel: "tg"}
		code := func(user string, n int) string {
			w.platform.SendPrivate(user, "let me in")
			synctest.Wait()
			sent := w.platform.Sent()
			if len(sent) != n {
				t.Fatalf("%d messages, want %d: %q", len(sent), n, texts(sent))
			}
			return codeIn(sent[n-1].Message.Text)
		}
		first := code("a", 1)
		code("a", 1)                   // too soon for another
		<-time.After(10 * time.Minute) // in the bubble
		second := code("a", 2)
		code("b", 3)
		code("c", 4)
		code("d", 4) // too many open requests
		approve := func(code string, want mailroom.Code) {
			t.Helper()
			if _, err := operator.Approve(t.Context(), code, false, "ann"); mailroom.CodeOf(err) != want {
				t.Errorf("%s: %v, want %q", code, err, want)
			}
		}
		approve(first, mailroom.CodeNotFound)
		approve(second, "")
		synctest.Wait()
		w.platform.SendPrivate("a", "hello")
		synctest.Wait()
		wantEqual(t, "sent in the end", texts(w.platform.Sent())[4:],
			[]string{"You have access now. !help lists the commands.", "hello!"})
		if err := operator.Revoke(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		w.platform.SendPrivate("a", "and now?")
		synctest.Wait()
		wantEqual(t, "messages to the agent", w.awaitHeard(0), []string{"hello"})
		for range 5 {
			approve("WRONGONE", mailroom.CodeNotFound)
		}
		approve("WRONGONE", mailroom.CodeRateLimited)
		<-time.After(time.Hour) // in the bubble
		last := code("z", 8)
		<-time.After(time.Hour) // in the bubble
		approve(last, mailroom.CodeNotFound)
		w.stop()
	})
}

func TestAnUnreadMessageIsEdited(t *testing.T) {
	w := newFixture(t).start()
	w.platform.SendPrivate(boss, "hold")
	w.awaitHeard(1)
	change := func(kind chat.EventKind, of chat.Event, user, text string) {
		w.platform.AddEvent(chat.Event{Kind: kind, Room: of.Room, User: chat.User{ID: user, Name: "x"}, TargetID: of.Key,
			Text: text})
	}
	edited := w.platform.SendPrivate(boss, "frist")
	queued := w.platform.SendPrivate(boss, "/queue secnd")
	deleted := w.platform.SendPrivate(boss, "gone")
	foreign := w.platform.SendPrivate(boss, "mine")
	change(chat.EventEdited, edited, boss, "first")
	w.platform.SendPrivate(boss, "/new") // messages of the earlier conversation can still be edited
	change(chat.EventEdited, queued, boss, "/queue second")
	change(chat.EventDeleted, deleted, "", "")
	change(chat.EventEdited, foreign, friend, "yours")
	w.platform.AwaitReceived()
	w.agent.release()
	w.awaitSettled()
	wantEqual(t, "messages to the agent", w.awaitHeard(4), []string{"hold", "first", "second", "mine"})
	change(chat.EventDeleted, edited, boss, "") // it was read
	w.awaitSettled()
	wantEqual(t, "messages to the agent", w.awaitHeard(4), []string{"hold", "first", "second", "mine"})
}

func TestAnEditOfAReadMessageIsANewMessage(t *testing.T) {
	w := newFixture(t).start()
	edit := func(of chat.Event, user, text string) {
		t.Helper()
		w.platform.AddEvent(chat.Event{
			Kind: chat.EventEdited, Room: of.Room, User: chat.User{ID: user}, TargetID: of.Key, Text: text,
			Addressed: strings.Contains(text, "@bot"),
		})
		w.awaitSettled()
	}
	was := "\nEdited after you read it. It was:\n> "
	one := w.platform.AddEvent(chat.Event{
		Kind: chat.EventMessage, Room: PrivateRoom(boss), User: chat.User{ID: boss}, Text: "deploy to staging",
		Context: []chat.Context{{Kind: chat.ContextReply, ByBot: true, Text: "Where?"}},
	})
	w.awaitHeard(1)
	w.awaitSettled()
	edit(one, boss, "deploy to staging") // a preview of a link
	edit(one, boss, "deploy to prod")
	edit(one, boss, "deploy to prod")
	edit(one, friend, "deploy nothing")
	edit(one, boss, "deploy to both\n> now")
	w.platform.Redeliver(0)
	w.platform.AwaitReceived()
	w.awaitSettled()
	wantEqual(t, "messages to the agent", w.awaitHeard(3), []string{
		"deploy to staging\nIn reply to your own message:\n> Where?",
		"edited: deploy to prod" + was + "deploy to staging",
		"From tg:boss:\n> edited: deploy to both\n> > now" + was + "deploy to prod",
	})

	talk := w.platform.AddEvent(chat.Event{Kind: chat.EventMessage, Room: GroupRoom(room), User: chat.User{ID: friend},
		Text: "what a day"})
	command := w.platform.AddEvent(chat.Event{Kind: chat.EventMessage, Room: GroupRoom(room), User: chat.User{ID: friend},
		Text: "hello all"})
	edit(talk, friend, "what a nice day") // still not to the bot
	edit(command, friend, "/stop @bot")
	edit(talk, friend, "what a day, @bot")
	edit(talk, friend, "what a day, @bot")
	edit(talk, friend, "what a week, @bot")
	wantEqual(t, "messages to the agent", w.awaitHeard(5)[3:], []string{
		"From tg:friend:\n> edited: what a day, @bot",
		"From tg:friend:\n> edited: what a week, @bot" + was + "what a day, @bot",
	})
}

func TestAMessageOverTheLimitIsRejected(t *testing.T) {
	w := newFixture(t).start()
	w.platform.AddEvent(chat.Event{Kind: chat.EventMessage, Room: PrivateRoom(boss), User: chat.User{ID: boss},
		Text: strings.Repeat("x", mailroom.MaxText+1)})
	w.awaitText("Message not accepted: ")
	w.platform.SendPrivate(boss, "hello")
	w.awaitText("hello!")
}

// A message that waits for a time is in no queue yet, and is a message of the conversation all the same.
func TestScheduledMessagesAreShownAndDiscarded(t *testing.T) {
	w := newFixture(t).start()
	w.platform.SendPrivate(boss, "hello")
	w.awaitText("hello!")
	w.agent.mu.Lock()
	conversation := w.agent.threads[0]
	w.agent.mu.Unlock()
	later := thread.Submit{
		Thread: conversation, Run: "later", Messages: []thread.NewMessage{{Parts: mailroom.Text("later")},
			{Parts: mailroom.Text("and this")}},
		NotBefore: time.Now().Add(time.Hour), Origin: mailroom.Origin{Via: "user", Sender: "operator"},
	}
	if _, err := w.ledger.Submit(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	w.platform.SendPrivate(boss, "/status")
	w.awaitText("2 messages waiting.")
	w.platform.SendPrivate(boss, "/stop")
	w.awaitText("Discarded from the queue: 2 messages.")
	w.awaitSettled()
	wantEqual(t, "messages to the agent", w.awaitHeard(1), []string{"hello"})
}
