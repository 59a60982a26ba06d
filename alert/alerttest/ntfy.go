package alerttest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"
	"time"
)

// Message is a published message.
type Message struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Tags     []string `json:"tags"`
	Priority int      `json:"priority"`
	Click    string   `json:"click"`
	Actions  []Action `json:"actions"`

	Token string `json:"-"` // token of the publisher
}

// Action is a button of a message.
type Action struct {
	Action  string            `json:"action"`
	Label   string            `json:"label"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Clear   bool              `json:"clear"`
}

// Button returns the action with a label, or nil.
func (m Message) Button(label string) *Action {
	for i := range m.Actions {
		if m.Actions[i].Label == label {
			return &m.Actions[i]
		}
	}
	return nil
}

// Fault is what the server does with the next message instead of taking it and answering.
type Fault int

const (
	None       Fault = iota
	Refuse           // takes nothing and answers 503
	HoldOpen         // takes nothing and does not answer until the sender is gone
	LoseAnswer       // takes the message and does not answer until the sender is gone
)

// NtfyServer is an ntfy server: the part of its protocol that publishes a message as JSON
// (https://docs.ntfy.sh/publish/#publish-as-json), with its limits. It refuses with the codes and words of ntfy 2.
type NtfyServer struct {
	URL string

	mu    sync.Mutex
	taken []Message
	fault Fault // fault of each message, until it is changed
	seen  int   // messages that arrived, taken or not
	grown chan struct{}
}

// NewNtfy starts a server, which ends with the test.
func NewNtfy(t testing.TB) *NtfyServer {
	s := &NtfyServer{grown: make(chan struct{})}
	h := httptest.NewServer(http.HandlerFunc(s.publish))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	s.URL = h.URL
	return s
}

// Fail sets what the server does with further messages.
func (s *NtfyServer) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Taken returns the messages that the server took.
func (s *NtfyServer) Taken() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message{}, s.taken...)
}

// WaitTaken waits until the server has taken n messages, and returns them.
func (s *NtfyServer) WaitTaken(ctx context.Context, n int) ([]Message, error) {
	err := s.wait(ctx, func() bool { return len(s.taken) >= n })
	return s.Taken(), err
}

// Seen returns the number of messages that arrived, taken or not.
func (s *NtfyServer) Seen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *NtfyServer) wait(ctx context.Context, ready func() bool) error {
	for {
		s.mu.Lock()
		grown, done := s.grown, ready()
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a message: %w; taken: %+v", ctx.Err(), s.Taken())
		}
	}
}

// arrive records a message and returns the fault that applies to it.
func (s *NtfyServer) arrive(m Message) (f Fault, id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen++
	if s.fault == None || s.fault == LoseAnswer {
		s.taken = append(s.taken, m)
	}
	close(s.grown)
	s.grown = make(chan struct{})
	return s.fault, s.seen
}

const (
	// maxMessage is the greatest text of a message in bytes. A longer one becomes an attachment, which a server
	// refuses unless it is configured to take some.
	maxMessage = 4096
	maxActions = 3
)

func (s *NtfyServer) publish(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	var m Message
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/":
		http.Error(w, `{"code":40401,"http":404,"error":"page not found"}`, http.StatusNotFound)
		return
	case err != nil || json.Unmarshal(raw, &m) != nil:
		http.Error(w, `{"code":40024,"http":400,"error":"invalid request: request body must be valid JSON"}`,
			http.StatusBadRequest)
		return
	case !regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`).MatchString(m.Topic):
		http.Error(w, `{"code":40009,"http":400,"error":"invalid request: topic invalid"}`, http.StatusBadRequest)
		return
	case len(m.Actions) > maxActions:
		http.Error(w, `{"code":40018,"http":400,"error":"invalid request: actions invalid; only 3 actions allowed"}`,
			http.StatusBadRequest)
		return
	case len(m.Message) > maxMessage:
		http.Error(w, `{"code":40014,"http":400,"error":"invalid request: attachments not allowed"}`, http.StatusBadRequest)
		return
	}
	m.Token = r.Header.Get("Authorization")
	f, id := s.arrive(m)
	switch f {
	case Refuse:
		http.Error(w, `{"code":50301,"http":503,"error":"unavailable"}`, http.StatusServiceUnavailable)
	case HoldOpen, LoseAnswer:
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		// the client may be gone
		_, _ = fmt.Fprintf(w, `{"id":"m%d","time":%d,"event":"message","topic":%q,"message":"…"}`, id,
			time.Now().Unix(), m.Topic)
	}
}
