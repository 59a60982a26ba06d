package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/machinetest"
)

// script starts a server that handles the n-th request with the n-th function. More requests fail the
// test.
func script(t *testing.T, answers ...http.HandlerFunc) (*Client, *atomic.Int32) {
	t.Helper()
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1))
		if n > len(answers) {
			t.Errorf("unexpected request %d: %s %s", n, r.Method, r.URL)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		answers[n-1](w, r)
	}))
	t.Cleanup(s.Close)
	return New(s.URL+"/", "secret", WithBackoff(time.Millisecond, 5*time.Millisecond)), &asked
}

// hangUp closes the connection without a response.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func refuse(code mailroom.Code, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.ProblemType)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		p := api.NewProblem(&mailroom.Error{Code: code, Message: "says the server",
			Fields: []mailroom.Field{{Location: "body.text", Message: "is wrong", Value: "v"}}})
		w.WriteHeader(p.Status)
		if err := json.NewEncoder(w).Encode(p); err != nil {
			panic(err)
		}
	}
}

func answer(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(v); err != nil {
			panic(err)
		}
	}
}

func TestAnUnansweredSubmitIsRepeatedUnderTheSameKey(t *testing.T) {
	var keys []string
	note := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var in api.Submit
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			if got := r.Header.Get("Authorization"); got != "Bearer secret" {
				t.Errorf("Authorization %q, want \"Bearer secret\"", got)
			}
			keys = append(keys, in.Key)
			next(w, r)
		}
	}
	want := api.Submitted{Run: "r", Disposition: api.DispositionDuplicate}
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, `{"run":`)
	}
	c, _ := script(t, note(hangUp), note(refuse(mailroom.CodeUnavailable)), note(cut), note(answer(want)))
	got, err := c.Submit(t.Context(), api.Submit{Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(keys) != 4 || keys[0] == "" || keys[0] != keys[1] || keys[0] != keys[3] {
		t.Errorf("keys %q, want the same one four times", keys)
	}
}

func TestASubmitGivesUpAndKeepsTheCallersKey(t *testing.T) {
	key := func(w http.ResponseWriter, r *http.Request) {
		var in api.Submit
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Key != "mine" {
			t.Errorf("key %q, want mine (%v)", in.Key, err)
		}
		hangUp(w, r)
	}
	c, asked := script(t, key, key, key, key, key)
	_, err := c.Submit(t.Context(), api.Submit{Text: "hello", Key: "mine"})
	if got := mailroom.CodeOf(err); got != mailroom.CodeUnavailable || asked.Load() != 5 {
		t.Errorf("after %d tries: %v, want unavailable after 5", asked.Load(), err)
	}
}

func TestASubmitWithoutAConnectionIsNotSent(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(hangUp))
	t.Cleanup(s.Close)
	proxy := func(addresses ...string) *Client {
		n := 0
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			n++
			return (&net.Dialer{}).DialContext(ctx, network, addresses[min(n, len(addresses))-1])
		}
		h := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
		return New("http://mail.example", "", WithHTTPClient(h), WithMaxAttempts(3), WithBackoff(time.Millisecond,
			time.Millisecond))
	}
	secure := httptest.NewUnstartedServer(http.HandlerFunc(hangUp))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	up, down := s.Listener.Addr().String(), machinetest.Reserve(t)
	for _, c := range []struct {
		name string
		c    *Client
		want bool
	}{
		{"no server", proxy(down), true},
		{"a server with another certificate", New(secure.URL, "", WithMaxAttempts(1)), true},
		{"no answer", proxy(up), false},
		{"no answer, then no server", proxy(up, down), false},
		{"no server, then no answer", proxy(down, up), false},
	} {
		_, err := c.c.Submit(t.Context(), api.Submit{Text: "hello"})
		if got := errors.Is(err, ErrNotSent); got != c.want || mailroom.CodeOf(err) != mailroom.CodeUnavailable {
			t.Errorf("%s: Submit() = %v, ErrNotSent %t, want unavailable and %t", c.name, err, got, c.want)
		}
	}
}

func TestARefusedSubmitIsNotRepeated(t *testing.T) {
	for _, code := range []mailroom.Code{
		mailroom.CodeInvalid, mailroom.CodeUnauthenticated, mailroom.CodeForbidden, mailroom.CodeConflict, mailroom.CodeBusy,
		mailroom.CodeRateLimited, mailroom.CodeInternal,
	} {
		c, _ := script(t, refuse(code, "Retry-After", "7"))
		_, err := c.Submit(t.Context(), api.Submit{Text: "hello"})
		e, ok := errors.AsType[*mailroom.Error](err)
		if !ok || e.Code != code || e.RetryAfter != 7*time.Second {
			t.Errorf("Submit() = %#v, want code %s", err, code)
		}
		if code != mailroom.CodeInternal {
			want := []mailroom.Field{{Location: "body.text", Message: "is wrong", Value: "v"}}
			if diff := cmp.Diff(want, e.Fields); diff != "" || e.Message != "says the server" {
				t.Errorf("%s: message %q, fields (-want +got):\n%s", code, e.Message, diff)
			}
		}
	}
}

func TestTheCallersContextEndsTheCall(t *testing.T) {
	gone := errors.New("the caller has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	leave := func(http.ResponseWriter, *http.Request) { cancel(gone); <-ctx.Done() }
	c, asked := script(t, leave)
	_, err := c.Submit(ctx, api.Submit{Text: "hello"})
	if !errors.Is(err, gone) || mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("submit: %v, want unavailable because of the caller", err)
	}
	for ev, err := range c.Follow(ctx, FollowQuery{Thread: "t"}) {
		if !errors.Is(err, gone) {
			t.Errorf("follow: %+v, %v, want the cause", ev, err)
		}
	}
	if _, err := c.WaitRun(ctx, "r", 0); !errors.Is(err, gone) {
		t.Errorf("wait: %v, want the cause", err)
	}
	if asked.Load() != 1 {
		t.Errorf("%d requests, want 1", asked.Load())
	}
}

func TestAResponseWithoutAProblemBodyHasACode(t *testing.T) {
	for status, want := range map[int]mailroom.Code{404: mailroom.CodeNotFound, 502: mailroom.CodeUnavailable,
		500: mailroom.CodeInternal, 401: mailroom.CodeUnauthenticated} {
		c, _ := script(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			fmt.Fprint(w, "<h1>nginx</h1>")
		})
		_, err := c.Thread(t.Context(), "t")
		if got := mailroom.CodeOf(err); got != want || strings.Contains(err.Error(), "nginx") {
			t.Errorf("%d: %v, want the code %s", status, err, want)
		}
	}
}

func TestValuesAreCutToWhatMayBeShown(t *testing.T) {
	for _, tc := range []struct{ in, want any }{
		{nil, nil}, {true, true}, {7, 7}, {1.5, 1.5}, {"short", "short"},
		{strings.Repeat("é", 100), strings.Repeat("é", 100)},
		{strings.Repeat("é", 101), strings.Repeat("é", 100) + "…"},
		{"a\xffb", "a\uFFFDb"},
		{map[string]int{"a": 1}, `{"a":1}`},
		{[]string{strings.Repeat("x", 200)}, `["` + strings.Repeat("x", 98) + "…"},
		{make(chan int), nil},
	} {
		got := api.CutValue(tc.in)
		if _, isChan := tc.in.(chan int); isChan {
			if _, ok := got.(string); !ok {
				t.Errorf("value without a JSON encoding is %T, want a string", got)
			}
			continue
		}
		if got != tc.want {
			t.Errorf("%.20v: got %v, want %v", tc.in, got, tc.want)
		}
	}
}

func TestIDsAreEscapedIntoOneSegment(t *testing.T) {
	for id, want := range map[string]string{
		"t": "/v1/threads/t", "a b": "/v1/threads/a%20b", "a/b": "/v1/threads/a%2Fb", "..": "/v1/threads/%2E%2E",
		"a?b#c%": "/v1/threads/a%3Fb%23c%25", "✓": "/v1/threads/%E2%9C%93",
	} {
		c, _ := script(t, func(w http.ResponseWriter, r *http.Request) {
			if got := r.URL.EscapedPath(); got != want {
				t.Errorf("%q went to %s, want %s", id, got, want)
			}
			answer(api.Thread{ID: id})(w, r)
		})
		if got, err := c.Thread(t.Context(), id); err != nil || got.ID != id {
			t.Errorf("%q: %+v, %v", id, got, err)
		}
	}
}

func TestAWrongURLIsInvalid(t *testing.T) {
	for _, base := range []string{"", "localhost:8420", "http://", ":", "ftp//x"} {
		_, err := New(base, "").Submit(t.Context(), api.Submit{Text: "a"})
		if got := mailroom.CodeOf(err); got != mailroom.CodeInvalid {
			t.Errorf("%q: %v, want invalid", base, err)
		}
	}
}

func TestWaitRunWaitsUntilTheRunIsSettled(t *testing.T) {
	c, _ := script(t,
		hangUp,
		answer(api.Run{ID: "r", Status: mailroom.StatusRunning}),
		refuse(mailroom.CodeUnavailable),
		// more than the maximum of first attempts, because it was connected before
		hangUp, hangUp, hangUp, hangUp, hangUp, hangUp,
		answer(api.Run{ID: "r", Status: mailroom.StatusWaiting}),
	)
	got, err := c.WaitRun(t.Context(), "r", 0)
	if err != nil || got.Status != mailroom.StatusWaiting {
		t.Errorf("got %+v, %v", got, err)
	}
	c, _ = script(t, answer(api.Run{ID: "r", Status: mailroom.StatusRunning}),
		answer(api.Run{ID: "r", Status: mailroom.StatusRunning}))
	if got, err = c.WaitRun(t.Context(), "r", time.Nanosecond); err != nil || got.Status != mailroom.StatusRunning {
		t.Errorf("WaitRun at the timeout = %+v, %v, want the current run", got, err)
	}
	c, _ = script(t, refuse(mailroom.CodeNotFound))
	if _, err = c.WaitRun(t.Context(), "r", 0); mailroom.CodeOf(err) != mailroom.CodeNotFound {
		t.Errorf("an unknown run: %v, want not_found", err)
	}
}
