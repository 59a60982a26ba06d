package mcp_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom/auth"
	"mailroom/protocol/mcp"
)

// streamParams are the parameters of a notification of a stream, all of them.
type streamParams struct {
	occurrence
	Truncated *bool `json:"truncated"`
	Error     *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	} `json:"error"`
}

// follower reads one stream of events.
type follower struct {
	t      *testing.T
	frames <-chan frame
	cancel func()
	cursor string // the last
}

// follow opens a stream and reads its confirmation.
func follow(t *testing.T, c eventClient, params map[string]any) (f *follower, truncated bool) {
	t.Helper()
	params["name"] = mcp.EventWaiting
	frames, cancel := c.stream(params)
	f = &follower{t: t, frames: frames, cancel: cancel}
	return f, *f.next("notifications/events/active").Truncated
}

// next reads a notification, which must have a method.
func (f *follower) next(method string) (p streamParams) {
	f.t.Helper()
	got := <-f.frames
	if got.Method != method {
		f.t.Fatalf("%s %s %+v %s, want %s", got.Method, got.Params, got.Error, got.Result, method)
	}
	strict(f.t, got.Params, &p)
	if p.Meta["io.modelcontextprotocol/subscriptionId"] == nil {
		f.t.Errorf("no id of a subscription: %s", got.Params)
	}
	if p.Cursor != nil {
		f.cursor = *p.Cursor
	}
	switch method {
	case "notifications/events/active", "notifications/events/heartbeat", "notifications/events/event":
		if p.Cursor == nil || *p.Cursor == "" {
			f.t.Errorf("no cursor: %s", got.Params)
		}
	}
	return p
}

// event reads an event and returns its id.
func (f *follower) event(inbox string) string {
	f.t.Helper()
	p := f.next("notifications/events/event")
	p.check(f.t, inbox)
	return p.EventID
}

// end reads the answer.
func (f *follower) end() {
	f.t.Helper()
	got := <-f.frames
	var out struct {
		ResultType string         `json:"resultType"`
		Meta       map[string]any `json:"_meta"`
	}
	if got.Result == nil {
		f.t.Fatalf("%s %s %+v, want the end of the stream", got.Method, got.Params, got.Error)
	}
	strict(f.t, got.Result, &out)
	if out.ResultType != "complete" || out.Meta["io.modelcontextprotocol/subscriptionId"] == nil {
		f.t.Errorf("the end: %s", got.Result)
	}
}

func TestEachMessageIsOneEventOfAStream(t *testing.T) {
	eventsEverywhere(t, func(h *fixture, connect func(string, string) eventClient) {
		c := connect(operator, "mine")
		tools := h.near(operator, "mine")
		f, truncated := follow(h.t, c, map[string]any{"cursor": nil})
		if truncated {
			h.t.Error("a stream from now on is truncated")
		}
		start := f.cursor
		first := h.send(operator, "mine", "one", "inbox")
		if got := f.event("mine"); got != first {
			h.t.Errorf("event %s, want %s", got, first)
		}
		second := h.send(operator, "mine", "two", "")
		do[map[string]any](tools, "send_message_to_user", args{"message": "I am on it"})
		tools.pop(first)
		if got := f.event("mine"); got != second {
			h.t.Errorf("event %s, want %s", got, second)
		}
		last := f.cursor
		f.cancel()

		// A client that lost the connection goes on where it was, from any of its cursors.
		third := h.send(operator, "mine", "three", "")
		tools.pop(second)
		for cursor, want := range map[string][]string{last: {third}, start: {first, second, third}} {
			f, truncated := follow(h.t, c, map[string]any{"cursor": cursor})
			var got []string
			for range want {
				got = append(got, f.event("mine"))
			}
			if diff := cmp.Diff(want, got); diff != "" || truncated {
				h.t.Errorf("truncated %t; events (-want +got):\n%s", truncated, diff)
			}
			f.cancel()
		}
	})
}

func TestTwoSessionsOfAnInboxGetEachEvent(t *testing.T) {
	eventsEverywhere(t, func(h *fixture, connect func(string, string) eventClient) {
		one, _ := follow(h.t, connect(operator, "mine"), map[string]any{})
		two, _ := follow(h.t, connect(operator, "mine"), map[string]any{})
		other, _ := follow(h.t, connect(operator, "other"), map[string]any{})
		run := h.send(operator, "mine", "one", "inbox")
		if a, b := one.event("mine"), two.event("mine"); a != run || b != run {
			h.t.Errorf("events %s and %s, want %s", a, b, run)
		}
		theirs := h.send(operator, "other", "two", "inbox")
		if got := other.event("other"); got != theirs {
			h.t.Errorf("event %s, want %s", got, theirs)
		}
	})
}

func TestAStreamOfEventsEndsWithItsToken(t *testing.T) {
	eventsEverywhere(t, func(h *fixture, connect func(string, string) eventClient) {
		ann := h.token("ann", auth.PermissionRead, auth.PermissionSubmit)
		c := connect(ann, "anns")
		f, _ := follow(h.t, c, map[string]any{})
		if err := h.admin.Accounts().RevokeToken(h.t.Context(), "ann"); err != nil {
			h.t.Fatal(err)
		}
		h.send(operator, "anns", "of the operator", "")
		p := f.next("notifications/events/terminated")
		if p.Error == nil || p.Error.Code != -32024 || p.Error.Message != "Forbidden" {
			h.t.Errorf("ended with %+v", p)
		}
		f.end()
	})
}

func TestAStreamOfEventsIsReplayedNoFurtherThanItsAge(t *testing.T) {
	eventsEverywhere(t, func(h *fixture, connect func(string, string) eventClient) {
		c := connect(operator, "mine")
		f, _ := follow(h.t, c, map[string]any{})
		start := f.cursor
		h.send(operator, "mine", "one", "inbox")
		f.event("mine")
		again, truncated := follow(h.t, c, map[string]any{"cursor": start, "maxAgeMs": 0})
		if truncated {
			h.t.Error("truncated before the log was read")
		}
		if p := again.next("notifications/events/active"); !*p.Truncated {
			h.t.Errorf("after what is too old: %+v", p)
		}
	})
}

func TestAStreamOfEventsHasHeartbeatsAndAnEnd(t *testing.T) {
	h := open(t)
	f, _ := follow(t, h.pipeEvents(operator, "mine", 50*time.Millisecond, 300*time.Millisecond), map[string]any{})
	beats := 0
	for got := range f.frames {
		if got.Method == "notifications/events/heartbeat" {
			beats++
			continue
		}
		if got.Result == nil {
			t.Fatalf("%s %s", got.Method, got.Params)
		}
		break
	}
	if beats == 0 {
		t.Error("no heartbeat")
	}
}

func TestAConnectionHasABoundedNumberOfStreams(t *testing.T) {
	h := open(t)
	c := h.pipeEvents(operator, "mine", time.Minute, time.Hour)
	var last *follower
	for range 16 {
		last, _ = follow(t, c, map[string]any{})
	}
	frames, _ := c.stream(map[string]any{"name": mcp.EventWaiting})
	got := <-frames
	var data map[string]any
	if got.Error == nil || got.Error.Code != -32025 || json.Unmarshal(got.Error.Data, &data) != nil ||
		data["limit"] != "subscriptions" || data["max"] != 16.0 {
		t.Fatalf("the 17th stream: %+v", got)
	}
	last.cancel()
	for { // until the cancelled one has ended
		frames, cancel := c.stream(map[string]any{"name": mcp.EventWaiting})
		if got := <-frames; got.Method == "notifications/events/active" {
			return
		}
		cancel()
	}
}

// TestAStreamOfEventsOutlivesItsServer stops the server under a stream of the command, for a restart.
func TestAStreamOfEventsOutlivesItsServer(t *testing.T) {
	h := open(t)
	f, _ := follow(t, h.pipeEvents(operator, "mine", 100*time.Millisecond, time.Hour), map[string]any{})
	h.stop()
	for got := range f.frames { // an error or, while it reconnects, heartbeats
		switch got.Method {
		case "notifications/events/heartbeat":
			continue
		case "notifications/events/error":
		default:
			t.Fatalf("%s %s %s", got.Method, got.Params, got.Result)
		}
		break
	}
}

// TestStreamsOfEventsEndWithTheServer checks that a stream does not delay the end of its server.
func TestStreamsOfEventsEndWithTheServer(t *testing.T) {
	h := open(t)
	f, _ := follow(t, &webEvents{t: t, url: h.url + "/mcp?thread=mine", secret: operator}, map[string]any{})
	h.stop()
	for got := range f.frames { // until the connection ends, or with an answer before
		if got.Error != nil || got.Method == "notifications/events/terminated" {
			t.Errorf("%+v %s", got.Error, got.Params)
		}
	}
}
