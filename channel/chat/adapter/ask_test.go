package adapter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/auth"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/outbound"
	"mailroom/store"
	"mailroom/thread"
)

// askingAgent waits for a ticket and replies with its decision.
func askingAgent(ask mailroom.Ask) mailroom.AgentFunc {
	return func(ctx context.Context, s mailroom.Session) error {
		got, err := s.Wait(ctx, false, ask)
		if err != nil {
			return err
		}
		return s.Stream(ctx, fmt.Sprint("it was: ", got[0].State, " ", got[0].Decision, " ", string(got[0].Answer)))
	}
}

func payment() mailroom.Ask {
	return mailroom.Ask{
		Name: "pay", Kind: mailroom.TicketApproval, Prompt: "May I pay?", Action: "bank.pay", After: 10 * time.Minute,
		Arguments: json.RawMessage(`{"sum":100,"to":"bob"}`),
	}
}

// withServer runs a test with a server in a synctest bubble.
func withServer(t *testing.T, agent mailroom.AgentFunc, f func(o *serverFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := newServer(t, agent)
		f(o)
		o.stop()
	})
}

func (o *serverFixture) ticket() *mailroom.Ticket {
	o.t.Helper()
	var rows []*mailroom.Ticket
	err := o.store.View(o.t.Context(), func(r store.Reader) (err error) {
		rows, err = r.Tickets(store.TicketQuery{})
		return err
	})
	if err != nil || len(rows) != 1 {
		o.t.Fatalf("%d tickets, %v; want 1", len(rows), err)
	}
	return rows[0]
}

func TestAnApprovalShowsExactlyWhatIsAsked(t *testing.T) {
	withServer(t, askingAgent(payment()), func(o *serverFixture) {
		o.start()
		o.platform.SendPrivate("ann", "go")
		m := o.platform.AwaitSent(1)[0].Message
		k := o.ticket()
		for _, want := range []string{
			"codex asks: May I pay?", "```\nbank.pay\n{\n  \"sum\": 100,\n  \"to\": \"bob\"\n}\n```", "Digest: " + k.Digest[:16],
			"Until " + k.ExpiresAt.UTC().Format("2 January 15:04 MST"), "To allow it: /approve ", "To refuse it: /deny ",
		} {
			if !strings.Contains(m.Text, want) {
				o.t.Errorf("%q is missing in:\n%s", want, m.Text)
			}
		}
		if len(m.Buttons) != 2 || m.Buttons[0].Label != "Approve" || m.Buttons[1].Label != "Deny" {
			o.t.Errorf("buttons %+v", m.Buttons)
		}
		for _, b := range m.Buttons {
			if len(b.Data) > 64 {
				o.t.Errorf("button data of %d bytes", len(b.Data))
			}
		}
	})
}

// TestAQuestionIsRedrawnOnceItIsDecided decides in every way. The question must not change
// before.
func TestAQuestionIsRedrawnOnceItIsDecided(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(o *serverFixture)
		want   string // beginning of the redrawn question
		reply  string
	}{
		"by a button": {func(o *serverFixture) { o.platform.PressButton("ann", o.platform.Sent()[0], "Approve") },
			"Approved by Name of ann", "it was: decided approve "},
		"by a command": {func(o *serverFixture) { o.platform.SendPrivate("ann", "/deny too much") },
			"Denied by c:ann", "it was: decided deny "},
		"elsewhere": {func(o *serverFixture) {
			k := o.ticket()
			if _, err := o.ledger.Decide(o.t.Context(), thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictApprove,
				Digest: k.Digest, By: "bob"}); err != nil {
				o.t.Fatal(err)
			}
		}, "Approved by bob", "it was: decided approve "},
		"by time": {func(*serverFixture) {}, "Too late: it expired", "it was: expired "},
	} {
		t.Run(name, func(t *testing.T) {
			withServer(t, askingAgent(payment()), func(o *serverFixture) {
				o.platform.Capabilities.RoomInterval = 3 * time.Second
				o.start()
				o.platform.SendPrivate("ann", "go")
				o.awaitSettled(1)
				c.decide(o)
				<-time.After(15 * time.Minute)
				sent := o.platform.Sent()
				replied := slices.ContainsFunc(sent, func(m Sent) bool {
					return strings.TrimSpace(m.Message.Text) == strings.TrimSpace(c.reply)
				})
				if q := sent[0].Message; !strings.HasPrefix(q.Text, c.want) || len(q.Buttons) > 0 || !replied {
					t.Errorf("question %+v; sent %q", q, o.sentTexts())
				}
				shown, _, _ := strings.Cut(c.want, " by ")
				for i, v := range sent[0].Versions { // the decision and the reply may both edit it
					if decided := strings.HasPrefix(v.Text, shown); decided != (i > 0) {
						t.Errorf("version %d of the question: %q", i, v.Text)
					}
				}
			})
		})
	}
}

func TestAQuestionIsAnsweredByTheNextMessage(t *testing.T) {
	withServer(t, askingAgent(mailroom.Ask{Name: "q", Kind: mailroom.TicketInput, Prompt: "Which colour?"}),
		func(o *serverFixture) {
			o.start()
			o.platform.SendPrivate("ann", "paint it")
			o.awaitSettled(1)
			o.expectSent("codex asks: Which colour?\nYour next message is the answer.")
			o.platform.SendPrivate("ann", "red")
			o.awaitSettled(2)
			if got := o.sentTexts()[1]; !strings.HasPrefix(got, "it was: decided answer") || !strings.Contains(got, "red") {
				o.t.Errorf("got %q", got)
			}
		})
}

func TestAQuestionDecidedBeforeItsDeliveryIsNotAsked(t *testing.T) {
	withServer(t, askingAgent(payment()), func(o *serverFixture) {
		o.platform.Hook(CallSend, func(context.Context, CallArgs) error { return rateLimited(time.Minute) })
		o.start()
		o.platform.SendPrivate("ann", "go")
		<-time.After(10 * time.Second)
		k := o.ticket()
		if _, err := o.ledger.Decide(o.t.Context(), thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictApprove,
			Digest: k.Digest, By: "bob"}); err != nil {
			o.t.Fatal(err)
		}
		o.platform.Hook(CallSend, nil)
		o.awaitSettled(2)
		o.expectSent("it was: decided approve")
		if n := len(o.notes(outbound.KindUnsent)); n != 1 {
			o.t.Errorf("%d entries for an unsent question", n)
		}
	})
}

func TestARunWithoutAReplyIsExplained(t *testing.T) {
	for name, c := range map[string]struct {
		agent mailroom.AgentFunc
		want  []string // substrings in order
	}{
		"no reply": {func(context.Context, mailroom.Session) error {
			return nil
		}, []string{"(codex ended without a reply.)"}},
		"an error": {func(context.Context, mailroom.Session) error { return errors.New("no such file\nat line 1") },
			[]string{"(codex failed: exhausted)", "To retry, send the message again or run on the server: mailroom run retry "}},
		"an error after a part of the reply": {func(ctx context.Context, s mailroom.Session) error {
			return errors.Join(s.Stream(ctx, "I have half of"), errors.New("no more"))
		}, []string{"I have half of\n", "(codex failed: exhausted)"}},
		"a program fails with a key and a path in its output": {func(context.Context, mailroom.Session) error {
			return &mailroom.Failure{Class: mailroom.ClassPermanent,
				Err: errors.New("the command ended with exit status 3: open /srv/keys: sk-12345")}
		}, []string{"(codex failed: permanent, exit status 3)\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			withServer(t, c.agent, func(o *serverFixture) {
				o.start()
				o.platform.SendPrivate("ann", "go")
				o.awaitSettled(1)
				got := strings.Join(o.sentTexts(), "|")
				at := 0
				for _, want := range c.want {
					i := strings.Index(got[at:], want)
					if i < 0 {
						t.Fatalf("got %q, want in it %q", got, want)
					}
					at += i
				}
			})
		})
	}
}

func TestAGoneRoomGetsNothingUntilAMessageArrives(t *testing.T) {
	withServer(t, echo, func(o *serverFixture) {
		asked := 0
		o.platform.Hook(CallSend, func(context.Context, CallArgs) error {
			asked++
			return fmt.Errorf("the bot was blocked: %w", chat.ErrGone)
		})
		o.start()
		o.platform.SendPrivate("ann", "one")
		o.awaitSettled(1)
		threadID := channel.ThreadID("c", BotID, "with-ann")
		elsewhere := func(n int) {
			for range n {
				if _, err := o.ledger.Submit(o.t.Context(), thread.Submit{
					By: &auth.Token{Name: auth.Operator, Scopes: auth.Permissions()}, Thread: threadID,
					Messages: []thread.NewMessage{{Parts: mailroom.Text("from a timer")}},
				}); err != nil {
					o.t.Fatal(err)
				}
			}
		}
		elsewhere(3)
		runs := o.awaitSettled(4)
		if asked != 1 {
			o.t.Errorf("%d calls of the platform", asked)
		}
		for i, r := range runs {
			if r.Status != mailroom.StatusFailed || r.Error.Class != mailroom.ClassPermanent ||
				!strings.Contains(r.Error.Message, "the recipient is gone") {
				o.t.Errorf("delivery %d is %s: %+v", i, r.Status, r.Error)
			}
		}
		o.platform.Hook(CallSend, nil)
		elsewhere(1)
		o.awaitSettled(5)
		o.expectSent()
		o.platform.SendPrivate("ann", "I am back")
		o.awaitSettled(6)
		elsewhere(1)
		o.awaitSettled(7)
		o.expectSent("I am back", "from a timer")
	})
}

func TestAReplyGoesToItsChatOnly(t *testing.T) {
	withServer(t, func(ctx context.Context, s mailroom.Session) error {
		input, err := s.Input(ctx)
		if err != nil {
			return err
		}
		if s.Run().Thread == channel.ThreadID("c", BotID, "with-ann") {
			return s.Append(ctx,
				mailroom.Step{Sends: []mailroom.Send{{Name: "tell", Thread: channel.ThreadID("c", BotID, "with-bob"),
					Parts: mailroom.Text("for bob")}}})
		}
		return s.Stream(ctx, input[0].Text)
	}, func(o *serverFixture) {
		o.options.Access.Users = []string{"bob"}
		o.start()
		o.platform.SendPrivate("bob", "hello")
		o.platform.AwaitSent(1)
		o.platform.SendPrivate("ann", "tell bob")
		sent := o.platform.AwaitSent(3)
		for _, s := range sent {
			if s.Message.Text == "for bob" && s.Room.Chat != "with-bob" {
				o.t.Errorf("%q was sent to %q", s.Message.Text, s.Room.Chat)
			}
		}
	})
}

// TestALongTextResumesWhereItStopped also restarts with another message size.
func TestALongTextResumesWhereItStopped(t *testing.T) {
	for _, most := range []int{40, 25, 70} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			withServer(t, echo, func(o *serverFixture) {
				text := "one two three four five six seven eight nine ten\n\n```go\nfunc main() {\n\tprintln()\n}\n```\nand so on, and so on, and so on"
				o.platform.Capabilities.MaxUnits = 40
				sends := 0
				o.platform.Hook(CallSend, func(_ context.Context, c CallArgs) error {
					if sends++; sends == 3 {
						o.platform.Hook(CallSend, nil)
						return rateLimited(time.Minute)
					}
					c.Do()
					return nil
				})
				o.start()
				o.platform.SendPrivate("ann", text)
				<-time.After(30 * time.Second)
				o.stop()
				o.platform.Capabilities.MaxUnits = most
				o.start()
				o.awaitSettled(1)
				strip := func(s string) string {
					return strings.Join(strings.Fields(strings.NewReplacer("```go", "", "```", "").Replace(s)), "")
				}
				if diff := cmp.Diff(strip(text), strip(strings.Join(o.sentTexts(), ""))); diff != "" {
					t.Errorf("sent (-want +got)\n%s\n%q", diff, o.sentTexts())
				}
			})
		})
	}
}
