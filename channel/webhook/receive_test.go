package webhook_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/channel"
	"mailroom/channel/platformtest"
	"mailroom/entry"
	"mailroom/store"
)

func TestAMessageGetsAReply(t *testing.T) {
	o := newFixture(t).start()
	a := o.post("msg_1", platformtest.WebhookMessage("lobby", "ann", "hello"), 202)
	if a.Body != `{"message":"msg_1"}` ||
		a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("response %s, %v", a.Body, a.Header)
	}
	o.waitTexts("hello")
	o.post("msg_2", requestBody(t, map[string]any{
		"room": "team", "topic": "deploys", "group": true, "user": map[string]string{"id": "bob", "name": "Bob"},
		"text": "and this?",
		"files": []map[string]any{{"name": "a.log", "uri": "https://files.example.org/a.log", "mime_type": "text/plain",
			"size": 12}},
	}), 202)
	o.waitTexts("hello", "From ops:bob (calls themselves \"Bob\"):\n> and this?") // users of a group share a conversation
	posts := o.Posts()
	first, second := posts[0].Body, posts[1].Body
	if first.Kind != "message" || first.Channel != "ops" || first.Room != "lobby" || first.Topic != "" ||
		first.ReplyTo != "" || first.Key != posts[0].ID {
		t.Errorf("sent %+v", posts[0])
	}
	if second.Room != "team" || second.Topic != "deploys" || !second.Group || second.ReplyTo != "msg_2" {
		t.Errorf("sent %+v", second)
	}
	s := o.runner.State()
	if s.LastSuccess.IsZero() || s.LastInbound.IsZero() || s.LastOutbound.IsZero() || s.LastError != "" {
		t.Errorf("the state is %+v", s)
	}
}

// TestOnlyACurrentSignatureIsAccepted checks that a rejected request has no effect.
func TestOnlyACurrentSignatureIsAccepted(t *testing.T) {
	o := newFixture(t).start()
	said := platformtest.WebhookMessage("lobby", "ann", "hello")
	sign := func(r *http.Request, key, id string, at time.Time, body string) {
		stamp := strconv.FormatInt(at.Unix(), 10)
		r.Header.Set("webhook-id", id)
		r.Header.Set("webhook-timestamp", stamp)
		r.Header.Set("webhook-signature", platformtest.SignWebhook(key, id, stamp, []byte(body)))
	}
	now := time.Now()
	other := strings.Repeat("x", 32)
	for name, c := range map[string]struct {
		change func(r *http.Request)
		want   string // substring of the problem; "" if accepted
	}{
		"another secret": {func(r *http.Request) { sign(r, other, "a", now, said) }, "no signature"},
		"another body": {func(r *http.Request) { sign(r, platformtest.WebhookKey, "a", now, said+" ") },
			"no signature"},
		"another id": {func(r *http.Request) { r.Header.Set("webhook-id", "b") }, "no signature"},
		"another time": {func(r *http.Request) {
			r.Header.Set("webhook-timestamp", fmt.Sprint(now.Unix()-60))
		}, "no signature"},
		"too old": {func(r *http.Request) {
			sign(r, platformtest.WebhookKey, "a", now.Add(-5*time.Minute-5*time.Second), said)
		}, "not within 5m"},
		"too new": {func(r *http.Request) {
			sign(r, platformtest.WebhookKey, "a", now.Add(5*time.Minute+30*time.Second), said)
		}, "not within 5m"},
		"no time": {func(r *http.Request) { r.Header.Set("webhook-timestamp", "yesterday") }, "not a time"},
		"a time in disguise": {func(r *http.Request) {
			r.Header.Set("webhook-timestamp", "+"+fmt.Sprint(now.Unix()))
		}, "not a time"},
		"an endless time": {func(r *http.Request) {
			r.Header.Set("webhook-timestamp", strings.Repeat("9", 40))
		}, "not a time"},
		"without an id":  {func(r *http.Request) { r.Header.Del("webhook-id") }, "webhook-id is missing"},
		"without a time": {func(r *http.Request) { r.Header.Del("webhook-timestamp") }, "webhook-timestamp is missing"},
		"unsigned":       {func(r *http.Request) { r.Header.Del("webhook-signature") }, "webhook-signature is missing"},
		"an id with a stop": {func(r *http.Request) { sign(r, platformtest.WebhookKey, "a.b", now, said) },
			"spaces and dots"},
		"an endless id": {func(r *http.Request) {
			sign(r, platformtest.WebhookKey, strings.Repeat("a", 151), now, said)
		}, "at most 150"},
		"another scheme": {func(r *http.Request) {
			r.Header.Set("webhook-signature", strings.Replace(r.Header.Get("webhook-signature"), "v1,", "v1a,", 1))
		}, "no signature"},
		"no Base64":    {func(r *http.Request) { r.Header.Set("webhook-signature", "v1,%%%") }, "no signature"},
		"an empty one": {func(r *http.Request) { r.Header.Set("webhook-signature", "v1,") }, "no signature"},
		"four minutes old": {func(r *http.Request) { sign(r, platformtest.WebhookKey, "old", now.Add(-4*time.Minute), said) },
			""},
		"several": {func(r *http.Request) {
			r.Header.Set("webhook-signature", "v1a,AAAA v1,AAAA "+r.Header.Get("webhook-signature")+" v2,BBBB")
		}, ""},
	} {
		a, err := o.program.Post("ops", "a", said, c.change)
		var p api.Problem
		switch {
		case err != nil:
			t.Fatal(err)
		case c.want == "" && a.Code != 202:
			t.Errorf("%s: %d %s", name, a.Code, a.Body)
		case c.want != "" && (json.Unmarshal([]byte(a.Body), &p) != nil || a.Code != 401 ||
			p.Code != mailroom.CodeUnauthenticated ||
			!strings.Contains(p.Detail, c.want) || a.Header.Get("Content-Type") != api.ProblemType):
			t.Errorf("%s: %d %s, want %q", name, a.Code, a.Body, c.want)
		}
	}
	o.waitIdle()
	if n := len(o.entries("ops:webhook:lobby", entry.KindMessage)); n != 4 { // two messages and their replies
		t.Errorf("%d messages, want 4", n)
	}
}

// TestAHookRefusesARequestBeforeItReadsTheBody sends the headers of a large request and expects a rejection without
// waiting for the body.
func TestAHookRefusesARequestBeforeItReadsTheBody(t *testing.T) {
	o := newFixture(t).start()
	for name, c := range map[string]struct {
		path, header string
		code         int
	}{
		"no such channel":        {"/v1/hooks/unknown", "", 404},
		"a channel that is down": {"/v1/hooks/down", "", 503},
		"unsigned":               {"/v1/hooks/ops", "", 401},
		"signed long ago": {"/v1/hooks/ops", "webhook-id: a\r\nwebhook-timestamp: 1\r\nwebhook-signature: v1,AAAA\r\n",
			401},
		"too large": {"/v1/hooks/ops", fmt.Sprintf("webhook-id: a\r\nwebhook-timestamp: %d\r\nwebhook-signature: %s\r\n",
			time.Now().Unix(), platformtest.SignWebhook(platformtest.WebhookKey, "a", "1", nil)), 413},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(o.program.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n%s\r\n",
			c.path, c.header)
		if err != nil {
			t.Fatal(err)
		}
		// This time is shorter than the server's read timeout.
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != c.code || !resp.Close {
			t.Errorf("%s: %+v, %v, want %d and a closed connection", name, resp, err, c.code)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTheSignatureCoversTheBodyBytes has white space around the JSON.
func TestTheSignatureCoversTheBodyBytes(t *testing.T) {
	o := newFixture(t).start()
	o.post("msg_1", "\n  "+platformtest.WebhookMessage("lobby", "ann", "hello")+"\r\n\n", 202)
	o.waitTexts("hello")
}

func TestARepeatedRequestRunsOnce(t *testing.T) {
	o := newFixture(t).start()
	said := platformtest.WebhookMessage("lobby", "ann", "hello")
	first := o.post("msg_1", said, 202)
	o.waitTexts("hello")
	var posts sync.WaitGroup
	for range 8 {
		posts.Go(func() {
			a, err := o.program.Post("ops", "msg_1", said, nil)
			if err != nil || a.Code != 202 || a.Body != first.Body {
				t.Errorf("a repeat: %d %s, %v", a.Code, a.Body, err)
			}
		})
	}
	posts.Wait()
	o.stop()
	o.start() // also after a restart
	if a := o.post("msg_1", said, 202); a.Body != first.Body {
		t.Errorf("a repeat: %s", a.Body)
	}
	o.post("msg_1", platformtest.WebhookMessage("lobby", "ann", "something else"), 202) // the first request counts
	o.post("msg_2", platformtest.WebhookMessage("lobby", "ann", "bye"), 202)
	o.waitTexts("hello", "bye")
	if n := o.countRuns(store.RunQuery{Thread: "ops:webhook:lobby"}); n != 2 {
		t.Errorf("%d runs", n)
	}
}

func TestInvalidBodiesAreDescribed(t *testing.T) {
	o := newFixture(t).start()
	long := strings.Repeat("x", mailroom.MaxText+1)
	file := func(f map[string]any) map[string]any {
		return map[string]any{"room": "r", "user": map[string]string{"id": "u"}, "files": []any{f}}
	}
	say := func(more map[string]any) string {
		all := map[string]any{"room": "r", "user": map[string]any{"id": "u"}, "text": "hi"}
		for k, v := range more {
			if all[k] = v; v == nil {
				delete(all, k)
			}
		}
		return requestBody(t, all)
	}
	for name, c := range map[string]struct {
		body string
		code int
		want string
	}{
		"no JSON":             {`{"room":`, 400, "is not JSON"},
		"nothing":             {``, 422, "is not a JSON object"},
		"a list":              {`[]`, 422, "is not a JSON object"},
		"two of a name":       {`{"room":"a","room":"b"}`, 422, "duplicate field"},
		"a strange field":     {say(map[string]any{"color": "red"}), 422, "body.color: unknown field"},
		"an outbound request": {`{"kind":"message","key":"k","channel":"ops","room":"r","text":"hi"}`, 422, "unknown field"},
		"no room":             {say(map[string]any{"room": nil}), 422, "body.room: is required"},
		"a room of numbers":   {say(map[string]any{"room": 7}), 422, "body.room: cannot be a number"},
		"a long room": {say(map[string]any{"room": strings.Repeat("r", 301)}), 422,
			"body.room: must have at most 300 bytes"},
		"no user": {say(map[string]any{"user": nil}), 422, "body.user.id: is required"},
		"a user without id": {say(map[string]any{"user": map[string]string{"name": "Ann"}}), 422,
			"body.user.id: is required"},
		"no text":            {say(map[string]any{"text": nil}), 422, "body.text: is required"},
		"a blank text":       {say(map[string]any{"text": " \n"}), 422, "body.text: is required"},
		"a NUL":              {say(map[string]any{"text": "a\x00"}), 422, "body.text: must have at most"},
		"a long text":        {say(map[string]any{"text": long}), 422, "body.text: must have at most 1048576 bytes"},
		"a huge body":        {say(map[string]any{"text": long + long}), 413, "exceeds the limit"},
		"beyond the server":  {say(map[string]any{"text": long + long + long + long}), 413, "exceeds the limit"},
		"another kind":       {say(map[string]any{"kind": "shout"}), 422, "body.kind: must be"},
		"a message of":       {say(map[string]any{"of": "msg_1"}), 422, "body.of: is not permitted for this kind"},
		"an edit of nothing": {say(map[string]any{"kind": "edit"}), 422, "body.of: is required"},
		"a tap of nothing":   {say(map[string]any{"kind": "tap", "text": nil, "of": "m"}), 422, "body.data: is required"},
		"a delete with text": {say(map[string]any{"kind": "delete", "of": "m"}), 422,
			"body.text: is not permitted for this kind"},
		"a file nowhere": {requestBody(t, file(map[string]any{"name": "a"})), 422, "body.files[0].uri: is required"},
		"a file by halves": {requestBody(t, file(map[string]any{"uri": "/etc/passwd"})), 422,
			"body.files[0].uri: is required"},
		"a file of ours": {requestBody(t, file(map[string]any{"uri": "file:///etc/passwd"})), 422,
			"body.files[0].uri: is required"},
		"a negative file": {requestBody(t, file(map[string]any{"uri": "https://a/b", "size": -1})), 422,
			"body.files[0].size: must be 0 to"},
	} {
		a, err := o.program.Post("ops", "a", c.body, nil)
		var p api.Problem
		if err != nil || json.Unmarshal([]byte(a.Body), &p) != nil || a.Code != c.code ||
			!strings.Contains(p.Detail, c.want) {
			t.Errorf("%s: %d %s, %v; want %d %q", name, a.Code, a.Body, err, c.code, c.want)
		}
	}
	if a, err := o.program.Post("ops", "a", say(nil), func(r *http.Request) {
		r.Header.Set("Content-Type", "text/plain")
	}); err != nil || a.Code != 415 {
		t.Errorf("response to another content type: %d %s, %v", a.Code, a.Body, err)
	}
	if n := o.countRuns(store.RunQuery{}); n != 0 {
		t.Errorf("%d runs", n)
	}
	if s := o.runner.State(); s.Condition != channel.ConditionConnected {
		t.Errorf("the channel is %+v", s)
	}
}

func TestAChannelThatIsNotConnectedAsksForARetry(t *testing.T) {
	o := newFixture(t).start()
	for name, want := range map[string]int{"down": 503, "unknown": 404} {
		a, err := o.program.Post(name, "a", platformtest.WebhookMessage("r", "u", "hi"), nil)
		if err != nil || a.Code != want || want == 503 && a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s, %v", name, a.Code, a.Header, a.Body, err)
		}
	}
}

func TestAMissingSecretStopsTheChannelUntilItIsThere(t *testing.T) {
	o := newFixture(t)
	var mu sync.Mutex
	text, err := "", errors.New("no such file")
	o.secret = func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return text, err
	}
	o.startServer()
	o.waitCondition(channel.ConditionFailed)
	if s := o.runner.State(); !strings.Contains(s.Reason, "no such file") {
		t.Errorf("the reason is %q", s.Reason)
	}
	o.post("a", platformtest.WebhookMessage("r", "u", "hi"), 503)
	mu.Lock()
	text, err = platformtest.WebhookSecret, nil
	mu.Unlock()
	o.runner.Resume()
	o.waitCondition(channel.ConditionConnected)
	o.postMessage("a", "r", "hi")
	o.waitTexts("hi")
	mu.Lock()
	text, err = "", errors.New("the file was removed")
	mu.Unlock()
	o.post("b", platformtest.WebhookMessage("r", "u", "ho"), 503)
	o.waitError("file was removed")
}

// TestASecretIsRotatedWithoutDowntime has two secrets in between.
func TestASecretIsRotatedWithoutDowntime(t *testing.T) {
	o := newFixture(t)
	var mu sync.Mutex
	now := platformtest.WebhookSecret
	o.secret = func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return now, nil
	}
	change := func(secret string) {
		mu.Lock()
		defer mu.Unlock()
		now = secret
	}
	next := "a raw one\twith a tab is two" // white space separates secrets
	next = strings.Join(strings.Fields(next), "-")
	o.start()
	o.postMessage("1", "r", "one")
	o.waitTexts("one")
	change(next + "\n" + platformtest.WebhookSecret)
	o.postMessage("2", "r", "two") // the program still signs with the old secret
	o.waitTexts("one", "two")
	o.program.Key = next
	o.postMessage("3", "r", "three")
	o.waitTexts("one", "two", "three")
	o.AcceptKeys(next)
	o.postMessage("4", "r", "four")
	o.waitTexts("one", "two", "three", "four")
	change(next)
	o.postMessage("5", "r", "five")
	o.waitTexts("one", "two", "three", "four", "five")
	o.program.Key = platformtest.WebhookKey
	o.post("6", platformtest.WebhookMessage("r", "ann", "six"), 401)
}

func TestTheEndpointIsInTheAPIDescription(t *testing.T) {
	o := newFixture(t).start()
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(o.program.URL + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close() // the body has been read
	var d struct {
		Paths map[string]map[string]struct {
			Security    []any `json:"security"`
			RequestBody struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					} `json:"schema"`
				} `json:"content"`
			} `json:"requestBody"`
			Responses map[string]any `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Required   []string       `json:"required"`
				Properties map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.NewDecoder(a.Body).Decode(&d); err != nil {
		t.Fatal(err)
	}
	post := d.Paths["/v1/hooks/{channel}"]["post"]
	ref := post.RequestBody.Content["application/json"].Schema.Ref
	in := d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
	if post.Responses["202"] == nil || len(post.Security) != 0 || in.Properties["text"] == nil ||
		fmt.Sprint(in.Required) != "[room]" {
		t.Errorf("description %+v; %s: %+v", post, ref, in)
	}
}
