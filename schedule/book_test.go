package schedule_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/schedule/plan"
	"mailroom/store"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// request returns a send that asks a thread's own schedules for something.
func request(name, format string, args ...any) mailroom.Send {
	return mailroom.Send{Name: name, Agent: reserved.Scheduler, Parts: mailroom.Text(fmt.Sprintf(format, args...))}
}

// say submits a message of an owner to a thread.
func (h *fixture) say(owner, id, text string) {
	h.t.Helper()
	_, err := h.ledger.Submit(h.t.Context(), thread.Submit{Thread: id, Agent: "coder", Owner: owner, Key: text,
		Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}}, Origin: mailroom.Origin{Via: "user"}})
	h.must(err)
}

// sends makes the worker send what f returns for the text of its input, in one step.
func (h *fixture) sends(f func(text string) []mailroom.Send) {
	h.worker = func(ctx context.Context, s mailroom.Session) error {
		input, err := s.Input(ctx)
		if err != nil {
			return err
		}
		if sends := f(input[0].Text); len(sends) > 0 && s.Run().Checkpoint == nil {
			return s.Append(ctx, mailroom.Step{Name: "sent", Sends: sends, Checkpoint: json.RawMessage("1")})
		}
		return nil
	}
}

// heard returns the texts of the messages in a thread, with their times.
func (h *fixture) heard(id string) string {
	h.t.Helper()
	var all []string
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		entries, err := r.Entries(store.EntryQuery{Thread: id, Kinds: []string{"message"}, Limit: 1000})
		for _, e := range entries {
			var m mailroom.Message
			h.must(e.Decode(&m))
			if m.Role == mailroom.RoleUser {
				all = append(all, e.At.Format("15:04 ")+m.Text)
			}
		}
		return err
	}))
	return strings.Join(all, ", ")
}

// answers returns the answers of a book, oldest first.
func (h *fixture) answers(owner, id string) (all []api.OwnSchedules) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(r store.Reader) error {
		entries, err := r.Entries(store.EntryQuery{Thread: reserved.BookID(owner, id), Kinds: []string{"message"},
			Limit: 1000})
		for _, e := range entries {
			var m mailroom.Message
			h.must(e.Decode(&m))
			var a api.OwnSchedules
			if m.Role == mailroom.RoleAssistant && json.Unmarshal([]byte(m.Text), &a) == nil {
				all = append(all, a)
			}
		}
		return err
	}))
	return all
}

// own returns the state of a schedule of a thread's book.
func (h *fixture) own(owner, id string, number int) *plan.State {
	h.t.Helper()
	return h.state(reserved.OwnScheduleID(reserved.BookID(owner, id), number))
}

func TestARunSchedulesAMessageToItsOwnThreadAndCancelsIt(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.sends(func(text string) []mailroom.Send {
			switch text {
			case "begin":
				return []mailroom.Send{
					request("a", `{"op":"set","name":"once","spec":{"at":"10m","text":"look"}}`),
					request("b", `{"op":"set","name":"often","spec":{"every":"4m","text":"beat"}}`),
				}
			case "look":
				return []mailroom.Send{request("c", `{"op":"cancel","name":"often"}`), request("d", `{"op":"list"}`)}
			}
			return nil
		})
		h.say("admin", "work", "begin")
		h.rest(20 * time.Minute)
		if got, want := h.heard("work"), "00:00 begin, 00:04 beat, 00:08 beat, 00:10 look"; got != want {
			t.Errorf("the thread got %s, want %s", got, want)
		}
		all := h.answers("admin", "work")
		if len(all) != 4 || all[0].Items[0].Name != "once" || all[0].Items[0].Number != 1 || all[0].Items[0].NextAt == nil ||
			all[1].Items[0].Number != 2 || all[1].Items[0].When != "every 4m" || all[2].Items[0].Name != "often" {
			t.Errorf("answers %+v", all)
		}
		for n := 1; n <= 2; n++ {
			if s := h.own("admin", "work", n); !s.Over() {
				t.Errorf("schedule %d is not over: %+v", n, s)
			}
		}
	})
}

// TestAThreadSchedulesItselfForLongerThanAChainOfThreads asks for the next message in each run, and waits for the
// answer.
func TestAThreadSchedulesItselfForLongerThanAChainOfThreads(t *testing.T) {
	withFixture(t, func(h *fixture) {
		runs := 0
		h.worker = func(ctx context.Context, s mailroom.Session) error {
			if s.Run().Checkpoint == nil {
				runs++
				next := request("next", `{"op":"set","spec":{"at":"1m","text":"again"}}`)
				next.Answer = mailroom.AnswerWait
				if err := s.Append(ctx, mailroom.Step{Name: "ask", Sends: []mailroom.Send{next},
					Checkpoint: json.RawMessage("1")}); err != nil {
					return err
				}
			}
			found, err := s.Wait(ctx, false, mailroom.Ask{Name: "next", Kind: mailroom.TicketChildren})
			if err == nil && !strings.Contains(string(found[0].Answer), `next_at`) {
				t.Errorf("the answer is %s", found[0].Answer)
			}
			return err
		}
		h.say("admin", "work", "begin")
		h.rest(4 * mailroom.MaxHops * time.Minute)
		if runs < 3*mailroom.MaxHops {
			t.Errorf("%d runs", runs)
		}
		if s := h.own("admin", "work", 3); s != nil {
			t.Errorf("numbers are not used again: %+v", s)
		}
	})
}

func TestTheOpenSchedulesOfAThreadAreBounded(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.sends(func(text string) (all []mailroom.Send) {
			switch text {
			case "more":
				all = append(all, request("z", `{"op":"set","spec":{"at":"10h","text":"x"}}`))
			case "begin":
				for n := range plan.MaxOwn + 5 {
					all = append(all, request(fmt.Sprint(n), `{"op":"set","spec":{"at":"%dm","text":"x"}}`, 60+n))
				}
			}
			return all
		})
		h.say("admin", "work", "begin")
		h.rest(time.Minute)
		refused := 0
		for _, a := range h.answers("admin", "work") {
			if strings.Contains(a.Refused, "20 schedules of the thread are open") {
				refused++
			}
		}
		if refused != 5 || h.own("admin", "work", plan.MaxOwn) == nil || h.own("admin", "work", plan.MaxOwn+1) != nil {
			t.Errorf("%d of %d were refused, want 5", refused, plan.MaxOwn+5)
		}
		h.rest(61 * time.Minute) // the first is over
		h.say("admin", "work", "more")
		h.rest(time.Minute)
		all := h.answers("admin", "work")
		if last := all[len(all)-1]; last.Refused != "" {
			t.Errorf("after one was over: %+v", last)
		}
	})
}

func TestARefusedRequestSaysWhy(t *testing.T) {
	withFixture(t, func(h *fixture) {
		asked := map[string]string{
			`{"op":"set","spec":{"at":"20s","text":"x"}}`:                    "less than 1m0s ahead",
			`{"op":"set","spec":{"cron":"every weekday at 7","text":"x"}}`:   `use "0 7 * * 1-5"`,
			`{"op":"set","spec":{"every":"1h","text":"x","thread":"other"}}`: "another thread",
			`{"op":"set","name":"7","spec":{"every":"1h","text":"x"}}`:       "is a number",
			`{"op":"set","name":"of.x","spec":{"every":"1h","text":" "}}`:    "text: is empty",
			// the agent is that of the thread
			`{"op":"set","spec":{"every":"1h","text":"x","options":{"loud":1}}}`: `does not take the option "loud"`,
			`{"op":"set"}`:                        "spec: is missing",
			`{"op":"cancel","name":"never"}`:      `no open schedule "never"`,
			`{"op":"stop"}`:                       "use set, cancel or list",
			`every morning`:                       "is no request such as",
			`{"op":"list","by":"admin"}`:          "unknown field",
			`{"op":"set","thread":"x","spec":{}}`: "unknown field",
		}
		var order []string
		h.sends(func(string) (all []mailroom.Send) {
			for text := range asked {
				order = append(order, text)
				all = append(all, request(fmt.Sprint(len(order)), "%s", text))
			}
			return all
		})
		h.say("admin", "work", "begin")
		h.rest(time.Minute)
		all := h.answers("admin", "work")
		if len(all) != len(asked) {
			t.Fatalf("%d answers to %d requests", len(all), len(asked))
		}
		for i, a := range all {
			if want := asked[order[i]]; !strings.Contains(a.Refused, want) {
				t.Errorf("%s: %q, want %q", order[i], a.Refused, want)
			}
		}
	})
}

// TestOnlyAThreadsOwnRunsUseItsBook lets another thread of the owner, and the owner, write to it.
func TestOnlyAThreadsOwnRunsUseItsBook(t *testing.T) {
	withFixture(t, func(h *fixture) {
		book := reserved.BookID("admin", "work")
		h.sends(func(text string) []mailroom.Send {
			one := request("a", `{"op":"set","spec":{"every":"1h","text":"x"}}`)
			if text == "foreign" {
				one.Thread = book
			}
			return []mailroom.Send{one}
		})
		h.say("admin", "work", "begin")
		h.rest(time.Second)
		h.say("admin", "elsewhere", "foreign")
		_, err := h.ledger.Submit(h.t.Context(), thread.Submit{Thread: book, Owner: "admin", By: h.operator,
			Messages: []thread.NewMessage{{Parts: mailroom.Text(`{"op":"cancel","name":"1"}`)}},
			Origin:   mailroom.Origin{Via: "user"}})
		h.must(err)
		h.rest(time.Minute)
		if s := h.own("admin", "work", 2); s != nil || h.own("admin", "work", 1).Ended {
			t.Errorf("made by others: %+v", s)
		}
		h.say("ann", "hers", "foreign") // a book of another owner
		h.rest(time.Minute)
		if s := h.own("admin", "work", 2); s != nil {
			t.Errorf("made by another owner: %+v", s)
		}
	})
}

func TestAReminderEndsWithTheTokenOfItsThread(t *testing.T) {
	withFixture(t, func(h *fixture) {
		_, err := h.ledger.Accounts().CreateToken(h.t.Context(), auth.Token{Name: "bob", Sum: "5e",
			Scopes: []auth.Permission{auth.PermissionSubmit}, CreatedAt: time.Now()})
		h.must(err)
		h.sends(func(text string) []mailroom.Send {
			if text != "begin" {
				return nil
			}
			return []mailroom.Send{request("a", `{"op":"set","spec":{"every":"2m","text":"beat"}}`)}
		})
		h.say("bob", "his", "begin")
		h.rest(3 * time.Minute)
		h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "bob"))
		h.rest(10 * time.Minute)
		if got, want := h.heard("his"), "00:00 begin, 00:02 beat"; got != want {
			t.Errorf("the thread got %s, want %s", got, want)
		}
		if s := h.own("bob", "his", 1); s.Paused == nil || !strings.Contains(s.Paused.Note, "token bob") {
			t.Errorf("paused: %+v", s.Paused)
		}
	})
}

func TestAReminderEndsWithItsThread(t *testing.T) {
	withFixture(t, func(h *fixture) {
		h.sends(func(text string) []mailroom.Send {
			if text != "begin" {
				return nil
			}
			return []mailroom.Send{request("a", `{"op":"set","spec":{"every":"2m","text":"beat","agent":"coder"}}`)}
		})
		h.say("admin", "work", "begin")
		h.rest(3 * time.Minute)
		h.must(h.ledger.DeleteThread(h.t.Context(), "work", nil))
		h.rest(5 * time.Minute)
		if got := h.heard("work"); got != "" {
			t.Errorf("the deleted thread got %s", got)
		}
		if s := h.own("admin", "work", 1); !s.Over() {
			t.Errorf("the schedule is not over: %+v", s)
		}
	})
}

// TestARequestOfARunIsCarriedOutOnceDespiteAKillAtAnyWrite counts what is made and what is sent.
func TestARequestOfARunIsCarriedOutOnceDespiteAKillAtAnyWrite(t *testing.T) {
	for n := 1; ; n++ {
		survived := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprint(n, after), func(t *testing.T) {
				withFixture(t, func(h *fixture) {
					h.sends(func(text string) []mailroom.Send {
						if text != "begin" {
							return nil
						}
						return []mailroom.Send{request("a", `{"op":"set","spec":{"at":"1m","text":"look"}}`)}
					})
					h.stop()
					m := &storetest.Killable{Store: h.store, N: n, After: after}
					h.serve(m)
					submit := func() error {
						_, err := h.ledger.Submit(h.t.Context(), thread.Submit{Thread: "work", Agent: "coder", Owner: "admin",
							Key: "begin", Messages: []thread.NewMessage{{Parts: mailroom.Text("begin")}}})
						return err
					}
					err := submit()
					restarted := false
					for range 12 {
						if h.rest(15 * time.Second); m.IsDead() && !restarted {
							restarted = true
							h.stop()
							h.serve(h.store)
							if err != nil {
								h.must(submit())
							}
						}
					}
					survived = !restarted
					if got := h.heard("work"); strings.Count(got, "begin") != 1 || strings.Count(got, "look") != 1 {
						t.Errorf("the thread got %s", got)
					}
					if h.own("admin", "work", 1) == nil || h.own("admin", "work", 2) != nil {
						t.Error("not one schedule was made")
					}
				})
			})
		}
		if survived {
			if n < 8 {
				t.Errorf("only %d kills", n-1)
			}
			return
		}
	}
}
