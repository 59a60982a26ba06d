package alert_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/thread"
)

var reachSeed = flag.Uint64("reach-seed", 0, "of the one history of TestEachEventReachesAPersonWhoMayGetIt; 0: some")

// TestEachEventReachesAPersonWhoMayGetIt runs random histories of threads that deliver to a target by themselves,
// tokens that are revoked, expire and are made again, and a target that is down or refuses. The model is one sentence:
// each event that the operator's rule names is sent at least once, by the thread or by the rule.
func TestEachEventReachesAPersonWhoMayGetIt(t *testing.T) {
	seeds := []uint64{*reachSeed}
	if *reachSeed == 0 {
		seeds = nil
		for range 3 {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { reachHistory(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func reachHistory(t *testing.T, random *rand.Rand) {
	inBubble(t, []alert.Rule{rule(alert.KindTicket, alert.KindFailed)}, []string{"phone", "mail"}, func(h *fixture) {
		var events []string
		var log []string
		made := 0
		create := func() {
			made++
			row := auth.Token{Name: "ann", Sum: fmt.Sprint("secret", made), Scopes: []auth.Permission{auth.PermissionSubmit}}
			if random.IntN(3) == 0 {
				row.Terms.ExpiresAt = time.Now().Add(time.Duration(1+random.IntN(20)) * time.Minute)
			}
			_, err := h.ledger.Accounts().CreateToken(h.t.Context(), row)
			h.must(err)
			delete(h.places, "ann")
			h.place("ann", "phone")
		}
		create()
		failures := []error{
			&mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route")},
			&mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("refused")},
			nil,
		}
		for range 30 {
			switch op := random.IntN(10); op {
			case 0:
				_ = h.ledger.Accounts().RevokeToken(h.t.Context(), "ann") // it may be revoked already
				log = append(log, "revoke")
			case 1:
				_ = h.ledger.Accounts().RevokeToken(h.t.Context(), "ann")
				create()
				log = append(log, "create")
			case 2:
				fault := failures[random.IntN(len(failures))]
				h.targets["phone"].fail(func() error { return fault })
				log = append(log, fmt.Sprint("phone: ", fault))
			default:
				const letters = "ghijklmnopqrstuvwxyz" // no digits of numbers, so that each failure is one of its own
				id := fmt.Sprintf("thread-%c%c", letters[len(events)/len(letters)], letters[len(events)%len(letters)])
				text := id + " is broken"
				if op%2 == 0 {
					text = "ask about " + id
				}
				in := thread.Submit{Thread: id, Owner: "ann", Agent: "worker",
					Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}}}
				if random.IntN(4) > 0 {
					in.DeliverTo, in.DeliverAgent = h.places["ann"], alert.AgentName("phone")
				}
				in.DeliverTo = strings.Replace(in.DeliverTo, "alert::", "alert:phone:", 1)
				_, err := h.ledger.Submit(h.t.Context(), in)
				h.must(err)
				events = append(events, id)
				log = append(log, text+" "+in.DeliverTo)
			}
			h.after(5*time.Minute + time.Duration(random.IntN(300))*time.Second) // no flood, whose failures are only counted
		}
		h.targets["phone"].fail(nil)
		h.after(3 * time.Hour)
		sent := map[string]bool{}
		for _, m := range append(h.targets["phone"].messages(), h.targets["mail"].messages()...) {
			for _, id := range events {
				sent[id] = sent[id] || strings.Contains(m.Title+"\n"+m.Body, id)
			}
		}
		for _, id := range events {
			if !sent[id] {
				t.Errorf("%s is not sent", id)
			}
		}
		if t.Failed() {
			t.Log(strings.Join(log, "\n"))
		}
	})
}

// TestTheRuleSendsWhatARevokedDeliveryWould has a thread whose delivery waits while the right to it ends.
func TestTheRuleSendsWhatARevokedDeliveryWould(t *testing.T) {
	for name, end := range map[string]func(h *fixture){
		"revoked before": func(h *fixture) { h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "ann")) },
		"revoked while it waits": func(h *fixture) {
			begun := time.Now()
			h.targets["phone"].fail(func() error { // the rule has left the event to the delivery by then
				if time.Since(begun) > 5*time.Second {
					h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "ann"))
					h.targets["phone"].fault = nil
				}
				return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route")}
			})
		},
		"revoked and made again": func(h *fixture) {
			h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "ann"))
			_, err := h.ledger.Accounts().CreateToken(h.t.Context(),
				auth.Token{Name: "ann", Sum: "another", Scopes: []auth.Permission{auth.PermissionSubmit}})
			h.must(err)
		},
		"it may": func(*fixture) {},
	} {
		t.Run(name, func(t *testing.T) {
			one := rule(alert.KindFailed)
			one.To = []string{"phone"}
			inBubble(t, []alert.Rule{one}, []string{"phone"}, func(h *fixture) {
				h.createToken("ann")
				place := h.place("ann", "phone")
				h.after(time.Minute)
				end(h)
				_, err := h.ledger.Submit(h.t.Context(), thread.Submit{
					Thread: "hers", Owner: "ann", Agent: "worker", Messages: []thread.NewMessage{{Parts: mailroom.Text("boom")}},
					DeliverTo: place, DeliverAgent: alert.AgentName("phone"),
				})
				h.must(err)
				h.after(10 * time.Minute)
				got := h.targets["phone"].messages()
				want := alert.KindFailed
				if name == "it may" {
					want = alert.KindReply
				}
				if len(got) != 1 || got[0].Kind != want || !strings.Contains(got[0].Body, "In hers.") {
					t.Errorf("messages: %+v, want one of kind %s", got, want)
				}
			})
		})
	}
}

// TestADeliveryIsTakenOverByTheOtherTargetsOfTheRule has a target that is down and to which a thread delivers.
func TestADeliveryIsTakenOverByTheOtherTargetsOfTheRule(t *testing.T) {
	inBubble(t, []alert.Rule{rule(alert.KindTicket)}, []string{"phone", "mail"}, func(h *fixture) {
		h.createToken("ann")
		h.targets["phone"].fail(func() error {
			return &mailroom.Failure{Class: mailroom.ClassUnavailable, Err: errors.New("no route")}
		})
		h.deliver("ann", "ask about it")
		h.after(5 * time.Minute)
		if got := h.targets["mail"].messages(); len(got) != 1 || !strings.Contains(got[0].Body, "ask about it") {
			t.Errorf("the other target got %+v, want the question", got)
		}
	})
}

// TestDeliveriesOfATokenEndWithItsRow revokes a token, or lets it expire, and makes one of its name: its rule and the
// delivery of its thread stay ended, and those of the new token hold.
func TestDeliveriesOfATokenEndWithItsRow(t *testing.T) {
	for name, expires := range map[string]bool{"revoked": false, "expired": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, []string{"phone"}, func(h *fixture) {
				make := func(sum string, end time.Time) {
					_, err := h.ledger.Accounts().CreateToken(h.t.Context(), auth.Token{
						Name: "ann", Sum: sum, Scopes: []auth.Permission{auth.PermissionSubmit}, Terms: auth.Terms{ExpiresAt: end},
					})
					h.must(err)
					delete(h.places, "ann")
				}
				var end time.Time
				if expires {
					end = time.Now().Add(time.Hour)
				}
				make("first", end)
				h.storeRule("ann")
				h.deliver("ann", "boom one")
				h.submitOf("ann", "other", "boom two")
				h.after(time.Minute)
				h.wantSent("with the token", 2)
				if h.after(2 * time.Hour); !expires {
					h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "ann"))
				}
				again := func(n int) {
					h.submitOf("ann", "of-ann", fmt.Sprint("boom again ", strings.Repeat("x", n)))
					h.submitOf("ann", "other", fmt.Sprint("boom more ", strings.Repeat("y", n)))
					h.after(2 * time.Minute)
				}
				again(1)
				h.wantSent("without the token", 2)
				if expires {
					h.must(h.ledger.Accounts().RevokeToken(h.t.Context(), "ann"))
				}
				make("second", time.Time{})
				again(2)
				h.wantSent("with another token of its name", 2)
				h.storeRule("ann")
				again(3)
				h.wantSent("with a rule of the other token", 4)
			})
		})
	}
}

// storeRule stores a rule of a token about failures of its threads.
func (h *fixture) storeRule(owner string) {
	h.t.Helper()
	h.must(h.ledger.View(h.t.Context(), func(r store.Reader) error {
		rights, err := alert.ReadRights(r, nil, time.Now(), owner)
		if err != nil {
			return err
		}
		at := alert.RulesCursor(owner)
		rule := alert.StoredRule{Row: rights.Row(owner),
			AlertRule: api.AlertRule{Name: "mine", When: []string{"failed"}, To: []string{"phone"}, Text: "full"}}
		return h.ledger.ChangeCursor(h.t.Context(), at.Channel, at.Identity,
			func(json.RawMessage, time.Time) (json.RawMessage, error) {
				return json.Marshal([]alert.StoredRule{rule})
			})
	}))
}

func (h *fixture) submitOf(owner, id, text string) {
	h.t.Helper()
	_, err := h.ledger.Submit(h.t.Context(), thread.Submit{Thread: id, Owner: owner, Agent: "worker",
		Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}}})
	h.must(err)
}

// wantSent checks how many messages the phone has got in all.
func (h *fixture) wantSent(when string, want int) {
	h.t.Helper()
	if got := h.targets["phone"].messages(); len(got) != want {
		h.t.Errorf("%s: %d messages, want %d: %+v", when, len(got), want, got)
	}
}

// TestADeliveryThatIsBeingSentIsNotSentByTheRuleToo has a target that takes 25 seconds for a message, longer than a
// rule waits for the delivery of a thread. It then accepts the message, or refuses it.
func TestADeliveryThatIsBeingSentIsNotSentByTheRuleToo(t *testing.T) {
	for name, tc := range map[string]struct {
		fault error
		want  []alert.Kind
	}{
		"accepted": {nil, []alert.Kind{alert.KindReply}},
		"refused": {&mailroom.Failure{Class: mailroom.ClassPermanent, Err: errors.New("no such room")},
			[]alert.Kind{alert.KindFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			one := rule(alert.KindFailed)
			one.To = []string{"phone"}
			inBubble(t, []alert.Rule{one}, []string{"phone"}, func(h *fixture) {
				h.createToken("ann")
				first := true
				h.targets["phone"].slow(func() (time.Duration, error) {
					if first {
						first = false
						return 25 * time.Second, tc.fault
					}
					return 0, nil
				})
				h.deliver("ann", "boom")
				h.after(10 * time.Minute)
				var got []alert.Kind
				for _, m := range h.targets["phone"].messages() {
					got = append(got, m.Kind)
				}
				if !slices.Equal(got, tc.want) {
					t.Errorf("messages of the kinds %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// TestADeliveryThatHangsIsSentByTheRule has a target that answers no message of a thread for ten minutes.
func TestADeliveryThatHangsIsSentByTheRule(t *testing.T) {
	one := rule(alert.KindFailed)
	one.To = []string{"mail"}
	inBubble(t, []alert.Rule{one}, []string{"phone", "mail"}, func(h *fixture) {
		h.createToken("ann")
		h.targets["phone"].slow(func() (time.Duration, error) { return 10 * time.Minute, nil })
		h.deliver("ann", "boom")
		h.after(8 * time.Minute)
		if got := h.targets["mail"].messages(); len(got) != 1 || got[0].Kind != alert.KindFailed {
			t.Errorf("messages: %+v, want the rule's", got)
		}
		h.after(5 * time.Minute)
	})
}
