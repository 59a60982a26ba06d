package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
)

// played responds to the n-th request with the n-th body, and to later ones with 204. If small is set,
// each read returns one byte.
type played struct {
	bodies [][]byte
	small  bool
	asked  int // requests so far
}

func (p *played) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.asked++; p.asked > len(p.bodies) {
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
	}
	var body io.Reader = bytes.NewReader(p.bodies[p.asked-1])
	if p.small {
		body = iotest.OneByteReader(body)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body), Request: r}, nil
}

// followed returns the events of Follow for a sequence of streams.
func followed(t *testing.T, small bool, streams ...[]byte) (events, entries []string, err error) {
	c := New("http://localhost", "", WithHTTPClient(&http.Client{Transport: &played{bodies: streams, small: small}}),
		WithBackoff(1, 1))
	last := int64(0)
	for ev, failed := range c.Follow(t.Context(), FollowQuery{Thread: "t"}) {
		if err = failed; err != nil {
			break
		}
		events = append(events, fmt.Sprintf("%s %+v %+v %+v", ev.ID, ev.Entry, ev.Delta, ev.Gap))
		switch {
		case ev.Entry != nil:
			if ev.Entry.Seq <= last {
				t.Errorf("entry %d follows entry %d", ev.Entry.Seq, last)
			}
			last = ev.Entry.Seq
			entries = append(entries, string(ev.Entry.Raw))
		case ev.Gap != nil && ev.Gap.After > ev.Gap.Last:
			last = ev.Gap.Last
		}
	}
	if _, ok := errors.AsType[*mailroom.Error](err); err != nil && !ok {
		t.Errorf("error %v has no code", err)
	}
	return events, entries, err
}

// FuzzFollow checks that events do not depend on how reads split the stream, and that each entry is
// yielded once across a lost connection.
func FuzzFollow(f *testing.F) {
	f.Add(
		[]byte(
			"event: entry\nid: 1\ndata: {\"seq\":1,\"kind\":\"message\"}\n\n: beat\n\nevent: delta\nid: 1:2\ndata: {\"text\":\"he\"}\n\n"), uint16(50))
	f.Add([]byte("event: entry\r\nid: 2\r\ndata: {\"seq\":2,\r\ndata: \"kind\":\"x\"}\r\n\r\n"), uint16(9))
	f.Add([]byte("event: gap\nid: 4\ndata: {\"after\":9,\"oldest\":1,\"last\":4}\n\nevent: weather\ndata: {}\n\n"),
		uint16(70))
	f.Add([]byte("event: entry\ndata: {\"seq\":\"1\"}\n\nevent:entry\ndata:null\n\n"), uint16(0))
	f.Add([]byte("event: delta\nid: 1\x7f\ndata: {}\n\n"), uint16(0))
	f.Fuzz(func(t *testing.T, stream []byte, at uint16) {
		events, entries, err := followed(t, false, stream)
		small, _, smallErr := followed(t, true, stream)
		if diff := cmp.Diff(events, small); diff != "" || fmt.Sprint(err) != fmt.Sprint(smallErr) {
			t.Errorf("events of single-byte reads differ (error %v, want %v; -want +got):\n%s", smallErr, err, diff)
		}
		cut := stream[:int(at)%(len(stream)+1)]
		if bytes.Contains(stream, []byte("gap")) {
			return // entries may repeat after a gap
		}
		if _, twice, _ := followed(t, false, cut, stream); !slices.Equal(twice, entries) {
			t.Errorf("stream cut at %d and read again: entries %q, want %q", len(cut), twice, entries)
		}
	})
}

// FuzzFollowCursor checks that Follow refuses an invalid cursor without a request.
func FuzzFollowCursor(f *testing.F) {
	for _, s := range []string{"0", "7:3", "1:", "+1", "-1", "1:x\ny", "9223372036854775808"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, after string) {
		p := &played{}
		c := New("http://localhost", "", WithHTTPClient(&http.Client{Transport: p}))
		var err error
		for _, err = range c.Follow(t.Context(), FollowQuery{Thread: "t", After: after}) {
		}
		good := after != "" && after[0] != ':' && after[len(after)-1] != ':' &&
			strings.Trim(after, "0123456789:") == "" && strings.Count(after, ":") <= 1
		switch {
		case err != nil && mailroom.CodeOf(err) != mailroom.CodeInvalid:
			t.Errorf("Follow from %q: %v, want invalid", after, err)
		case err == nil && after != "" && !good:
			t.Errorf("Follow from %q: no error, want invalid", after)
		case err != nil && good && len(after) < 18:
			t.Errorf("Follow from %q: %v, want no error", after, err)
		case err != nil && p.asked > 0:
			t.Errorf("Follow from %q made a request and returned %v", after, err)
		}
	})
}

// answered responds to every request with the same status and body.
type answered struct {
	status      int
	kind, retry string
	body        []byte
}

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Body: io.NopCloser(bytes.NewReader(a.body)), Request: r,
		Header: http.Header{"Content-Type": {a.kind}, "Retry-After": {a.retry}},
	}, nil
}

// FuzzAnswer checks that for any response a call returns a value, or an error with a known code and a
// valid RetryAfter.
func FuzzAnswer(f *testing.F) {
	f.Add(uint16(0), "application/json", "", []byte(`{"id":"r","status":"failed"}`))
	f.Add(uint16(409-200), api.ProblemType, "",
		[]byte(`{"code":"busy","detail":"later","errors":[{"location":"body","message":"m","value":[1]}]}`))
	f.Add(uint16(503-200), api.ProblemType+"; charset=utf-8", "7", []byte(`{"code":"made_up"}`))
	f.Add(uint16(429-200), "text/html", "9223372036854775807", []byte(`<html>`))
	f.Add(uint16(204-200), "", "-1", []byte(nil))
	f.Fuzz(func(t *testing.T, status uint16, kind, retry string, body []byte) {
		a := answered{200 + int(status)%400, kind, retry, body}
		if a.status >= 300 && a.status < 400 {
			return // net/http follows it
		}
		c := New("http://localhost", "", WithHTTPClient(&http.Client{Transport: a}))
		_, err := c.Run(context.Background(), "r")
		if err == nil {
			if a.status > 299 {
				t.Errorf("Run() with status %d returned no error", a.status)
			}
			return
		}
		e, ok := errors.AsType[*mailroom.Error](err)
		if !ok || !api.KnownCode(e.Code) || e.Message == "" {
			t.Fatalf("Run() with %d %q = %#v, want a known code and a message", a.status, body, err)
		}
		if a.status < 300 && e.Code != mailroom.CodeUnavailable {
			t.Errorf("Run() with %d %q: code %s, want unavailable", a.status, body, e.Code)
		}
		if e.RetryAfter < 0 || e.RetryAfter > 24*time.Hour {
			t.Errorf("Retry-After %q is read as %v", retry, e.RetryAfter)
		}
	})
}
