package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/client"
	"mailroom/server"
)

// repeatProtocol mounts a protocol that makes the request named in its body, and answers with the
// first line of the response.
func repeatProtocol(o *server.Options) {
	o.Parts.Protocols = map[string]server.Protocol{"POST /again": {
		Via: "again", Query: []string{"of"}, Summary: "Makes a request",
		Serve: func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper) {
			line, err := repeat(r, inside)
			if err != nil {
				line = "failed: " + err.Error()
			}
			_, _ = io.WriteString(w, line) // the client may have gone
		},
	}}
}

func repeat(r *http.Request, inside http.RoundTripper) (string, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	route, body, _ := strings.Cut(strings.Trim(string(raw), `"`), " with ")
	method, path, _ := strings.Cut(route, " ")
	var given io.Reader
	if body != "" {
		given = strings.NewReader(strings.ReplaceAll(body, "'", `"`))
	}
	in, err := http.NewRequestWithContext(r.Context(), method, "http://elsewhere.example.org"+path, given)
	if err != nil {
		return "", err
	}
	in.Header.Set("Authorization", "Bearer another-token")
	resp, err := (&http.Client{Transport: inside}).Do(in)
	if err != nil {
		return "", err
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return line, errors.Join(err, resp.Body.Close())
}

func TestProtocolRequestsHaveTheCallersIdentity(t *testing.T) {
	f := start(t, repeatProtocol)
	f.submit("private", "hello")
	ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
	reader := f.withToken(f.createToken("reader", "", auth.PermissionRead))
	for name, e := range map[string]struct {
		who        *fixture
		ask, words string
	}{
		"the operator sees all":  {f, "GET /v1/threads/private", `"id":"private"`},
		"another token does not": {ann, "GET /v1/threads/private", `"code":"not_found"`},
		"a token with submit can": {ann, "POST /v1/messages with {'thread':'anns','text':'hi'}",
			`"disposition":"queued"`},
		"a token without cannot":      {reader, "POST /v1/messages with {'text':'hi'}", `"code":"forbidden"`},
		"an invalid body":             {ann, "POST /v1/messages with {'text':'hi','Text':'ho'}", "unknown field"},
		"a route must be there":       {f, "GET /v1/nothing", `"code":"not_found"`},
		"a stream begins":             {f, "GET /v1/threads/private/stream", "event: entry"},
		"an answer may have no body":  {f, "GET /v1/threads/private/stream?until=settled&after=99", ""},
		"a protocol calls a protocol": {f, "POST /again", `no route`},
	} {
		got := e.who.call("POST /again?of=x", `"`+e.ask+`"`)
		if got.status != 200 || !strings.Contains(got.body, e.words) {
			t.Errorf("%s: %d %s, want %q", name, got.status, got.body, e.words)
		}
	}
	page, err := client.New(f.url, ann.secret).Runs(t.Context(), client.ListQuery{Q: "via:again"})
	if err != nil || len(page.Items) != 1 || page.Items[0].Thread != "anns" || page.Items[0].Origin.Sender != "ann" {
		t.Errorf("submitted over the protocol: %+v, %v, want ann's one run", page.Items, err)
	}
}

func TestTheMiddlewareChecksRequestsOfAProtocol(t *testing.T) {
	f := start(t, repeatProtocol)
	ask := `"GET /healthz"`
	f.wantCode("no token", f.withToken("").call("POST /again", ask), 401, mailroom.CodeUnauthenticated)
	f.wantCode("an unknown parameter", f.call("POST /again?if=x", ask), 422, mailroom.CodeInvalid)
	f.wantCode("another origin", f.call("POST /again", ask, "Origin: https://evil.example.org"), 403,
		mailroom.CodeForbidden)
	f.wantCode("another method", f.call("GET /again", ""), 405, mailroom.CodeInvalid)
	f.wantCode("no JSON", f.call("POST /again", `{`), 400, mailroom.CodeInvalid)
	if got := f.call("POST /again", `{"Any-Name":{"_x":1}}`); got.status != 200 {
		t.Errorf("field names of the protocol: %d %s, want 200", got.status, got.body)
	}
	if !slices.Contains(f.describedRoutes(), "POST /again") {
		t.Error("the protocol is not in the description")
	}
}

func TestProtocolRequestsEndWithTheOuterRequest(t *testing.T) {
	f := start(t, repeatProtocol)
	f.submit("t", "hello")
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/again",
			strings.NewReader(`"GET /v1/threads/t/stream?after=2"`))
		if err != nil {
			ended <- err
			return
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := f.http.RoundTrip(r)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			err = errors.Join(err, resp.Body.Close())
		}
		ended <- err
	}()
	for f.metricOf("mailroom_stream_subscribers") != "1" {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the outer request ended with %v", err)
	}
	f.log.wait(t, `"path":"/again"`)
	if got := f.metricOf("mailroom_stream_subscribers"); got != "0" {
		t.Errorf("%s open streams", got)
	}
}

// metricOf returns the value of a metric without labels.
func (f *fixture) metricOf(name string) string {
	f.t.Helper()
	_, after, _ := strings.Cut(f.call("GET /metrics", "").body, "\n"+name+" ")
	value, _, _ := strings.Cut(after, "\n")
	return value
}

// TestAPublicProtocolNeedsNoTokenAndHasTheErrorsOfTheAPI mounts a protocol that answers with the length of the
// request's unchanged body.
func TestAPublicProtocolNeedsNoTokenAndHasTheErrorsOfTheAPI(t *testing.T) {
	type length struct {
		Bytes int `json:"bytes"`
	}
	f := start(t, func(o *server.Options) {
		o.Parts.Protocols = map[string]server.Protocol{"POST /length/{of}": {
			Via: "length", Summary: "Returns a length", Public: true, Status: http.StatusAccepted,
			ResponseType: reflect.TypeFor[length](),
			Answer: func(r *http.Request) (any, error) {
				raw, err := io.ReadAll(r.Body)
				if err == nil {
					err = server.CheckJSON(raw)
				}
				switch r.PathValue("of") {
				case "nothing":
					return nil, &mailroom.Error{Code: mailroom.CodeUnavailable, Message: "not now", RetryAfter: 3 * time.Second,
						Cause: err}
				case "secrets":
					return nil, errors.New("hush")
				case "dreams":
					return func() {}, nil
				}
				return length{len(raw)}, err
			},
		}}
	})
	anybody := f.withToken("")
	if got := anybody.call("POST /length/it", " {\"a\": 1}\r\n"); got.status != 202 || got.body != `{"bytes":11}` ||
		got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	got := anybody.call("POST /length/nothing", `{}`)
	if f.wantCode("not now", got, 503, mailroom.CodeUnavailable); got.header.Get("Retry-After") != "3" {
		t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
	}
	for _, path := range []string{"secrets", "dreams"} {
		got := anybody.call("POST /length/"+path, `{}`)
		if f.wantCode(path, got, 500, mailroom.CodeInternal); strings.Contains(got.body, "hush") {
			t.Errorf("%s", got.body)
		}
	}
	f.wantCode("no JSON", anybody.call("POST /length/it", `{`), 400, mailroom.CodeInvalid)
	f.wantCode("too deep", anybody.call("POST /length/it", strings.Repeat("[", 65)+strings.Repeat("]", 65)), 400,
		mailroom.CodeInvalid)
	f.wantCode("an unknown parameter", anybody.call("POST /length/it?if=x", `{}`), 422, mailroom.CodeInvalid)
	f.wantCode("another origin", anybody.call("POST /length/it", `{}`, "Origin: https://evil.example.org"), 403,
		mailroom.CodeForbidden)
}

// TestARequestOfAProtocolFailsAfterItsTokenWasRevoked revokes the token and makes a new one with the same name. It does
// so after the server has admitted the request of a protocol, and before the protocol makes its own request to the
// server.
func TestARequestOfAProtocolFailsAfterItsTokenWasRevoked(t *testing.T) {
	var between func()
	f := start(t, func(o *server.Options) {
		o.Parts.Protocols = map[string]server.Protocol{"POST /late": {Via: "late", Summary: "Makes a request late",
			Serve: func(w http.ResponseWriter, r *http.Request, inside http.RoundTripper) {
				between()
				line, err := repeat(r, inside)
				_, _ = io.WriteString(w, fmt.Sprint(line, err)) // the client may have gone
			}}}
	})
	f.submit("private", "hello")
	ann := f.withToken(f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit))
	ann.submit("hers", "hello")
	for _, ask := range []string{
		"GET /v1/threads/hers", "GET /v1/threads/hers/stream", "POST /v1/messages with {'thread':'hers','text':'late'}",
		"POST /v1/tokens/limited with {'scopes':['read'],'expires_at':'" + inAnHour() + "'}",
	} {
		between = func() {
			if err := f.client.Accounts().RevokeToken(t.Context(), "ann"); err != nil {
				t.Error(err)
			}
			f.createToken("ann", "", auth.PermissionRead, auth.PermissionSubmit)
		}
		if got := ann.call("POST /late", `"`+ask+`"`); !strings.Contains(got.body, `"code":"unauthenticated"`) {
			t.Errorf("%s: %d %s, want unauthenticated", ask, got.status, got.body)
		}
		between = func() {}
		ann = f.withToken(f.rotate("ann"))
		if got := ann.call("POST /late", `"`+ask+`"`); strings.Contains(got.body, `"code":"unauthenticated"`) {
			t.Errorf("%s with the next token: %d %s", ask, got.status, got.body)
		}
	}
	if got := f.texts("hers"); slices.Contains(got[:len(got)-1], "late") {
		t.Errorf("the log has %q", got)
	}
}

// rotate replaces the token of a name.
func (f *fixture) rotate(name string) (secret string) {
	f.t.Helper()
	if err := f.client.Accounts().RevokeToken(f.t.Context(), name); err != nil {
		f.t.Fatal(err)
	}
	return f.createToken(name, "", auth.PermissionRead, auth.PermissionSubmit)
}
