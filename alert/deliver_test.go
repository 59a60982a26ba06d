package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// place is a target that records messages. Its fault, if set, says what becomes of the next ones, and its delay how
// long each takes and what becomes of it then.
type place struct {
	mu    sync.Mutex
	got   []alert.Message
	fault func() error
	delay func() (time.Duration, error)
}

func (p *place) Send(ctx context.Context, m alert.Message) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delay != nil {
		takes, err := p.delay()
		p.mu.Unlock()
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		p.mu.Lock()
		if err != nil {
			return "", err
		}
	}
	if p.fault != nil {
		if err := p.fault(); err != nil {
			return "", err
		}
	}
	p.got = append(p.got, m)
	return fmt.Sprint("m", len(p.got)), nil
}

func (p *place) fail(f func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

func (p *place) slow(f func() (time.Duration, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = f
}

func (p *place) messages() []alert.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]alert.Message{}, p.got...)
}

// fixture is a store with an engine, a follower, and targets.
type fixture struct {
	t        *testing.T
	store    store.Store
	ledger   *ledger.Ledger
	targets  map[string]*place
	places   map[string]string // see place, by owner
	operator *auth.Token
}

// seam implements [alert.Ledger].
type seam struct{ l *ledger.Ledger }

func (t seam) View(ctx context.Context, f func(store.Reader) error) error { return t.l.View(ctx, f) }
func (t seam) SubmitAll(ctx context.Context, all []thread.Submit, c store.Cursor) error {
	return t.l.Duties().SubmitAll(ctx, all, c)
}

// inBubble runs f in virtual time with targets of these names. Agent "worker" fails with the text of its
// message, or asks for an approval of it.
func inBubble(t *testing.T, rules []alert.Rule, targets []string, f func(*fixture)) {
	inBubbleWith(t, rules, targets, func(*ledger.Ledger) map[string]mailroom.Agent { return nil }, f)
}

// lease is long, and idle how often parts look for what other servers did. There are none, and an idle hour of virtual
// time would cost seconds.
const (
	lease = 15 * time.Minute
	idle  = time.Minute
)

// inBubbleWith is inBubble with further agents, or others for some targets.
func inBubbleWith(t *testing.T, rules []alert.Rule, targets []string,
	more func(*ledger.Ledger) map[string]mailroom.Agent, f func(*fixture)) {
	synctest.Test(t, func(t *testing.T) {
		notices := bus.New()
		h := &fixture{t: t, store: memory.New(), targets: map[string]*place{}, operator: auth.RunToken(auth.Operator)}
		h.ledger = ledger.New(h.store, ledger.Options{Lease: lease, Poll: idle,
			Publish: func(thread string, entries []mailroom.Entry) {
				notices.Publish(bus.Notice{Thread: thread, Entries: entries})
			}})
		agents := map[string]engine.Agent{"worker": {Agent: mailroom.AgentFunc(work)}}
		allowed := alert.Allowed{}
		for _, name := range targets {
			allowed[name] = []string{"ann"}
		}
		for _, name := range targets {
			h.targets[name] = &place{}
			agents[alert.AgentName(name)] = engine.Agent{Agent: alert.New(alert.Options{
				Name: name, Target: h.targets[name], Ledger: seam{h.ledger}, URL: "https://mail.example.org",
				Links: alert.NewLinks("secret"), LinkLife: time.Hour, Zone: time.UTC,
				Tokens:  []string{"ann"},
				Targets: targets,
			})}
		}
		for name, a := range more(h.ledger) {
			agents[name] = engine.Agent{Agent: a}
		}
		e := engine.New(h.ledger.LaneWorkers(0), notices,
			engine.Options{Agents: agents, Lease: lease, Sweep: idle, Log: slog.New(slog.DiscardHandler)})
		follower := &alert.Follower{Ledger: seam{h.ledger}, Rules: rules, Targets: allowed,
			Log: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(context.Background())
		committing, end := context.WithCancel(context.Background())
		var parts, committer sync.WaitGroup
		committer.Go(func() { h.must(h.ledger.Run(committing)) })
		parts.Go(func() { h.must(e.Run(ctx)) })
		h.must(follower.Begin(ctx, follower.Ledger))
		parts.Go(func() {
			<-time.After(5 * time.Second) // what happens before it follows is sent too
			follower.Follow(ctx)
		})
		f(h)
		stop()
		parts.Wait()
		end()
		committer.Wait()
		found, err := storetest.Check(context.Background(), h.store)
		h.must(err)
		for _, bad := range found {
			t.Error(bad)
		}
		h.must(h.store.Close())
	})
}

// work is the agent: it asks if the message begins with "ask", and fails otherwise, or after the decision if the
// message ends with "then fail".
func work(ctx context.Context, s mailroom.Session) error {
	input, err := s.Input(ctx)
	if err != nil {
		return err
	}
	text := input[0].Text
	if len(text) > 3 && text[:3] == "ask" {
		got, err := s.Wait(ctx, false, mailroom.Ask{Name: "q", Kind: mailroom.TicketApproval, Prompt: text})
		if err != nil {
			return err
		}
		if !strings.HasSuffix(text, "then fail") {
			return s.Stream(ctx, string(got[0].State))
		}
	}
	return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New(text)}
}

func (h *fixture) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Error(err)
	}
}

// after lets virtual time pass.
func (h *fixture) after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (h *fixture) submit(thread_, text string) {
	h.t.Helper()
	_, err := h.ledger.Submit(h.t.Context(), thread.Submit{Thread: thread_, Agent: "worker",
		Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}}})
	h.must(err)
}

func rule(when ...alert.Kind) alert.Rule {
	return alert.Rule{Name: "r", When: when, To: []string{"phone", "mail"}, Text: alert.TextFull, Zone: time.UTC}
}

// TestAnotherTargetTakesOverWhileTheFirstIsDown asks a question every two minutes for three hours. The
// first target is down in the second hour.
func TestAnotherTargetTakesOverWhileTheFirstIsDown(t *testing.T) {
	all := rule(alert.KindTicket, alert.KindFailed, alert.KindChannel)
	inBubble(t, []alert.Rule{all}, []string{"phone", "mail"}, func(h *fixture) {
		phone, mail := h.targets["phone"], h.targets["mail"]
		asked := 0
		for minute := range 180 {
			switch minute {
			case 60:
				phone.fail(func() error {
					return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route to the phone")}
				})
			case 120:
				phone.fail(nil)
			}
			if minute%2 == 0 {
				asked++
				h.submit(fmt.Sprint("t", minute), fmt.Sprint("ask ", minute))
			}
			h.after(time.Minute)
		}
		h.after(10 * time.Minute)
		got := map[string]int{}
		for _, m := range append(phone.messages(), mail.messages()...) {
			if m.Kind != alert.KindTicket {
				t.Errorf("an alert about an alert: %+v", m)
			}
			got[m.Key]++
		}
		if len(got) != asked || len(phone.messages())+len(mail.messages()) != asked {
			t.Errorf("%d messages about %d of %d questions", len(phone.messages())+len(mail.messages()), len(got), asked)
		}
		if n := len(mail.messages()); n != 30 {
			t.Errorf("the second target was sent %d questions, want the 30 of the outage", n)
		}
		for _, m := range mail.messages() {
			if m.Repeated {
				t.Errorf("marked as repeated, though it never arrived: %+v", m)
			}
		}
	})
}

func TestAPermanentRefusalIsADeadLetterAndPassedOn(t *testing.T) {
	inBubble(t, []alert.Rule{rule(alert.KindTicket, alert.KindFailed)}, []string{"phone", "mail"}, func(h *fixture) {
		h.targets["phone"].fail(func() error {
			return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("topic invalid")}
		})
		h.submit("t", "ask x")
		h.after(10 * time.Minute)
		if n := len(h.targets["mail"].messages()); n != 1 {
			t.Errorf("the second target got %d messages", n)
		}
		h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
			runs, err := r.Runs(store.RunQuery{Thread: "alert:phone"})
			if len(runs) != 1 || runs[0].Status != mailroom.StatusFailed || runs[0].Error.Message != "topic invalid" {
				t.Errorf("runs of the first target: %+v", runs)
			}
			return err
		}))
	})
}

// TestARepeatedAlertThatMayHaveArrivedIsMarked has a target that loses its first answer and is down for a time. Then
// the target refuses the alert, stays down, or takes it.
func TestARepeatedAlertThatMayHaveArrivedIsMarked(t *testing.T) {
	down := &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route to the phone")}
	for name, test := range map[string]struct {
		then   error
		phone  int // messages of the first target
		second int
	}{
		"it is refused":   {&mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("topic invalid")}, 0, 1},
		"it is not taken": {down, 0, 1},
		"it is taken":     {nil, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []alert.Rule{rule(alert.KindTicket)}, []string{"phone", "mail"}, func(h *fixture) {
				phone, mail := h.targets["phone"], h.targets["mail"]
				tries := 0
				phone.fail(func() error {
					switch tries++; tries {
					case 1:
						return fmt.Errorf("%w: %w", down, mailroom.ErrUnknown)
					case 2:
						return down
					}
					return test.then
				})
				h.submit("t", "ask x")
				h.after(10 * time.Minute)
				got := append(phone.messages(), mail.messages()...)
				if len(phone.messages()) != test.phone || len(mail.messages()) != test.second || !got[0].Repeated {
					t.Errorf("after %d tries, %d and %d messages: %+v", tries, len(phone.messages()), len(mail.messages()), got)
				}
			})
		})
	}
}

// TestARefusalAndACrashPassAnAlertOnOnce has an attempt that ends after it passed the alert on, before the run is a
// dead letter. The target takes alerts again then. It gets this one if its run is retried by hand, with the mark.
func TestARefusalAndACrashPassAnAlertOnOnce(t *testing.T) {
	phone, attempts := &place{}, 0
	inBubbleWith(t, []alert.Rule{rule(alert.KindTicket)}, []string{"phone", "mail"},
		func(l *ledger.Ledger) map[string]mailroom.Agent {
			whole := alert.New(alert.Options{Name: "phone", Target: phone, Ledger: seam{l}, Zone: time.UTC,
				Targets: []string{"phone", "mail"}})
			return map[string]mailroom.Agent{alert.AgentName("phone"): mailroom.AgentFunc(func(ctx context.Context,
				s mailroom.Session) error {
				err := whole.Run(ctx, s)
				if attempts++; attempts == 1 {
					phone.fail(nil)
					return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("the power failed")}
				}
				return err
			})}
		}, func(h *fixture) {
			phone.fail(func() error {
				return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("topic invalid")}
			})
			h.submit("t", "ask x")
			h.after(10 * time.Minute)
			var failed *mailroom.Run
			h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
				runs, err := r.Runs(store.RunQuery{Thread: alert.ThreadID("phone")})
				failed = runs[0]
				return err
			}))
			if attempts != 2 || failed.Status != mailroom.StatusFailed || failed.Error.Message != "topic invalid" {
				t.Errorf("after %d attempts the run is %s: %+v", attempts, failed.Status, failed.Error)
			}
			if first, second := phone.messages(), h.targets["mail"].messages(); len(first) != 0 || len(second) != 1 ||
				second[0].Repeated {
				t.Errorf("messages of the first target %+v, of the second one %+v", first, second)
			}
			_, err := h.ledger.Retry(h.t.Context(), thread.Retry{Run: failed.ID, By: "ann"})
			h.must(err)
			h.after(time.Minute)
			if first, second := phone.messages(), h.targets["mail"].messages(); len(first) != 1 || !first[0].Repeated ||
				len(second) != 1 {
				t.Errorf("after a retry by hand: messages of the first target %+v, of the second one %+v", first, second)
			}
		})
}

// TestAnAlertIsNotPassedOnToARemovedTarget has a rule whose second target was removed after it sent the alert. The
// first target is down for ten minutes.
func TestAnAlertIsNotPassedOnToARemovedTarget(t *testing.T) {
	const removed = "no route to the phone (no target takes over: mail was removed from the configuration)"
	down := func() error {
		return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route to the phone")}
	}
	runs := func(h *fixture, target string) (found []*mailroom.Run) {
		h.must(h.ledger.View(h.t.Context(), func(r store.Reader) (err error) {
			found, err = r.Runs(store.RunQuery{Thread: alert.ThreadID(target)})
			return err
		}))
		return found
	}
	t.Run("the only other one", func(t *testing.T) {
		inBubble(t, []alert.Rule{rule(alert.KindTicket)}, []string{"phone"}, func(h *fixture) {
			phone := h.targets["phone"]
			phone.fail(down)
			h.submit("t", "ask x")
			h.after(10 * time.Minute)
			h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
				tries, err := r.Entries(store.EntryQuery{Thread: alert.ThreadID("phone"), Kinds: []string{entry.KindRescheduled},
					Backward: true, Limit: 1})
				var last entry.RunRescheduled
				if len(tries) == 1 {
					h.must(tries[0].Decode(&last))
				}
				if last.Error == nil || last.Error.Message != removed {
					t.Errorf("the alert that waits does not say why: %+v", last.Error)
				}
				return err
			}))
			phone.fail(nil)
			h.after(time.Hour)
			if got := phone.messages(); len(got) != 1 || len(runs(h, "mail")) != 0 {
				t.Errorf("%d messages, %d runs of the removed target", len(got), len(runs(h, "mail")))
			}
		})
	})
	t.Run("another one is left", func(t *testing.T) {
		three := rule(alert.KindTicket)
		three.To = []string{"phone", "mail", "wall"}
		inBubble(t, []alert.Rule{three}, []string{"phone", "wall"}, func(h *fixture) {
			h.targets["phone"].fail(down)
			h.submit("t", "ask x")
			h.after(10 * time.Minute)
			if got := h.targets["wall"].messages(); len(got) != 1 || len(runs(h, "mail")) != 0 {
				t.Errorf("%d messages, %d runs of the removed target", len(got), len(runs(h, "mail")))
			}
		})
	})
	t.Run("it is refused for good", func(t *testing.T) {
		inBubble(t, []alert.Rule{rule(alert.KindTicket)}, []string{"phone"}, func(h *fixture) {
			h.targets["phone"].fail(func() error {
				return &mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("topic invalid")}
			})
			h.submit("t", "ask x")
			h.after(10 * time.Minute)
			if all := runs(h, "phone"); len(all) != 1 || all[0].Status != mailroom.StatusFailed || len(runs(h, "mail")) != 0 {
				t.Errorf("runs of the first target: %+v", all)
			}
		})
	})
}

func TestAQuestionThatWasDecidedIsNotSent(t *testing.T) {
	quiet := rule(alert.KindTicket)
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of the bubble
	quiet.Quiet = alert.Quiet{From: alert.Clock(now.Hour() * 60), To: alert.Clock(now.Hour()*60 + 120)}
	inBubble(t, []alert.Rule{quiet}, []string{"phone", "mail"}, func(h *fixture) {
		h.submit("a", "ask a")
		h.submit("b", "ask b")
		h.after(time.Minute)
		h.deny("a")
		h.after(3 * time.Hour)
		got := h.targets["phone"].messages()
		if len(got) != 1 || got[0].Title != "worker asks for an approval" || got[0].Body != "ask b\n\nIn b." {
			t.Errorf("messages: %+v", got)
		}
	})
}

// TestOpenQuestionsOfQuietHoursAreOneMessage asks three questions in quiet hours of half an hour. They are sent
// together if more than one is open at the end; one is sent as at any other time, with a link that is valid for an hour
// from then on.
func TestOpenQuestionsOfQuietHoursAreOneMessage(t *testing.T) {
	for open, title := range map[int]string{3: "3 questions wait for a decision", 2: "2 questions wait for a decision",
		1: "worker asks for an approval"} {
		quiet := rule(alert.KindTicket)
		quiet.Quiet = alert.Quiet{From: 0, To: 30}
		inBubble(t, []alert.Rule{quiet}, []string{"phone", "mail"}, func(h *fixture) {
			for i := range 3 {
				h.submit(fmt.Sprint("t", i), fmt.Sprint("ask ", i))
			}
			h.after(time.Minute)
			var tickets []*mailroom.Ticket
			h.must(h.ledger.View(h.t.Context(), func(r store.Reader) (err error) {
				tickets, err = r.Tickets(store.TicketQuery{Oldest: true})
				return err
			}))
			for _, k := range tickets[:3-open] {
				_, err := h.ledger.Decide(h.t.Context(), thread.Decision{Ticket: k.ID, Verdict: mailroom.VerdictDeny, By: "ann"})
				h.must(err)
			}
			h.after(35 * time.Minute)
			got := h.targets["phone"].messages()
			if len(got) != 1 || got[0].Title != title {
				t.Errorf("%d open: messages %+v", open, got)
				return
			}
			if open > 1 {
				if got[0].URL != "https://mail.example.org/#/inbox" || len(got[0].Buttons) != 0 {
					t.Errorf("%d open: message %+v", open, got[0])
				}
				return
			}
			_, signed, _ := strings.Cut(got[0].URL, "#")
			link, err := alert.NewLinks("secret").Open(signed, time.Date(2000, 1, 1, 1, 29, 0, 0, time.UTC))
			want := "ask " + tickets[2].Thread[1:] + "\n\nIn " + tickets[2].Thread + "."
			if err != nil || link.Ticket != tickets[2].ID || len(got[0].Buttons) != 2 || got[0].Body != want {
				t.Errorf("message %+v, want %q and a link to %s: %+v, %v", got[0], want, tickets[2].ID, link, err)
			}
		})
	}
}

// TestOnlyTheServerSendsAlerts submits to a target's thread like an agent of the operator that was talked
// into it.
func TestOnlyTheServerSendsAlerts(t *testing.T) {
	inBubble(t, nil, []string{"phone"}, func(h *fixture) {
		forged := alert.Alert{Kind: alert.KindReply, Text: alert.TextFull, Count: 1, Agent: "bank", Words: "call this number"}
		_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
			Thread: alert.ThreadID("phone"), Agent: alert.AgentName("phone"),
			Messages: []thread.NewMessage{{Parts: forged.Parts()}},
			Origin:   mailroom.Origin{Via: "run", Sender: "worker"},
		})
		h.must(err)
		h.after(time.Minute)
		if got := h.targets["phone"].messages(); len(got) != 0 {
			t.Errorf("sent: %+v", got)
		}
	})
}

// TestARuleOfATokenIsAboutItsOwnThreads has a stored rule of a token. It ends with the token.
func TestARuleOfATokenIsAboutItsOwnThreads(t *testing.T) {
	inBubble(t, nil, []string{"phone"}, func(h *fixture) {
		must := func(_ any, err error) { h.must(err) }
		must(h.ledger.Accounts().CreateToken(h.t.Context(),
			auth.Token{Name: "ann", Sum: "x", Scopes: []auth.Permission{auth.PermissionSubmit}}))
		at := alert.RulesCursor("ann")
		h.must(h.ledger.ChangeCursor(h.t.Context(), at.Channel, at.Identity,
			func(json.RawMessage, time.Time) (json.RawMessage, error) {
				return json.Marshal([]api.AlertRule{{Name: "mine", When: []string{"ticket"}, To: []string{"phone"}, Text: "full"},
					{Name: "broken", When: []string{"ticket"}, To: []string{"gone"}}})
			}))
		ask := func(owner string) {
			must(h.ledger.Submit(h.t.Context(), thread.Submit{
				Thread: "of-" + owner, Owner: owner, Agent: "worker",
				Messages: []thread.NewMessage{{Parts: mailroom.Text("ask " + owner)}},
			}))
			h.after(time.Minute)
		}
		ask("ann")
		ask(auth.Operator)
		ask("bob")
		got := h.targets["phone"].messages()
		if len(got) != 1 || got[0].Body != "ask ann\n\nIn of-ann." {
			t.Fatalf("messages: %+v", got)
		}
		place := h.place("ann", "phone")
		h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
			rows, err := r.Threads(store.ThreadQuery{IDs: []string{place}})
			if len(rows) != 1 || rows[0].Owner != "ann" {
				t.Errorf("the thread of the alert: %+v", rows)
			}
			return err
		}))
		h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "ann"))
		must(h.ledger.Submit(h.t.Context(), thread.Submit{
			Thread: "later", Owner: "ann", Agent: "worker", Messages: []thread.NewMessage{{Parts: mailroom.Text("ask again")}},
		}))
		h.after(time.Minute)
		if got := h.targets["phone"].messages(); len(got) != 1 {
			t.Errorf("after the token was revoked: %+v", got[1:])
		}
	})
}
