package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/check"
	"mailroom/store"
	"mailroom/stream"
	"mailroom/thread"
)

// FuzzSubmitBody checks that a submit is stored as sent, once, or refused with a location and
// without a write.
func FuzzSubmitBody(f *testing.F) {
	for i, body := range []string{
		`{"text":"hello","mode":"queue","key":"k","priority":7,"max_attempts":3,"max_crashes":1,"deadline":"30m","options":{"a":[1]},"metadata":{"team":"x"}}`,
		`{"parts":[{"type":"data","data":{"a":1}},{"type":"file","uri":"x:y","mime_type":"a/b","name":"n"}],"not_before":"2030-01-01T00:00:00Z"}`,
		`{"messages":[{"role":"system","text":"a"},{"parts":[{"type":"text","text":"b"}],"visibility":"internal"}],"mode":"steer","expect_run":"r"}`,
		`{"text":"","decisions":[{"ticket":"x","decision":"answer","answer":"red","reason":"so","digest":"0123456789abcdef"}]}`,
		`{"text":"a","thread":"idle","agent":"codex","agent_version":"0123456789ab","sender":"ann","parent":"p","mode":"interrupt"}`,
		`{"text":"a","text":"b"}`, `{"Text":"a"}`, `{"text":1}`, `null`, `[]`, `{`, ``,
	} {
		f.Add(uint8(i), []byte(body), "")
	}
	in := newInProcess()
	f.Fuzz(func(t *testing.T, where uint8, body []byte, key string) {
		if !sendable(key) {
			return
		}
		s := in.newFixture(t)
		route := "POST /v1/messages"
		if to := []string{"", "idle", "queued", "running", "waiting", "new"}[where%6]; to != "" {
			route = "POST /v1/threads/" + to + "/messages"
		}
		var headers []string
		if key != "" {
			headers = append(headers, "Content-Type: application/json", "Idempotency-Key: "+key)
		}
		before := s.snapshot()
		a := s.call(route, string(body), headers...)
		if a.status != http.StatusAccepted {
			s.checkRefused(a, before, mailroom.CodeInvalid, mailroom.CodeConflict, mailroom.CodeBusy, mailroom.CodeNotFound,
				mailroom.CodeGone)
			return
		}
		s.checkStored()
		first := decode[store.Submitted](t, a)
		s.checkText(first, body)
		run := mustCall[api.Run](s.fixture, "GET /v1/runs/"+first.Run, "")
		if run.Key == nil || first.Disposition != store.DispositionQueued {
			return // keys are per thread
		}
		before = s.snapshot()
		again := decode[store.Submitted](t, s.call("POST /v1/threads/"+url.PathEscape(first.Thread)+"/messages", string(body),
			headers...))
		if again.Run != first.Run || again.Message != first.Message || again.Disposition != store.DispositionDuplicate ||
			s.snapshot() != before {
			t.Errorf("a repeat is %+v, the first was %+v", again, first)
		}
	})
}

// sendable reports whether a header can carry the value.
func sendable(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

func decode[T any](t *testing.T, a response) (out T) {
	t.Helper()
	if a.status > 299 {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return out
}

// checkText checks that the text of a submit was stored unchanged.
func (s *fuzzFixture) checkText(out store.Submitted, body []byte) {
	s.t.Helper()
	var sent struct{ Text string }
	if err := json.Unmarshal(body, &sent); err != nil || sent.Text == "" || out.Message == "" {
		return
	}
	m, err := s.client.Message(s.t.Context(), out.Thread, out.Message)
	if err != nil || m.Text != sent.Text {
		s.t.Errorf("%q arrived as %q (%v)", sent.Text, m.Text, err)
	}
}

// FuzzChangeBody checks that any other change takes effect, is idempotent, or is refused with a
// location and without a write.
func FuzzChangeBody(f *testing.F) {
	for i, body := range []string{
		`{"agent":"codex","metadata":{"a":1},"deliver_to":"running"}`,
		`{"text":"better"}`,
		`{"decision":"deny","reason":"no","digest":"0123456789abcdef"}`,
		`{"children":true}`,
		`{"fresh":true,"agent_version":"same"}`,
		`{"q":"status:failed error:\"model\" created:>2020-01-01","dry_run":true}`,
		`{}`,
	} {
		f.Add(uint8(i), []byte(body))
	}
	f.Add(uint8(1), []byte(`{"parts":[{"type":"data","data":[1]}]}`))
	f.Add(uint8(2), []byte(`{"decision":"answer","answer":{"a":null},"decided_by":"ann"}`))
	in := newInProcess()
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		s := in.newFixture(t)
		routes := []struct {
			route string
			same  bool // a repeat answers the same
		}{
			{"PATCH /v1/threads/idle", true},
			{"PATCH /v1/threads/queued/messages/" + s.message, true},
			{"POST /v1/tickets/" + s.ticket.ID, true},
			{"POST /v1/runs/" + s.waiting + "/cancel", true},
			{"POST /v1/runs/" + s.failed + "/retry", false},
			{"POST /v1/runs/retry", false},
			{"POST /v1/runs/cancel", false},
			{"POST /v1/threads/queued/interrupt", false},
		}
		c := routes[int(which)%len(routes)]
		before := s.snapshot()
		a := s.call(c.route, string(body))
		if a.status > 299 {
			s.checkRefused(a, before, mailroom.CodeInvalid, mailroom.CodeConflict)
			return
		}
		s.checkStored()
		if !c.same {
			return
		}
		again := s.call(c.route, string(body))
		if c.route == routes[0].route { // it has the time of the change
			first, second := decode[api.Thread](t, a), decode[api.Thread](t, again)
			second.UpdatedAt = first.UpdatedAt
			if got, want := encode(t, second), encode(t, first); got != want {
				t.Errorf("a repeat of %s %s gives\n%s\nwant\n%s", c.route, body, got, want)
			}
			return
		}
		if again.status != a.status || again.body != a.body {
			t.Errorf("a repeat of %s %s gives\n%d %s\nwant\n%d %s", c.route, body, again.status, again.body, a.status, a.body)
		}
	})
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// FuzzListQuery checks that a readable list pages to its end without repeating or missing a row,
// and that an unreadable one is refused with a location.
func FuzzListQuery(f *testing.F) {
	f.Add(uint8(0), "status:queued -agent:codex", "", "1")
	f.Add(uint8(1), "id:q* updated:2020-01-01..2030-01-01", "", "2")
	f.Add(uint8(2), `state:open kind:approval thread:"waiting"`, "", "")
	f.Add(uint8(0), `error:"model said" metadata.a:""`, "cnVuczoz", "500")
	f.Add(uint8(1), "", "cnVuczoz", "0")
	f.Add(uint8(2), "colour:red", "!", "+1")
	in := newInProcess()
	f.Fuzz(func(t *testing.T, which uint8, q, cursor, limit string) {
		s := in.newFixture(t)
		route := "GET /v1/" + []string{"runs", "threads", "tickets"}[which%3] + "?"
		get := func(cursor, limit string) response {
			v := url.Values{"q": {q}}
			if cursor != "" {
				v.Set("cursor", cursor)
			}
			if limit != "" {
				v.Set("limit", limit)
			}
			return s.call(route+v.Encode(), "")
		}
		before := s.snapshot()
		a := get(cursor, limit)
		if a.status != http.StatusOK {
			s.checkRefused(a, before, mailroom.CodeInvalid)
			return
		}
		type row struct{ ID string }
		whole := decode[api.Page[row]](t, get(cursor, "500"))
		var ids, want []string
		for _, r := range whole.Items {
			want = append(want, r.ID)
		}
		for page := decode[api.Page[row]](t, get(cursor, "1")); ; page = decode[api.Page[row]](t, get(*page.Next, "1")) {
			for _, r := range page.Items {
				ids = append(ids, r.ID)
			}
			if page.Next == nil || len(ids) > len(want) {
				break
			}
		}
		if got, want := strings.Join(ids, " "), strings.Join(want, " "); got != want || whole.Next != nil {
			t.Errorf("q %q from %q: page by page %q, at once %q", q, cursor, got, want)
		}
	})
}

// FuzzPath checks that every path is answered, with a problem if nothing is there, and never with a
// redirect.
func FuzzPath(f *testing.F) {
	for i, path := range []string{
		"/", "//", "/v1/threads/%2E%2E/messages", "/v1/threads/idle/../queued", "/v1/threads/a%2Fb", "/v1/threads//entries",
		"/v1/threads/queued/entries?after=1&before=3&kind=message&limit=2&run=x",
		"/v1/threads/queued/messages?all=true&before=2",
		"/v1/threads/queued/messages/x.1", "/v1/runs/%00/wait?timeout=0s", "/v1/threads/idle/stream?until=settled&after=1:2",
		"/v1/tickets/%FF", "/healthz?x", "/v1/%zz",
	} {
		f.Add(uint8(i), path)
	}
	f.Add(uint8(0), "/v1/threads/idle/../queued")
	in := newInProcess()
	f.Fuzz(func(t *testing.T, method uint8, path string) {
		name := []string{"GET", "HEAD", "DELETE", "POST", "PATCH", "OPTIONS"}[method%6]
		u, err := url.Parse("http://localhost" + path)
		if err != nil || u.Host != "localhost" || strings.Contains(path, " ") {
			return // no client could send it
		}
		if name == "GET" && (strings.Contains(u.Path, "/stream") || strings.Contains(u.Path, "/wait")) {
			name = "HEAD" // a HEAD response ends
		}
		s := in.newFixture(t)
		before := s.snapshot()
		a := s.call(name+" "+path, "")
		if a.status >= 300 && name != "HEAD" {
			s.checkRefused(a, before, mailroom.CodeInvalid, mailroom.CodeNotFound, mailroom.CodeConflict,
				mailroom.CodeUnavailable)
		}
		if a.status >= 300 && a.status < 400 || a.status >= 500 {
			t.Errorf("response to %s %s: %d %s", name, path, a.status, a.body)
		}
		if name == "GET" || name == "HEAD" || name == "OPTIONS" {
			if after := s.snapshot(); after != before {
				t.Errorf("%s %s wrote %s", name, path, after)
			}
		}
	})
}

// FuzzMiddleware checks that only the token authenticates, only under the server's own host names,
// and that a request id is safe in logs.
func FuzzMiddleware(f *testing.F) {
	f.Add("localhost:8420", "Bearer "+token, "req-1", "application/json")
	f.Add("[::1]", "bearer  "+token, "a b", "application/json; charset=utf-8")
	f.Add("127.1", "Basic x", strings.Repeat("x", 65), "text/plain")
	f.Add("localhost.evil.example", token, "", "a/b; c")
	in := newInProcess()
	f.Fuzz(func(t *testing.T, host, authorization, id, kind string) {
		r := &http.Request{
			Method: "POST", Host: host, URL: &url.URL{Scheme: "http", Host: "localhost", Path: "/v1/messages"},
			Header: http.Header{"Authorization": {authorization}, "X-Request-Id": {id}, "Content-Type": {kind}},
		}
		a := send(t, in, r)
		own := false
		if at, err := url.Parse("http://" + host); err == nil {
			name := strings.ToLower(strings.TrimSuffix(at.Hostname(), "."))
			ip, err := netip.ParseAddr(name)
			own = name == "localhost" || name == "mail.example" || err == nil && ip.IsLoopback()
		}
		scheme, secret, _ := strings.Cut(strings.TrimSpace(authorization), " ")
		known := strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(secret) == token
		if a.status != http.StatusForbidden && !own {
			t.Errorf("host %q is accepted: %d %s", host, a.status, a.body)
		}
		if a.status != http.StatusForbidden && a.status != http.StatusUnauthorized && !known {
			t.Errorf("%q is accepted: %d %s", authorization, a.status, a.body)
		}
		if a.status < 400 || a.status >= 500 {
			t.Errorf("the request has no body, but the response is %d %s", a.status, a.body)
		}
		got := a.header.Get("X-Request-ID")
		if got == "" || len(got) > 64 ||
			strings.Trim(got, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") != "" {
			t.Errorf("request id %q", got)
		}
	})
}

// send sends a request without a body.
func send(t *testing.T, in inProcess, r *http.Request) response {
	t.Helper()
	s := in.newFixture(t)
	before := s.snapshot()
	resp, err := in.RoundTrip(r)
	if err != nil {
		// no client could send it either
		return response{status: http.StatusForbidden, header: http.Header{"X-Request-Id": {"none"}}}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := response{resp.StatusCode, resp.Header, string(raw)}
	if after := s.snapshot(); after != before {
		t.Errorf("the request wrote %s", after)
	}
	return a
}

// FuzzStreamCursor checks that a stream resumes at Last-Event-ID, or else at after, and that an
// invalid cursor is refused with its location. HEAD checks the same and ends.
func FuzzStreamCursor(f *testing.F) {
	f.Add("1", "", "settled")
	f.Add("", "2:3", "waiting")
	f.Add("x", "1", "")
	f.Add(" 1", "9223372036854775808", "never")
	f.Add("2", "", "")
	in := newInProcess()
	f.Fuzz(func(t *testing.T, id, after, until string) {
		if !sendable(id) {
			return
		}
		s := in.newFixture(t)
		place, where := id, "header.Last-Event-ID"
		if place = strings.Trim(place, " \t"); place == "" {
			place, where = after, "query.after"
		}
		_, err := stream.ParseCursor(place)
		wanted := until == "" || until == "settled" || until == "waiting"
		before := s.snapshot()
		a := s.call("HEAD /v1/threads/idle/stream?"+url.Values{"after": {after}, "until": {until}}.Encode(), "",
			"Last-Event-ID: "+id)
		switch {
		case strings.ContainsRune(after, 0) || !utf8.ValidString(after):
			where = "query.after"
		case !wanted:
			where = "query.until"
		case place == "" || err == nil:
			if a.status > 299 {
				t.Errorf("from %q and %q: %d %s", id, after, a.status, a.body)
			}
			return
		}
		s.checkRefused(a, before, mailroom.CodeInvalid)
		if p := a.problem(t); len(p.Errors) == 0 || p.Errors[0].Location != where {
			t.Errorf("from %q and %q until %q: %s, want %s named", id, after, until, a.body, where)
		}
	})
}

// FuzzClient checks that what a program passes to the client arrives unchanged if the rules allow
// it, and is otherwise invalid.
func FuzzClient(f *testing.F) {
	f.Add("new", "hello", "k", "v")
	f.Add(" a.b ", "\u2028\x7f\"<", " k ", "é")
	f.Add("..", "x", "a\nb", "\x00")
	f.Add("a/b?c#d%2F", "\xff", "", "")
	in := newInProcess()
	f.Fuzz(func(t *testing.T, threadID, text, key, label string) {
		s := in.newFixture(t)
		before := s.snapshot()
		sent, err := s.client.Submit(t.Context(), api.Submit{Thread: threadID, Text: text, Key: key,
			Metadata: map[string]string{"label": label}})
		rules := thread.Submit{Thread: threadID, Messages: []thread.NewMessage{{Parts: mailroom.Text(text)}}, Key: key,
			Metadata: map[string]string{"label": label}}
		refused := rules.Check()
		if _, err := check.ThreadID(threadID); err != nil && strings.TrimSpace(threadID) != "" {
			refused = err
		}
		if !utf8.ValidString(threadID + "|" + text + "|" + key + "|" + label) {
			refused = mailroom.Errorf(mailroom.CodeInvalid, "the client sends no text that is not UTF-8")
		}
		if got, want := mailroom.CodeOf(err), mailroom.CodeOf(refused); got != want {
			t.Errorf("submit of %q to %q under %q: %v of code %q, want %q as of %v", text, threadID, key, err, got,
				want, refused)
		}
		if err != nil {
			if after := s.snapshot(); after != before {
				t.Errorf("refused with %v, but wrote %s", err, after)
			}
			return
		}
		m, err := s.client.Message(t.Context(), sent.Thread, sent.Message)
		if err != nil || m.Text != text {
			t.Errorf("%q arrived as %q (%v)", text, m.Text, err)
		}
		run, err := s.client.Run(t.Context(), sent.Run)
		if err != nil || key != "" && (run.Key == nil || *run.Key != key) || run.Metadata["label"] != label {
			t.Errorf("key %q and label %q arrived as %v and %q (%v)", key, label, run.Key, run.Metadata["label"], err)
		}
		got, err := s.client.Thread(t.Context(), sent.Thread)
		if want := strings.TrimSpace(threadID); err != nil || want != "" && got.ID != want {
			t.Errorf("thread %q arrived as %q (%v)", threadID, got.ID, err)
		}
	})
}
