package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/alert/hook"
	"mailroom/alert/ntfy/ntfytest"
	"mailroom/channel/platformtest"
	"mailroom/entry"
	"mailroom/internal/webhooksign"
)

// seenAlert is a message as a person sees it.
type seenAlert struct {
	key      string // recognizes a repeat; "" if the target has none
	repeated bool   // marked as a repeat
	deny     *ntfytest.Action
}

// place is where alerts go in a kill test.
type place struct {
	config string // of [targets.phone]
	fail   func(ntfytest.Fault)
	seen   func() int // messages that arrived, taken or not
	taken  func() []seenAlert
}

func ntfyPlace(t *testing.T, _ *fixture) place {
	s := ntfytest.New(t)
	return place{
		config: fmt.Sprintf("kind = \"ntfy\"\nurl = %q\ntopic = \"alerts\"\nallow = [\"127.0.0.1\"]\n", s.URL), fail: s.Fail, seen: s.Seen,
		taken: func() (all []seenAlert) {
			for _, m := range s.Taken() {
				all = append(all, seenAlert{repeated: strings.HasPrefix(m.Title, "(repeated) "), deny: m.Button("Deny")})
			}
			return all
		},
	}
}

// hookPlace is a program that verifies what it gets.
func hookPlace(t *testing.T, h *fixture) place {
	secret := webhooksign.New()
	keys, err := webhooksign.Parse(secret)
	h.must(err)
	file := h.dir.TargetSecret("phone", "token")
	h.must(os.WriteFile(file, []byte(secret), 0o600))
	var mu sync.Mutex
	var fault ntfytest.Fault
	var all []seenAlert
	arrived := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var body hook.Body
		if id, verified := keys.Verify(r.Header, raw, time.Now()); err != nil || verified != nil || json.Unmarshal(raw, &body) != nil || id != body.Key {
			t.Errorf("request %q: %v, %v", raw, err, verified)
		}
		mu.Lock()
		arrived++
		now := fault
		if now == ntfytest.None || now == ntfytest.LoseAnswer {
			m := seenAlert{key: body.Key, repeated: body.Repeated}
			for _, b := range body.Buttons {
				if b.Label == "Deny" {
					m.deny = &ntfytest.Action{Action: "http", URL: b.URL, Method: http.MethodPost, Body: string(b.Body), Headers: map[string]string{"Content-Type": "application/json"}}
				}
			}
			all = append(all, m)
		}
		mu.Unlock()
		if now != ntfytest.None {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return place{
		config: fmt.Sprintf("kind = \"webhook\"\nurl = %q\ntoken_file = %q\nallow = [\"127.0.0.1\"]\n", s.URL, file),
		fail: func(f ntfytest.Fault) {
			mu.Lock()
			defer mu.Unlock()
			fault = f
		},
		seen: func() int {
			mu.Lock()
			defer mu.Unlock()
			return arrived
		},
		taken: func() []seenAlert {
			mu.Lock()
			defer mu.Unlock()
			return append([]seenAlert{}, all...)
		},
	}
}

// TestAServerThatIsKilledTellsEachQuestion kills the server at each moment between a question and the end of
// its run. The question is told, decided once, and the run goes on. A question that may have arrived before
// is marked.
func TestAServerThatIsKilledTellsEachQuestion(t *testing.T) {
	for name, start := range map[string]func(*testing.T, *fixture) place{"ntfy": ntfyPlace, "webhook": hookPlace} {
		for _, test := range []struct {
			when     string
			fault    ntfytest.Fault
			messages int // that arrive
			repeated int // of these
			decided  bool
		}{
			{"before the send", ntfytest.HoldOpen, 1, 1, false}, // the server cannot know that nothing arrived
			{"before its receipt", ntfytest.LoseAnswer, 2, 1, false},
			{"after the send", ntfytest.None, 1, 0, false},
			{"after the decision", ntfytest.None, 1, 0, true},
		} {
			t.Run(name+", "+test.when, func(t *testing.T) {
				f := &alertFixture{fixture: newFixture(t, ""), server: &process{}}
				p := start(t, f.fixture)
				f.configure(fmt.Sprintf(alertConfig, p.config))
				f.process(f.server)
				p.fail(test.fault)
				run := f.ask("t")
				platformtest.WaitFor(t, "the question", func() bool { return p.seen() > 0 })
				if test.fault == ntfytest.None {
					f.waitEntries("alert:phone", entry.KindCompleted, 1)
				}
				if test.decided {
					f.deny(p.taken()[0])
				}
				f.server.kill()
				p.fail(ntfytest.None)
				f.process(f.server)
				f.waitEntries("alert:phone", entry.KindCompleted, 1)
				all := p.taken()
				keys, repeated := map[string]bool{}, 0
				for _, m := range all {
					if keys[m.key] = true; m.repeated {
						repeated++
					}
				}
				if len(all) != test.messages || repeated != test.repeated || len(keys) != 1 {
					t.Errorf("%d messages with %d keys, %d of them marked as repeated, want %d, 1 and %d", len(all), len(keys), repeated, test.messages, test.repeated)
				}
				for _, m := range all { // whichever the user presses, and then the other
					f.deny(m)
				}
				f.waitRun(run)
				if n := f.decisions("t"); n != 1 {
					t.Errorf("decided %d times by the phone", n)
				}
				if k := f.ticket("t"); *k.Decision != mailroom.VerdictDeny || *k.DecidedBy != "alert:phone" {
					t.Errorf("ticket: %+v", k)
				}
			})
		}
	}
}

func (f *alertFixture) deny(m seenAlert) {
	f.t.Helper()
	if m.deny == nil {
		f.t.Fatalf("no button in %+v", m)
	}
	if status, answer := f.press(m.deny); status != http.StatusOK {
		f.t.Errorf("deny: %d %s", status, answer)
	}
}
