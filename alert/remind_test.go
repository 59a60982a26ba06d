package alert_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// person is a target that records when it took which messages, in minutes since the test began.
type person struct {
	place
	begin time.Time
	at    []int
}

func (p *person) Send(ctx context.Context, m alert.Message) (string, error) {
	receipt, err := p.place.Send(ctx, m)
	if err == nil {
		p.mu.Lock()
		p.at = append(p.at, int(time.Since(p.begin).Round(time.Minute).Minutes()))
		p.mu.Unlock()
	}
	return receipt, err
}

// times returns when messages came, in minutes.
func (p *person) times() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.at)
}

// reminding is a store with a sequence of servers on it, in virtual time, whose rule reminds of questions.
type reminding struct {
	t           *testing.T
	store       store.Store
	ledger      *ledger.Ledger
	rule        alert.Rule
	phone, mail *person
	stop        func()
}

// withReminders runs f in virtual time, which begins at midnight UTC, with a rule that reminds after a minute: a
// follower looks each second, so an hour of virtual time costs a second.
func withReminders(t *testing.T, f func(h *reminding)) {
	withRemindersOn(t, time.Minute, func(*testing.T) (store.Store, error) { return memory.New(), nil }, f)
}

// withRemindersOn is withReminders with a rule that reminds after the time unit, on a store.
func withRemindersOn(
	t *testing.T, unit time.Duration, open func(t *testing.T) (store.Store, error), f func(h *reminding),
) {
	synctest.Test(t, func(t *testing.T) {
		on, err := open(t)
		if err != nil {
			t.Fatal(err)
		}
		h := &reminding{t: t, store: on, rule: rule(alert.KindTicket), stop: func() {},
			phone: &person{begin: time.Now()}, mail: &person{begin: time.Now()}}
		h.rule.Remind = unit
		h.serve(h.store)
		defer func() { h.stop() }() // also if the test fails early
		f(h)
		h.stop()
		h.stop = func() {}
		found, err := storetest.Check(context.Background(), h.store)
		h.must(err)
		for _, bad := range found {
			t.Error(bad)
		}
		h.must(h.store.Close())
	})
}

func (h *reminding) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// serve starts a server that writes through st; h.stop stops it.
func (h *reminding) serve(st store.Store) {
	b := bus.New()
	l := ledger.New(st, ledger.Options{Poll: idle, Publish: func(thread string, entries []mailroom.Entry) {
		b.Publish(bus.Notice{Thread: thread, Entries: entries})
	}})
	h.ledger = l
	names := []string{"phone", "mail"}
	of := func(name string, to alert.Target) engine.Agent {
		return engine.Agent{Agent: alert.New(alert.Options{Name: name, Target: to, Ledger: seam{l}, Zone: time.UTC,
			URL: "https://mail.example.org", Links: alert.NewLinks("secret"), LinkLife: time.Hour, Targets: names,
			Rules: []alert.Rule{h.rule}})}
	}
	e := engine.New(l.Workers(), b, engine.Options{
		Local: true, Lease: time.Hour, Renew: 20 * time.Minute, Sweep: 10 * time.Minute,
		Log: slog.New(slog.DiscardHandler),
		Agents: map[string]engine.Agent{"worker": {Agent: mailroom.AgentFunc(work)},
			alert.AgentName("phone"): of("phone", h.phone), alert.AgentName("mail"): of("mail", h.mail)},
	})
	follower := &alert.Follower{Ledger: seam{l}, Rules: []alert.Rule{h.rule}, Log: slog.New(slog.DiscardHandler),
		Targets: alert.Allowed{"phone": {}, "mail": {}}}
	engineCtx, quit := context.WithCancel(context.Background())
	ledgerCtx, end := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	ended := func(err error) {
		if err != nil && !errors.Is(err, store.ErrClosed) {
			h.t.Error(err)
		}
	}
	parts.Go(func() { ended(l.Run(ledgerCtx)) })
	h.must(l.Workers().EndLocalWorkers(h.t.Context(), false))
	ended(follower.Begin(engineCtx, follower.Ledger))
	parts.Go(func() {
		var both sync.WaitGroup
		both.Go(func() { ended(e.Run(engineCtx)) })
		both.Go(func() { follower.Follow(engineCtx) })
		both.Wait()
		end()
	})
	h.stop = func() {
		quit()
		parts.Wait()
	}
}

// pass lets virtual time pass.
func (h *reminding) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// ask lets the agent ask a question, and returns the run.
func (h *reminding) ask(in string) string {
	h.t.Helper()
	out, err := h.ledger.Submit(h.t.Context(), thread.Submit{Thread: in, Agent: "worker", Key: in,
		Messages: []thread.NewMessage{{Parts: mailroom.Text("ask " + in)}}})
	if err != nil && !errors.Is(err, store.ErrClosed) {
		h.t.Fatal(err)
	}
	return out.Run
}

// deny decides the open question of a run.
func (h *reminding) deny(run string) {
	h.t.Helper()
	var all []*mailroom.Ticket
	h.must(h.ledger.View(h.t.Context(), func(r store.Reader) (err error) {
		all, err = r.Tickets(store.TicketQuery{Runs: []string{run}})
		return err
	}))
	_, err := h.ledger.Decide(h.t.Context(), thread.Decision{Ticket: all[0].ID, Verdict: mailroom.VerdictDeny,
		By: "ann"})
	h.must(err)
}

// toldAt are the minutes of the alert about a question and of its reminders: each waits twice as long as the last one.
var toldAt = [...]int{0, 1, 3, 7, 15, 31}

func TestPeopleAreRemindedOfAQuestionAtGrowingDistances(t *testing.T) {
	withReminders(t, func(h *reminding) {
		h.ask("t")
		h.pass(100 * time.Minute)
		if got := h.phone.times(); !slices.Equal(got, toldAt[:]) {
			t.Errorf("told after %v minutes, want %v", got, toldAt)
		}
		keys := map[string]bool{}
		for i, m := range h.phone.messages() {
			if is := strings.HasPrefix(m.Title, "Reminder: "); is != (i > 0) || m.About == "" || len(m.Buttons) != 2 ||
				m.Repeated {
				t.Errorf("message %d: %+v", i, m)
			}
			if first := h.phone.messages()[0]; m.About != first.About || m.About != first.Key {
				t.Errorf("message %d replaces %s, want %s", i, m.About, first.Key)
			}
			keys[m.Key] = true
		}
		if len(keys) != len(toldAt) {
			t.Errorf("%d keys of %d messages: a program takes some for repeats", len(keys), len(toldAt))
		}
	})
}

func TestRemindersEndWithTheQuestion(t *testing.T) {
	for name, end := range map[string]func(h *reminding, run string){
		"decided": func(h *reminding, run string) { h.deny(run) },
		"cancelled": func(h *reminding, run string) {
			_, err := h.ledger.Cancel(h.t.Context(), run, "ann")
			h.must(err)
		},
		"without its rule": func(h *reminding, _ string) {
			h.stop()
			h.rule.Remind = 0
			h.serve(h.store)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withReminders(t, func(h *reminding) {
				run := h.ask("t")
				h.pass(5 * time.Minute)
				end(h, run)
				h.pass(30 * time.Minute)
				if got := h.phone.times(); !slices.Equal(got, toldAt[:3]) {
					t.Errorf("told after %v minutes, want %v", got, toldAt[:3])
				}
				var open []*mailroom.Run
				h.must(h.ledger.View(h.t.Context(), func(r store.Reader) (err error) {
					open, err = r.Runs(store.RunQuery{Thread: alert.ThreadID("phone"), Statuses: []mailroom.Status{
						mailroom.StatusQueued, mailroom.StatusRunning, mailroom.StatusFailed}})
					return err
				}))
				if len(open) != 0 {
					t.Errorf("%d reminders are left", len(open))
				}
			})
		})
	}
}

// TestNoReminderComesInQuietHours asks a minute before the quiet hours. The first reminder waits for their end, and
// the second one counts from then.
func TestNoReminderComesInQuietHours(t *testing.T) {
	withReminders(t, func(h *reminding) {
		h.stop()
		h.rule.Quiet = alert.Quiet{From: 2, To: 10}
		h.serve(h.store)
		h.pass(time.Minute)
		h.ask("t")
		h.pass(45 * time.Minute)
		if got, want := h.phone.times(), []int{1, 10, 12, 16, 24, 40}; !slices.Equal(got, want) {
			t.Errorf("told after %v minutes, want %v", got, want)
		}
	})
}

// TestAReminderIsPassedOnOnce has a first target that is down. Only its own runs send the next reminder.
func TestAReminderIsPassedOnOnce(t *testing.T) {
	withReminders(t, func(h *reminding) {
		h.ask("t")
		h.pass(30 * time.Second)
		h.phone.fail(func() error {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route to the phone")}
		})
		h.pass(45 * time.Minute)
		if got, more := len(h.phone.messages()), len(h.mail.messages()); got != 1 || more != len(toldAt)-1 {
			t.Errorf("the first target got %d messages, and the second one %d", got, more)
		}
	})
}

// TestTriesOfADownTargetSendNoFurtherReminder has one target, which is down for most of the time.
func TestTriesOfADownTargetSendNoFurtherReminder(t *testing.T) {
	withReminders(t, func(h *reminding) {
		h.stop()
		h.rule.To = h.rule.To[:1]
		h.serve(h.store)
		h.ask("t")
		h.pass(30 * time.Second)
		h.phone.fail(func() error {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route to the phone")}
		})
		h.pass(2 * time.Hour)
		h.phone.fail(nil)
		h.pass(2 * time.Hour)
		h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
			sent, err := r.Entries(store.EntryQuery{Thread: alert.ThreadID("phone"), Kinds: []string{entry.KindSend},
				Limit: 1000})
			if got := len(h.phone.messages()); len(sent) != len(toldAt)-2 || got != len(toldAt) {
				t.Errorf("%d sends of %d messages, want one for each reminder but the first", len(sent), got)
			}
			return err
		}))
	})
}

// TestManyQuestionsHaveFewReminders asks more questions than get an alert each. A reminder counts what is open then.
func TestManyQuestionsHaveFewReminders(t *testing.T) {
	withReminders(t, func(h *reminding) {
		h.stop()
		h.rule.Remind = 12 * time.Minute
		h.serve(h.store)
		var runs []string
		for i := range 15 {
			runs = append(runs, h.ask(fmt.Sprint("t", i)))
			h.pass(2 * time.Second)
		}
		h.pass(11 * time.Minute)
		told := len(h.phone.messages())
		for _, run := range runs[:12] {
			h.deny(run)
		}
		h.pass(12 * time.Minute)
		reminders := h.phone.messages()[told:]
		if told != 11 || len(reminders) != 1 || reminders[0].Title != "Reminder: 3 questions wait for a decision" {
			t.Errorf("%d alerts, and reminders %+v", told, reminders)
		}
	})
}

// TestEachReminderComesOnceDespiteAKillAtAnyWrite kills the server before and after each of its writes to a log, from
// the question to its last reminder, and starts it again within half of the time of the first one. What may have been
// sent before the kill is marked as repeated. The times are shorter than those of the other tests, because a follower
// looks each second.
func TestEachReminderComesOnceDespiteAKillAtAnyWrite(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		killAtAnyWrite(t, func(*testing.T) (store.Store, error) { return memory.New(), nil })
	})
	t.Run("sqlite", func(t *testing.T) {
		killAtAnyWrite(t, func(t *testing.T) (store.Store, error) {
			return sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "mail.db"), sqlite.Options{})
		})
	})
}

// killAtAnyWrite is TestEachReminderComesOnceDespiteAKillAtAnyWrite on a store.
func killAtAnyWrite(t *testing.T, open func(t *testing.T) (store.Store, error)) {
	const unit = 10 * time.Second
	for n := 1; ; n++ {
		survived := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(n, after), func(t *testing.T) {
				withRemindersOn(t, unit, open, func(h *reminding) {
					h.stop()
					m := &storetest.Killable{Store: h.store, N: n, After: after}
					h.serve(m)
					h.ask("t")
					for range 90 {
						h.pass(unit / 2)
						if m.IsDead() {
							break
						}
					}
					if survived = !m.IsDead(); !survived {
						h.stop()
						h.serve(h.store)
						h.ask("t") // the answer may have been lost
					}
					h.pass(40 * unit)
					got := map[string]int{}
					for i, msg := range h.phone.messages() {
						if got[msg.Key]++; got[msg.Key] > 1 && !msg.Repeated {
							t.Errorf("message %d came before: %+v", i, msg)
						}
					}
					if len(got) != len(toldAt) || len(h.phone.messages()) > len(toldAt)+1 {
						t.Errorf("%d of %d messages, at %v", len(got), len(toldAt), h.phone.times())
					}
				})
			})
		}
		if survived {
			if n < 30 {
				t.Errorf("only %d kills", n-1)
			}
			return
		}
	}
}
