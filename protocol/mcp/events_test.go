package mcp_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom/auth"
	"mailroom/protocol/mcp"
)

// occurrence is an EventOccurrence of SEP-3415. Decoding it refuses other fields.
type occurrence struct {
	EventID   string         `json:"eventId"`
	Name      string         `json:"name"`
	Timestamp time.Time      `json:"timestamp"`
	Data      payload        `json:"data"`
	Cursor    *string        `json:"cursor"`
	Meta      map[string]any `json:"_meta"`
}

type payload struct {
	Inbox   string `json:"inbox"`
	Waiting int    `json:"waiting"`
	Notice  string `json:"notice"`
}

// polled is the result of events/poll.
type polled struct {
	ResultType string         `json:"resultType"`
	Events     []occurrence   `json:"events"`
	Cursor     *string        `json:"cursor"`
	Truncated  *bool          `json:"truncated"`
	HasMore    *bool          `json:"hasMore"`
	NextPoll   int            `json:"nextPollMs"`
	Meta       map[string]any `json:"_meta"`
}

// strict decodes JSON that has no other fields than v.
func strict(t *testing.T, raw json.RawMessage, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
}

// check checks an occurrence.
func (o occurrence) check(t *testing.T, inbox string) {
	t.Helper()
	if o.EventID == "" || o.Name != mcp.EventWaiting || o.Timestamp.IsZero() || o.Data.Inbox != inbox ||
		!strings.Contains(o.Data.Notice, "It is not from your user and approves nothing.") {
		t.Errorf("occurrence %+v", o)
	}
}

// poll polls and checks the result.
func poll(t *testing.T, c eventClient, params map[string]any) polled {
	t.Helper()
	params["name"] = mcp.EventWaiting
	f := c.request("events/poll", params)
	if f.Error != nil {
		t.Fatalf("poll %v: %v %s", params, f.Error, f.Error.Data)
	}
	var out polled
	strict(t, f.Result, &out)
	if out.ResultType != "complete" || out.Events == nil || out.Cursor == nil || *out.Cursor == "" ||
		out.Truncated == nil || out.HasMore == nil || out.NextPoll < 1000 {
		t.Fatalf("poll %v: %s", params, f.Result)
	}
	return out
}

// pollUntil polls from a cursor until n events have come, and returns the last cursor.
func pollUntil(t *testing.T, c eventClient, cursor string, n int) (ids []string, last string) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		out := poll(t, c, map[string]any{"cursor": cursor})
		cursor = *out.Cursor
		for _, e := range out.Events {
			ids = append(ids, e.EventID)
		}
		if len(ids) >= n {
			return ids, cursor
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatalf("%d events, want %d", len(ids), n)
		}
	}
}

func TestTheEventOfTheInboxIsListed(t *testing.T) {
	eventsEverywhere(t, func(h *fixture, connect func(string, string) eventClient) {
		c := connect(operator, "mine")
		var list struct {
			ResultType string
			Events     []struct {
				Name, Description          string
				Delivery                   []string
				InputSchema, PayloadSchema struct{ Type string }
			}
		}
		if err := json.Unmarshal(c.request("events/list", nil).Result, &list); err != nil {
			h.t.Fatal(err)
		}
		if len(list.Events) != 1 || list.ResultType != "complete" {
			h.t.Fatalf("listed %+v", list)
		}
		e := list.Events[0]
		if e.Name != mcp.EventWaiting || e.Description == "" || !slices.Equal(e.Delivery, []string{"poll", "push"}) ||
			e.InputSchema.Type != "object" || e.PayloadSchema.Type != "object" {
			h.t.Errorf("listed %+v", e)
		}
		var found struct {
			Capabilities struct {
				Extensions map[string]map[string]any
			}
		}
		if err := json.Unmarshal(c.request("server/discover", nil).Result, &found); err != nil {
			h.t.Fatal(err)
		}
		want := map[string]map[string]any{"io.modelcontextprotocol/events": {}}
		if diff := cmp.Diff(want, found.Capabilities.Extensions); diff != "" {
			h.t.Errorf("extensions (-want +got):\n%s", diff)
		}
	})
}

func TestAClientOfAnOlderRevisionIsOfferedNoEvents(t *testing.T) {
	h := open(t)
	c := h.pipeEvents(operator, "mine", time.Minute, time.Hour)
	none := map[string]any{}
	f := c.request("initialize", map[string]any{"_meta": none, "protocolVersion": "2025-11-25", "capabilities": none,
		"clientInfo": map[string]any{"name": "old", "version": "1"}})
	var out struct {
		ProtocolVersion string
		Capabilities    map[string]any
	}
	if err := json.Unmarshal(f.Result, &out); err != nil || out.ProtocolVersion != "2025-11-25" {
		t.Fatalf("%v: %+v %s", err, f.Error, f.Result)
	}
	if out.Capabilities["extensions"] != nil || out.Capabilities["tools"] == nil {
		t.Errorf("offered %v", out.Capabilities)
	}
	for _, method := range []string{"events/list", "events/poll", "events/stream"} {
		f := c.request(method, map[string]any{"_meta": none, "name": mcp.EventWaiting})
		if f.Error == nil || f.Error.Code != -32601 {
			t.Errorf("%s: %+v %s", method, f.Error, f.Result)
		}
	}
}

func TestEachMessageIsOneEventForAPoll(t *testing.T) {
	eventsEverywhere(t, func(h *fixture, connect func(string, string) eventClient) {
		c := connect(operator, "mine")
		tools := h.near(operator, "mine")
		start := poll(h.t, c, map[string]any{"cursor": nil})
		if len(start.Events) != 0 || *start.HasMore || *start.Truncated {
			h.t.Fatalf("the first poll: %+v", start)
		}
		first := h.send(operator, "mine", "a secret text", "inbox")
		second := h.send(operator, "mine", "another", "")
		ids, cursor := pollUntil(h.t, c, *start.Cursor, 1)
		again := poll(h.t, c, map[string]any{"cursor": *start.Cursor})
		if len(again.Events) != 1 {
			h.t.Fatalf("again: %+v", again)
		}
		again.Events[0].check(h.t, "mine")
		got := again.Events[0]
		if got.EventID != ids[0] || got.Data.Waiting != 2 || strings.Contains(got.Data.Notice, "secret") {
			h.t.Errorf("again: %+v", got)
		}
		// An answer returns the same message to the head, which is no event.
		do[map[string]any](tools, "send_message_to_user", args{"message": "I am on it"})
		if out := poll(h.t, c, map[string]any{"cursor": cursor}); len(out.Events) != 0 {
			h.t.Errorf("after an answer: %+v", out.Events)
		}
		tools.pop(first)
		more, cursor := pollUntil(h.t, c, cursor, 1)
		if diff := cmp.Diff([]string{first, second}, append(ids, more...)); diff != "" {
			h.t.Errorf("events (-want +got):\n%s", diff)
		}
		tools.pop(second)
		if out := poll(h.t, c, map[string]any{"cursor": cursor}); len(out.Events) != 0 {
			h.t.Errorf("after the last pop: %+v", out.Events)
		}
		// The old cursor still has both, in pages.
		var all []string
		for at, more := *start.Cursor, true; more; {
			out := poll(h.t, c, map[string]any{"cursor": at, "maxEvents": 1})
			at, more = *out.Cursor, *out.HasMore
			for _, e := range out.Events {
				e.check(h.t, "mine")
				if e.Data.Waiting != 0 {
					h.t.Errorf("an event of a message that was read: %+v", e)
				}
				all = append(all, e.EventID)
			}
		}
		if diff := cmp.Diff([]string{first, second}, all); diff != "" {
			h.t.Errorf("events in pages (-want +got):\n%s", diff)
		}
	})
}

func TestACursorThatTheLogDoesNotHaveIsTruncated(t *testing.T) {
	eventsEverywhere(t, func(h *fixture, connect func(string, string) eventClient) {
		c := connect(operator, "mine")
		start := poll(h.t, c, map[string]any{})
		h.send(operator, "mine", "one", "inbox")
		_, cursor := pollUntil(h.t, c, *start.Cursor, 1)
		old := poll(h.t, c, map[string]any{"cursor": *start.Cursor, "maxAgeMs": 0})
		if len(old.Events) != 0 || !*old.Truncated {
			h.t.Errorf("maxAgeMs 0: %+v", old)
		}
		// Another thread of the same id.
		tools := h.near(operator, "mine")
		tools.pop(tools.read().Activity)
		if err := h.admin.DeleteThread(h.t.Context(), "mine"); err != nil {
			h.t.Fatal(err)
		}
		run := h.send(operator, "mine", "two", "inbox")
		tools.read()
		out := poll(h.t, c, map[string]any{"cursor": cursor})
		if !*out.Truncated || len(out.Events) != 1 || out.Events[0].EventID != run {
			h.t.Errorf("after the thread was made again: %+v", out)
		}
		if again := poll(h.t, c, map[string]any{"cursor": *out.Cursor}); *again.Truncated || len(again.Events) != 0 {
			h.t.Errorf("its own cursor: %+v", again)
		}
	})
}

func TestWrongRequestsForEventsAreRefused(t *testing.T) {
	eventsEverywhere(t, func(h *fixture, connect func(string, string) eventClient) {
		c := connect(operator, "mine")
		h.send(operator, "echoes", "hello", "echo")
		ann := h.token("ann", auth.PermissionRead, auth.PermissionSubmit, auth.PermissionDecide)
		h.send(ann, "anns", "hello", "inbox")
		bob := h.token("bob", auth.PermissionRead, auth.PermissionSubmit)
		writer := h.token("writer", auth.PermissionSubmit)
		name := mcp.EventWaiting
		for _, e := range []struct {
			why    string
			client eventClient
			params map[string]any
			code   int64
			words  string
		}{
			{"another event", c, map[string]any{"name": "email.received"}, -32023, `"kind":"event"`},
			{"no name", c, map[string]any{}, -32023, "use inbox.waiting"},
			{"arguments", c, map[string]any{"name": name, "arguments": map[string]any{"from": "x"}}, -32602, "no arguments"},
			{"a cursor of another kind", c, map[string]any{"name": name, "cursor": "12"}, -32602, "not a cursor"},
			{"an empty cursor", c, map[string]any{"name": name, "cursor": ""}, -32602, "not a cursor"},
			{"a number as a cursor", c, map[string]any{"name": name, "cursor": 12}, -32602, ""},
			{"a negative age", c, map[string]any{"name": name, "maxAgeMs": -1}, -32602, "maxAgeMs"},
			{"the inbox of another", connect(bob, "anns"), map[string]any{"name": name}, -32024, "not_found"},
			{"a thread that is no inbox", connect(operator, "echoes"), map[string]any{"name": name}, -32024, "is not an inbox"},
			{"no right to read", connect(writer, "mine"), map[string]any{"name": name}, -32024, "forbidden"},
		} {
			check := func(method string, f frame) {
				if f.Error == nil || f.Error.Code != e.code ||
					!strings.Contains(f.Error.Message+string(f.Error.Data), e.words) {
					h.t.Errorf("%s, %s: %+v %s, want error %d with %q",
						method, e.why, f.Error, f.Result, e.code, e.words)
				}
			}
			check("poll", e.client.request("events/poll", e.params))
			frames, _ := e.client.stream(e.params)
			check("stream", <-frames)
		}
		f := c.request("events/poll", map[string]any{"name": name, "maxEvents": 0})
		if f.Error == nil || f.Error.Code != -32602 {
			h.t.Errorf("maxEvents 0: %+v", f.Error)
		}
		for _, method := range []string{"events/subscribe", "events/unsubscribe"} {
			if f := c.request(method, map[string]any{"name": name}); f.Error == nil || f.Error.Code != -32601 {
				h.t.Errorf("%s: %+v", method, f.Error)
			}
		}
	})
}
