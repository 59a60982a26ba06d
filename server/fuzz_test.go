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
	"mailroom/stream"
)

// FuzzSubmitBody: a submit is taken as it was said, once, or refused by name,
// and then nothing is written.
func FuzzSubmitBody(f *testing.F) {
	for i, body := range []string{
		`{"text":"hello","mode":"queue","key":"k","priority":7,"max_attempts":3,"options":{"a":[1]},"metadata":{"team":"x"}}`,
		`{"parts":[{"type":"data","data":{"a":1}},{"type":"file","uri":"x:y","mime_type":"a/b","name":"n"}],"not_before":"2030-01-01T00:00:00Z"}`,
		`{"messages":[{"role":"system","text":"a"},{"parts":[{"type":"text","text":"b"}],"visibility":"internal"}],"mode":"steer","expect_run":"r"}`,
		`{"text":"","decisions":[{"ticket":"x","decision":"answer","answer":"red","reason":"so","digest":"0123456789abcdef"}]}`,
		`{"text":"a","thread":"idle","agent":"codex","agent_version":"0123456789ab","sender":"ann","parent":"p","mode":"interrupt"}`,
		`{"text":"a","text":"b"}`, `{"Text":"a"}`, `{"text":1}`, `null`, `[]`, `{`, ``,
	} {
		f.Add(uint8(i), []byte(body), "")
	}
	in := newIndoors()
	f.Fuzz(func(t *testing.T, where uint8, body []byte, key string) {
		if !sendable(key) {
			return
		}
		s := in.scene(t)
		route := "POST /v1/messages"
		if to := []string{"", "idle", "queued", "running", "waiting", "new"}[where%6]; to != "" {
			route = "POST /v1/threads/" + to + "/messages"
		}
		var headers []string
		if key != "" {
			headers = append(headers, "Content-Type: application/json", "Idempotency-Key: "+key)
		}
		before := s.written()
		a := s.call(route, string(body), headers...)
		if a.status != http.StatusAccepted {
			s.refused(a, before, mailroom.CodeInvalid, mailroom.CodeConflict, mailroom.CodeBusy, mailroom.CodeNotFound, mailroom.CodeGone)
			return
		}
		s.sound()
		first := decoded[mailroom.Submitted](t, a)
		s.said(first, body)
		run := ask[api.Run](s.fixture, "GET /v1/runs/"+first.Run, "")
		if run.Key == nil || first.Disposition != mailroom.DispositionQueued {
			return // a key is looked at in its own thread
		}
		before = s.written()
		again := decoded[mailroom.Submitted](t, s.call("POST /v1/threads/"+url.PathEscape(first.Thread)+"/messages", string(body), headers...))
		if again.Run != first.Run || again.Message != first.Message || again.Disposition != mailroom.DispositionDuplicate || s.written() != before {
			t.Errorf("a repeat is %+v, the first was %+v", again, first)
		}
	})
}

// sendable reports whether a header can carry a value.
func sendable(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

func decoded[T any](t *testing.T, a answer) (out T) {
	t.Helper()
	if a.status > 299 {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return out
}

// said checks that the text of a submit arrived as it was.
func (s *scene) said(out mailroom.Submitted, body []byte) {
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

// FuzzChangeBody: any other change does what it says, and again the same if it
// is repeated, or is refused by name and writes nothing.
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
	in := newIndoors()
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		s := in.scene(t)
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
			{"POST /v1/threads/queued/interrupt", false},
		}
		c := routes[int(which)%len(routes)]
		before := s.written()
		a := s.call(c.route, string(body))
		if a.status > 299 {
			s.refused(a, before, mailroom.CodeInvalid, mailroom.CodeConflict)
			return
		}
		s.sound()
		if !c.same {
			return
		}
		again := s.call(c.route, string(body))
		if c.route == routes[0].route { // it says when it was changed
			first, second := decoded[api.Thread](t, a), decoded[api.Thread](t, again)
			second.UpdatedAt = first.UpdatedAt
			if got, want := encoded(t, second), encoded(t, first); got != want {
				t.Errorf("a repeat of %s %s gives\n%s\nwant\n%s", c.route, body, got, want)
			}
			return
		}
		if again.status != a.status || again.body != a.body {
			t.Errorf("a repeat of %s %s gives\n%d %s\nwant\n%d %s", c.route, body, again.status, again.body, a.status, a.body)
		}
	})
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// FuzzListQuery: a list that can be read is read to its end in pages, with no
// row twice and none missing; one that cannot is refused by name.
func FuzzListQuery(f *testing.F) {
	f.Add(uint8(0), "status:queued -agent:codex", "", "1")
	f.Add(uint8(1), "id:q* updated:2020-01-01..2030-01-01", "", "2")
	f.Add(uint8(2), `state:open kind:approval thread:"waiting"`, "", "")
	f.Add(uint8(0), `error:"model said" metadata.a:""`, "cnVuczoz", "500")
	f.Add(uint8(1), "", "cnVuczoz", "0")
	f.Add(uint8(2), "colour:red", "!", "+1")
	in := newIndoors()
	f.Fuzz(func(t *testing.T, which uint8, q, cursor, limit string) {
		s := in.scene(t)
		route := "GET /v1/" + []string{"runs", "threads", "tickets"}[which%3] + "?"
		get := func(cursor, limit string) answer {
			v := url.Values{"q": {q}}
			if cursor != "" {
				v.Set("cursor", cursor)
			}
			if limit != "" {
				v.Set("limit", limit)
			}
			return s.call(route+v.Encode(), "")
		}
		before := s.written()
		a := get(cursor, limit)
		if a.status != http.StatusOK {
			s.refused(a, before, mailroom.CodeInvalid)
			return
		}
		type row struct{ ID string }
		whole := decoded[api.Page[row]](t, get(cursor, "500"))
		var ids, want []string
		for _, r := range whole.Items {
			want = append(want, r.ID)
		}
		for page := decoded[api.Page[row]](t, get(cursor, "1")); ; page = decoded[api.Page[row]](t, get(*page.Next, "1")) {
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

// FuzzPath: whatever is asked for is answered, with a problem if it is not
// there, never with a redirect to something else.
func FuzzPath(f *testing.F) {
	for i, path := range []string{
		"/", "//", "/v1/threads/%2E%2E/messages", "/v1/threads/idle/../queued", "/v1/threads/a%2Fb", "/v1/threads//entries",
		"/v1/threads/queued/entries?after=1&before=3&kind=message&limit=2&run=x", "/v1/threads/queued/messages?all=true&before=2",
		"/v1/threads/queued/messages/x.1", "/v1/runs/%00/wait?timeout=0s", "/v1/threads/idle/stream?until=settled&after=1:2",
		"/v1/tickets/%FF", "/healthz?x", "/v1/%zz",
	} {
		f.Add(uint8(i), path)
	}
	f.Add(uint8(0), "/v1/threads/idle/../queued")
	in := newIndoors()
	f.Fuzz(func(t *testing.T, method uint8, path string) {
		name := []string{"GET", "HEAD", "DELETE", "POST", "PATCH", "OPTIONS"}[method%6]
		u, err := url.Parse("http://localhost" + path)
		if err != nil || u.Host != "localhost" {
			return // no client could ask for it
		}
		if name == "GET" && (strings.Contains(u.Path, "/stream") || strings.Contains(u.Path, "/wait")) {
			name = "HEAD" // which ends
		}
		s := in.scene(t)
		before := s.written()
		a := s.call(name+" "+path, "")
		if a.status >= 300 && name != "HEAD" {
			s.refused(a, before, mailroom.CodeInvalid, mailroom.CodeNotFound, mailroom.CodeConflict, mailroom.CodeUnavailable)
		}
		if a.status >= 300 && a.status < 400 || a.status >= 500 {
			t.Errorf("%s %s is answered with %d %s", name, path, a.status, a.body)
		}
		if name == "GET" || name == "HEAD" || name == "OPTIONS" {
			if after := s.written(); after != before {
				t.Errorf("%s %s wrote %s", name, path, after)
			}
		}
	})
}

// FuzzGates: only the token opens, only under the server's own names, and the
// id of a request is one that is safe in logs.
func FuzzGates(f *testing.F) {
	f.Add("localhost:8420", "Bearer "+token, "req-1", "application/json")
	f.Add("[::1]", "bearer  "+token, "a b", "application/json; charset=utf-8")
	f.Add("127.1", "Basic x", strings.Repeat("x", 65), "text/plain")
	f.Add("localhost.evil.example", token, "", "a/b; c")
	in := newIndoors()
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
			t.Errorf("host %q is let in: %d %s", host, a.status, a.body)
		}
		if a.status != http.StatusForbidden && a.status != http.StatusUnauthorized && !known {
			t.Errorf("%q is let in: %d %s", authorization, a.status, a.body)
		}
		if a.status < 400 || a.status >= 500 {
			t.Errorf("nothing was submitted, and the answer is %d %s", a.status, a.body)
		}
		got := a.header.Get("X-Request-ID")
		if got == "" || len(got) > 64 || strings.Trim(got, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") != "" {
			t.Errorf("the request has the id %q", got)
		}
	})
}

// send makes a request that has no body.
func send(t *testing.T, in indoors, r *http.Request) answer {
	t.Helper()
	s := in.scene(t)
	before := s.written()
	resp, err := in.RoundTrip(r)
	if err != nil {
		return answer{status: http.StatusForbidden, header: http.Header{"X-Request-Id": {"none"}}} // nor could a client send it
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, string(raw)}
	if after := s.written(); after != before {
		t.Errorf("it wrote %s", after)
	}
	return a
}

// FuzzStreamPlace: the place to go on from is the header's, else after's, and
// what is no place is refused by name. HEAD asks the same and has an end.
func FuzzStreamPlace(f *testing.F) {
	f.Add("1", "", "settled")
	f.Add("", "2:3", "waiting")
	f.Add("x", "1", "")
	f.Add(" 1", "9223372036854775808", "never")
	f.Add("2", "", "")
	in := newIndoors()
	f.Fuzz(func(t *testing.T, id, after, until string) {
		if !sendable(id) {
			return
		}
		s := in.scene(t)
		place, where := id, "header.Last-Event-ID"
		if place = strings.Trim(place, " \t"); place == "" {
			place, where = after, "query.after"
		}
		_, err := stream.ParseCursor(place)
		wanted := until == "" || until == "settled" || until == "waiting"
		before := s.written()
		a := s.call("HEAD /v1/threads/idle/stream?"+url.Values{"after": {after}, "until": {until}}.Encode(), "", "Last-Event-ID: "+id)
		switch {
		case !wanted:
			where = "query.until"
		case place == "" || err == nil:
			if a.status > 299 {
				t.Errorf("from %q and %q: %d %s", id, after, a.status, a.body)
			}
			return
		}
		s.refused(a, before, mailroom.CodeInvalid)
		if p := a.problem(t); len(p.Errors) == 0 || p.Errors[0].Location != where {
			t.Errorf("from %q and %q until %q: %s, want %s named", id, after, until, a.body, where)
		}
	})
}

// FuzzClient: what a program hands to the client arrives at the other end as it
// was, if the rules allow it; else it is invalid.
func FuzzClient(f *testing.F) {
	f.Add("new", "hello", "k", "v")
	f.Add(" a.b ", "\u2028\x7f\"<", " k ", "é")
	f.Add("..", "x", "a\nb", "\x00")
	f.Add("a/b?c#d%2F", "\xff", "", "")
	in := newIndoors()
	f.Fuzz(func(t *testing.T, thread, text, key, label string) {
		s := in.scene(t)
		before := s.written()
		sent, err := s.client.Submit(t.Context(), api.Submit{Thread: thread, Text: text, Key: key, Metadata: map[string]string{"label": label}})
		rules := mailroom.Submit{Thread: thread, Messages: []mailroom.NewMessage{{Parts: mailroom.Text(text)}}, Key: key, Metadata: map[string]string{"label": label}}
		refused := rules.Check()
		if _, err := mailroom.CheckThreadID(thread); err != nil && strings.TrimSpace(thread) != "" {
			refused = err
		}
		if !utf8.ValidString(thread + "|" + text + "|" + key + "|" + label) {
			refused = mailroom.Errorf(mailroom.CodeInvalid, "the client sends no text that is not UTF-8")
		}
		if got, want := mailroom.CodeOf(err), mailroom.CodeOf(refused); got != want {
			t.Errorf("submit of %q to %q under %q: %v of code %q, want %q as of %v", text, thread, key, err, got, want, refused)
		}
		if err != nil {
			if after := s.written(); after != before {
				t.Errorf("it was refused with %v and yet wrote %s", err, after)
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
		if want := strings.TrimSpace(thread); err != nil || want != "" && got.ID != want {
			t.Errorf("thread %q arrived as %q (%v)", thread, got.ID, err)
		}
	})
}
