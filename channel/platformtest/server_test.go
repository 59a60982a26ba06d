package platformtest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/channel/platformtest"
)

// counter is a platform with one call, which counts.
type counter struct {
	*platformtest.Server

	mu    sync.Mutex
	count int // owned by mu
}

func newCounter(t *testing.T) *counter {
	c := &counter{}
	c.Server = platformtest.NewServer(t, &c.mu, c)
	c.Up(t)
	return c
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.Serve(w, r, "count", nil, func() (any, *platformtest.Error) {
		c.count++
		return c.count, nil
	})
}

func (c *counter) Respond(w http.ResponseWriter, result any, refused *platformtest.Error) {
	if refused != nil {
		w.WriteHeader(refused.Status)
		result = refused.Message
	}
	_ = json.NewEncoder(w).Encode(result) // the client may be gone
}

func (c *counter) String() string { return "a counter" }

func (c *counter) value() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// call makes a call. It fails if no complete response arrives.
func (c *counter) call(ctx context.Context) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Addr, nil)
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	raw, err := io.ReadAll(a.Body)
	return a.StatusCode, strings.TrimSpace(string(raw)), err
}

func TestAServerInjectsItsFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault  platformtest.Fault
		status int // 0: no complete response
		body   string
		counts int // executed calls
	}{
		"none":                  {platformtest.Fault{}, 200, "1", 1},
		"an error response":     {platformtest.Fault{Status: 418, Message: "tea"}, 418, `"tea"`, 0},
		"a malformed response":  {platformtest.Fault{Raw: "<html>"}, 200, "<html>", 0},
		"a gateway's response":  {platformtest.Fault{Status: 502, Raw: "<html>"}, 502, "<html>", 0},
		"a lost response":       {platformtest.Fault{Lose: true}, 0, "", 1},
		"half of a response":    {platformtest.Fault{Half: true}, 0, "", 1},
		"a response that hangs": {platformtest.Fault{Hang: true}, 0, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCounter(t)
			s.Fail("count", c.fault)
			ctx := t.Context()
			if c.fault.Hang {
				short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				ctx = short
			}
			status, body, err := s.call(ctx)
			if complete := err == nil; complete != (c.status != 0) || complete && (status != c.status || body != c.body) ||
				s.value() != c.counts {
				t.Errorf("response %d %q, %v after %d calls", status, body, err, s.value())
			}
			if calls := s.Calls("count"); len(calls) != 1 || calls[0].Status != c.status {
				t.Errorf("recorded %+v", calls)
			}
			if _, body, err := s.call(t.Context()); err != nil || body != string(rune('1'+c.counts)) {
				t.Errorf("response to the next call %q, %v", body, err)
			}
		})
	}
}

func TestAHeldCallIsCarriedOutAtOnce(t *testing.T) {
	t.Parallel()
	s, hold := newCounter(t), make(chan struct{})
	s.Fail("count", platformtest.Fault{Hold: hold})
	var calling sync.WaitGroup
	calling.Go(func() {
		if _, body, err := s.call(t.Context()); err != nil || body != "1" {
			t.Errorf("response %q, %v", body, err)
		}
	})
	s.WaitFor(t, "the call", func() bool { return s.value() == 1 })
	if status := s.Calls("")[0].Status; status != 0 {
		t.Errorf("response %d during the hold", status)
	}
	close(hold)
	calling.Wait()
}

func TestAFrozenServerLosesCalls(t *testing.T) {
	t.Parallel()
	s := newCounter(t)
	s.Freeze()
	var calling sync.WaitGroup
	calling.Go(func() {
		if _, body, err := s.call(t.Context()); err == nil {
			t.Errorf("response %q", body)
		}
	})
	s.WaitFor(t, "the call", func() bool { return len(s.Calls("")) >= 1 })
	s.Thaw()
	calling.Wait()
	if _, body, err := s.call(t.Context()); err != nil || body != "1" {
		t.Errorf("response after that %q, %v", body, err)
	}
}

func TestAServerComesUpAtItsAddress(t *testing.T) {
	t.Parallel()
	s := newCounter(t)
	addr := s.Addr
	s.Down()
	if _, _, err := s.call(t.Context()); err == nil {
		t.Error("a server that is down responded")
	}
	s.Up(t)
	if _, body, err := s.call(t.Context()); err != nil || body != "1" || s.Addr != addr {
		t.Errorf("answered %q, %v at %s, want %s", body, err, s.Addr, addr)
	}
}

func TestARoomShowsItsMessages(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	r := platformtest.NewRoom[struct{}](&mu)
	mu.Lock()
	for _, m := range []platformtest.Message[struct{}]{{ID: "1", Text: "hello"}, {ID: "2", Text: "hi", Bot: true},
		{ID: "3", Text: "bye", Bot: true}} {
		r.Add(&m)
	}
	r.Find("2").Text = "hi!"
	mu.Unlock()
	if got := r.Texts(); !slices.Equal(got, []string{"hi!", "bye"}) {
		t.Errorf("texts of the bot %q", got)
	}
	r.Remove("1", "3")
	if got := r.Messages(); len(got) != 1 || got[0].ID != "2" {
		t.Errorf("messages %+v", got)
	}
}
