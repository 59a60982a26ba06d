package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/platformtest"
	"mailroom/channel/webhook"
)

func TestAWebhookIsAChannel(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform { return newPlatform(t) })
}

// TestAWebhookIsAChatPlatform runs the suite with programs that can edit messages and that cannot.
func TestAWebhookIsAChatPlatform(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string]bool{"edits": true, "no edits": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			channeltest.RunChat(t, func(t *testing.T) *channeltest.Platform {
				return newPlatform(t, func(o *webhook.Options) { o.Edits = edits })
			})
		})
	}
}

// TestAWebhookIsAChannelOverABadNetwork has faults between the adapter and a receiver that
// deduplicates by id.
func TestAWebhookIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, func(t *testing.T, proxied func(string) string) *channeltest.Platform {
		return newPlatform(t, func(o *webhook.Options) { o.URL = proxied(o.URL) })
	})
}

// newPlatform returns a receiver that deduplicates by id and a program that repeats each request
// until it is accepted, and a channel with changed options.
func newPlatform(t *testing.T, change ...func(*webhook.Options)) *channeltest.Platform {
	receiver := platformtest.NewWebhookReceiver(t)
	secret, hooks := channeltest.NewSetting(platformtest.WebhookSecret), webhook.NewHooks()
	hooks.Expect("c")
	o := webhook.Options{
		Secret: secret.Get, Hooks: hooks, URL: receiver.URL, Policy: loopback(), Edits: true, EditGap: 10 * time.Millisecond,
		Timeout: 2 * time.Second,
	}
	for _, f := range change {
		f(&o)
	}
	program := newSender(t, hooks, receiver)
	pace := o.ReconnectPolicy()
	pace.InitialDelay, pace.MaxDelay = 10*time.Millisecond, 50*time.Millisecond
	return &channeltest.Platform{
		Kind:      webhook.Kind,
		Reconnect: pace,
		Dialer:    func() chat.Dialer { return o.Dial },
		Secrets:   []string{platformtest.WebhookKey},
		People:    program.people(),
		Outages: channeltest.Outages{
			Fake: receiver.Server,
		},
		Credentials: channeltest.Credentials{
			Wrong: []channeltest.Login{
				channeltest.WrongToken("none", secret, "", "missing secret"),
				channeltest.WrongToken("short", secret, "hush-hush", "has 9 bytes, but at least 24"),
				channeltest.WrongToken("no Base64", secret, "whsec_hush!hush!hush!hush!hush!", "is not Base64"),
				channeltest.WrongToken("one short", secret, platformtest.WebhookSecret+" whsec_aHVzaA==", "has 4 bytes"),
			},
		},
		Events: channeltest.Events{
			Redeliver:  program.redeliver,
			RepeatsAll: true,
			Malformed:  program.sendMalformed,
			History:    true,
		},
		Calls: channeltest.Calls{
			Send:       "signed",
			StatusOnly: true,
			Limits: map[string]func(string, time.Duration){"the receiver": func(_ string, d time.Duration) {
				receiver.Fail(platformtest.Fault{Status: 429, RetryAfter: d.Seconds()})
			}},
			Made:        channeltest.SendsOf(receiver.Server, "signed"),
			LongReply:   100_000,
			ExactlyOnce: true,
		},
	}
}

// sender is a program that sends requests in order, each until it is accepted.
type sender struct {
	t        *testing.T
	program  platformtest.WebhookProgram
	receiver *platformtest.WebhookReceiver
	requests chan request

	// Owned by mu.
	mu     sync.Mutex
	number int
	last   request
}

// request is a request of a sender. answered receives the answer to a pressed button.
type request struct {
	id, body string
	answered *channeltest.Setting[[]string]
}

func newSender(t *testing.T, hooks *webhook.Hooks, receiver *platformtest.WebhookReceiver) *sender {
	endpoint := hooks.Protocol()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.SetPathValue("channel", "c")
		_, err := endpoint.Admit(r)
		var accepted any
		if err == nil {
			accepted, err = endpoint.Answer(r)
		}
		switch mailroom.CodeOf(err) {
		case "":
			w.WriteHeader(http.StatusAccepted)
			_ = json.NewEncoder(w).Encode(accepted) // the client may be gone
		case mailroom.CodeUnavailable:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusBadRequest)
			if !strings.HasPrefix(r.Header.Get("webhook-id"), malformedID) {
				t.Errorf("a request is refused: %v", err)
			}
		}
	}))
	program := platformtest.WebhookProgram{URL: server.URL, Key: platformtest.WebhookKey}
	s := &sender{t: t, program: program, receiver: receiver,
		requests: make(chan request, 1000)}
	var worker sync.WaitGroup
	worker.Go(s.work)
	t.Cleanup(func() {
		close(s.requests)
		worker.Wait()
		server.Close()
	})
	return s
}

// work sends the requests.
func (s *sender) work() {
	for r := range s.requests {
		for s.t.Context().Err() == nil {
			a, err := s.program.Post("c", r.id, r.body, nil)
			var accepted webhook.Accepted
			if err == nil && a.Code == http.StatusAccepted && json.Unmarshal([]byte(a.Body), &accepted) == nil {
				if r.answered != nil {
					r.answered.Set([]string{accepted.Answer})
				}
				break
			}
			if a.Code == http.StatusBadRequest {
				break
			}
			<-time.After(5 * time.Millisecond) // the pause of the program before its retry
		}
	}
}

// send queues a request about a place and returns its id.
func (s *sender) send(from, place string, fields map[string]any, answered *channeltest.Setting[[]string]) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	id := fmt.Sprint("msg-", s.number)
	fields["room"], fields["group"], fields["user"] = place, place == channeltest.Dev,
		map[string]string{"id": from, "name": from}
	if fields["kind"] == "delete" {
		delete(fields, "user")
	}
	s.last = request{id, requestBody(s.t, fields), answered}
	s.requests <- s.last
	return id
}

// redeliver sends the last request again.
func (s *sender) redeliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests <- s.last
}

// malformedID begins the ids of requests that must be refused.
const malformedID = "malformed-"

// sendMalformed sends requests that are refused.
func (s *sender) sendMalformed() {
	for i, body := range []string{"", "[]", `{"room":`, `{"room":"r","user":{"id":"u"},"text":""}`,
		`{"room":"r","user":{"id":"u"},"text":"x","color":"red"}`} {
		s.requests <- request{id: fmt.Sprint(malformedID, i), body: body}
	}
}

func (s *sender) people() channeltest.People {
	return channeltest.People{
		ID:   func(person string) string { return person },
		Room: func(place string) chat.Room { return chat.Room{Chat: place, Group: place == channeltest.Dev} },
		Say: func(m channeltest.Message) string {
			return s.send(m.From, m.Place, map[string]any{"text": m.Text, "addressed": m.ToBot || m.Place != channeltest.Dev ||
				m.ReplyTo != ""}, nil)
		},
		Shown: s.shown,
		Upload: func(person, place, name string, content []byte) {
			s.send(person, place, map[string]any{"files": []map[string]any{
				{"name": name, "uri": "https://files.example.org/" + name, "mime_type": "text/plain", "size": len(content)},
			}}, nil)
		},
		Edit: func(person, place, id, text string) {
			s.send(person, place, map[string]any{"kind": "edit", "of": id, "text": text}, nil)
		},
		Forward: func(person, place, text string) {
			s.send(person, place,
				map[string]any{"context": []map[string]any{{"kind": "forward", "author": map[string]string{"id": "42",
					"name": "Mallory"}, "text": text}}}, nil)
		},
		Delete: func(person, place, id string) { s.send(person, place, map[string]any{"kind": "delete", "of": id}, nil) },
		Press: func(person, place, id, data string) func() []string {
			answered := channeltest.NewSetting[[]string](nil)
			s.send(person, place, map[string]any{"kind": "tap", "of": id, "data": data}, answered)
			return func() []string {
				answers, _ := answered.Get() // never fails
				return answers
			}
		},
	}
}

// shown returns the messages of a room as a program shows them that deduplicates and edits.
func (s *sender) shown(place string) (shown []channeltest.Shown) {
	at := map[string]int{}
	for _, p := range s.receiver.Posts() {
		m := channeltest.Shown{ID: p.ID, Text: p.Body.Text}
		for _, b := range p.Body.Buttons {
			m.Buttons = append(m.Buttons, chat.Button{Label: b["words"], Data: b["data"]})
		}
		_, known := at[p.ID]
		switch {
		case !p.Accepted || known || p.Body.Room != place:
		case p.Body.Kind == "edit":
			if i, ok := at[p.Body.Of]; ok {
				m.ID = shown[i].ID
				shown[i] = m
			}
		default:
			at[p.ID] = len(shown)
			shown = append(shown, m)
		}
	}
	return shown
}
