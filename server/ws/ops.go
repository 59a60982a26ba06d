package ws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/api"
	"mailroom/internal/recovery"
	"mailroom/server/internal/request"
	"mailroom/stream"
)

// handle executes and answers one frame. An error ends the socket.
func (k *socket) handle(m message) error {
	f, err := m.parse()
	if err != nil {
		return k.refuse(f, err)
	}
	switch f.op {
	case "auth":
		return k.auth(f)
	case "ping":
		if err := f.checkDone(); err != nil {
			return k.refuse(f, err)
		}
		return k.out.send(answer{Op: "pong", ID: f.id})
	case "unsubscribe":
		return k.unsubscribe(f)
	case "subscribe", "resume":
		r, err := k.streamRequest(f)
		if err != nil {
			return k.refuse(f, err)
		}
		return k.subscribe(f, r)
	}
	r, err := k.frameRequest(f)
	if err != nil {
		return k.refuse(f, err)
	}
	return k.sendReply(f, k.exchange(r))
}

// frameRequest makes the internal request that a frame stands for.
func (k *socket) frameRequest(f frame) (*http.Request, error) {
	path, of := "", ""
	var err error
	switch f.op {
	case "submit":
		path = "/v1/messages"
	case "cancel":
		of, err = f.required("run")
		path = "/v1/runs/" + url.PathEscape(of) + "/cancel"
	case "interrupt":
		of, err = f.required("thread")
		path = "/v1/threads/" + url.PathEscape(of) + "/interrupt"
	case "decide":
		of, err = f.required("ticket")
		path = "/v1/tickets/" + url.PathEscape(of)
	default:
		err = unknownOp(f.op)
	}
	if err != nil {
		return nil, err
	}
	return k.request(k.upgrade.Context(), http.MethodPost, path, nil, f.body())
}

// streamRequest makes the internal request for the stream that a frame subscribes to. The stream of
// a run ends with the run.
func (k *socket) streamRequest(f frame) (*http.Request, error) {
	thread, ofThread, err := f.optional("thread")
	if err != nil {
		return nil, err
	}
	run, ofRun, err := f.optional("run")
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if after, given := f.members["after"]; given {
		delete(f.members, "after")
		at, err := parsePlace(after)
		if err != nil {
			return nil, err
		}
		query.Set("after", at)
	}
	switch {
	case f.op == "resume" && !ofThread:
		err = request.Invalid("body.thread", "is missing", nil)
	case f.op == "resume" && !ofRun:
		err = request.Invalid("body.run", "is missing", nil)
	default:
		err = f.checkDone()
	}
	if err != nil {
		return nil, err
	}
	path := "/v1/stream"
	if ofRun {
		path = "/v1/runs/" + url.PathEscape(run) + "/stream"
		query.Set("until", string(stream.UntilSettled))
	}
	if ofThread {
		path = "/v1/threads/" + url.PathEscape(thread) + "/stream"
		if ofRun {
			query.Set("run", run)
		}
	}
	return k.request(k.ctx, http.MethodGet, path, query, nil)
}

// parsePlace parses the member after: a cursor, or the seq of an entry.
func parsePlace(raw json.RawMessage) (string, error) {
	if seq, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return strconv.FormatInt(seq, 10), nil
	}
	at, err := parseString("after", raw)
	if err != nil {
		return "", request.Invalid("body.after",
			`must be a seq, or a cursor: "SEQ" or "SEQ:N", or in the stream of all threads that of a frame`, nil)
	}
	return at, nil
}

// request makes an internal request with the client's credentials.
func (k *socket) request(
	ctx context.Context, method, path string, query url.Values, body []byte,
) (*http.Request, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	ctx = request.WithCharged(ctx) // readFrame has charged the frame
	r, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, mailroom.Errorf(mailroom.CodeInternal, "build the HTTP request of a WebSocket frame: %w", err)
	}
	r.Host, r.RemoteAddr = k.upgrade.Host, k.upgrade.RemoteAddr
	if by := k.upgrade.Header["X-Forwarded-For"]; by != nil {
		r.Header["X-Forwarded-For"] = by
	}
	r.Header.Set("Authorization", k.header)
	// the other half of its secret, and from which page the socket is
	if scheme, _, _ := strings.Cut(k.header, " "); strings.EqualFold(scheme, "Session") {
		for _, name := range []string{"Cookie", "Origin", "Sec-Fetch-Site"} {
			if given := k.upgrade.Header[name]; given != nil {
				r.Header[name] = given
			}
		}
	}
	if by := k.upgrade.Header["X-Forwarded-For"]; by != nil {
		r.Header["X-Forwarded-For"] = by // for the log of the request
	}
	return r, nil
}

// reply records the response to an internal request.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *reply) Header() http.Header         { return a.header }
func (a *reply) Write(b []byte) (int, error) { return a.body.Write(b) }
func (a *reply) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// exchange serves an internal request like any other.
func (k *socket) exchange(r *http.Request) (a *reply) {
	a = &reply{header: http.Header{}}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p != http.ErrAbortHandler { // with ErrAbortHandler the response was aborted and logged
			recovery.NewPanic(p).Log(k.host.Log, "socket request")
		}
		raw, err := json.Marshal(api.NewProblem(&mailroom.Error{Code: mailroom.CodeInternal}))
		if err != nil {
			panic(err) // cannot happen: the problem is constant
		}
		a = &reply{header: http.Header{}, status: http.StatusInternalServerError}
		a.body.Write(raw)
	}()
	k.host.Host.ServeHTTP(a, r)
	return a
}

// sendReply answers f with the response to its request.
func (k *socket) sendReply(f frame, a *reply) error {
	if a.status < http.StatusMultipleChoices {
		return k.out.send(answer{Op: "ack", ID: f.id, Result: a.body.Bytes()})
	}
	return k.out.send(k.errorAnswer(answer{ID: f.id}, a))
}

// errorAnswer puts the refusal r into a. Locations in path and query become members of the frame.
func (k *socket) errorAnswer(a answer, r *reply) answer {
	a.Op, a.Error = "error", r.body.Bytes()
	if seconds, err := strconv.Atoi(r.header.Get("Retry-After")); err == nil {
		a.RetryAfter = seconds
	}
	var p api.Problem
	if json.Unmarshal(a.Error, &p) != nil {
		return a // forward it unchanged
	}
	for i := range p.Errors {
		for _, place := range []string{"path.", "query."} {
			if name, ok := strings.CutPrefix(p.Errors[i].Location, place); ok {
				p.Detail = strings.Replace(p.Detail, p.Errors[i].Location, "body."+name, 1)
				p.Errors[i].Location = "body." + name
			}
		}
	}
	if raw, err := json.Marshal(p); err == nil {
		a.Error = raw
	}
	return a
}

// refuse answers a frame with an error, without an internal request.
func (k *socket) refuse(f frame, err error) error {
	a := &reply{header: http.Header{}}
	k.host.Host.Refuse(a, k.upgrade, k.grant, err)
	return k.out.send(k.errorAnswer(answer{ID: f.id}, a))
}

const (
	schemeBearer  = "Bearer "
	schemeSession = "Session "
)

// credentials returns the header Authorization for the token, or the page's half of a session, in a frame.
func credentials(f *frame) (header string, err error) {
	half, ofSession, err := f.optional("session")
	if err != nil {
		return "", err
	}
	header = schemeSession + half
	if !ofSession {
		token, err := f.required("token")
		if err != nil {
			return "", err
		}
		header = schemeBearer + token
	}
	return header, f.checkDone()
}

// auth checks a token or a session and sets it for the socket. It refuses a token of another name than the socket has,
// because a socket belongs to one client.
func (k *socket) auth(f frame) error {
	header, err := credentials(&f)
	if err != nil {
		return k.refuse(f, err)
	}
	grant, err := k.host.Host.Authenticate(k.upgrade, header)
	if err != nil {
		if sent := k.refuse(f, err); sent != nil {
			return sent
		}
		return &closeError{closeUnauthenticated, "unknown or revoked token"}
	}
	who := grant.Token
	if k.grant != nil && k.grant.Token.Name != who.Name {
		return k.refuse(f, mailroom.Errorf(mailroom.CodeConflict,
			"this socket belongs to %q: open another one", k.grant.Token.Name))
	}
	if err := k.setGrant(header, grant); err != nil {
		return errors.Join(k.refuse(f, err), tooManySockets())
	}
	result, err := json.Marshal(api.Identity{Name: who.Name, Scopes: who.Scopes})
	if err != nil {
		return err
	}
	return k.out.send(answer{Op: "ack", ID: f.id, Result: result})
}

func tooManySockets() error { return &closeError{websocket.StatusTryAgainLater, "too many sockets"} }

// setGrant sets the client's token, unless the token has too many sockets. The socket ends when the
// token is revoked.
func (k *socket) setGrant(header string, g *Grant) error {
	if k.grant == nil {
		release, err := k.host.Host.Hold(g.Token.Name)
		if err != nil {
			return err
		}
		k.release = release
	}
	if k.stopWatch != nil {
		k.stopWatch()
	}
	k.header, k.grant = header, g
	k.meter.who.Store(&g.Token.Name)
	k.stopWatch = context.AfterFunc(g.Valid, func() {
		defer recovery.Log(k.host.Log, "socket close")
		k.end(context.Cause(g.Valid))
	})
	return nil
}
