package platformtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// WebhookKey and WebhookSecret are the same secret, raw and in the whsec_ form.
const (
	WebhookKey    = "0123456789abcdef0123456789abcdef"
	WebhookSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
)

// SignWebhook returns the signature of a request as the specification defines it.
func SignWebhook(key, id, at string, body []byte) string {
	h := hmac.New(sha256.New, []byte(key))
	_, _ = h.Write(append([]byte(id+"."+at+"."), body...)) // writing to a hash never fails
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// WebhookProgram sends inbound requests.
type WebhookProgram struct {
	URL string // base URL of the server
	Key string
}

// WebhookAnswer is the response to a request.
type WebhookAnswer struct {
	Code   int
	Header http.Header
	Body   string
}

// PostUnread sends a request and returns its connection without reading the response.
func (p *WebhookProgram) PostUnread(channel, id, body string) (net.Conn, error) {
	r, err := p.request(channel, id, body)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", r.URL.Host)
	if err != nil {
		return nil, err
	}
	return conn, r.Write(conn)
}

func (p *WebhookProgram) request(channel, id, body string) (*http.Request, error) {
	r, err := http.NewRequest(http.MethodPost, p.URL+"/v1/hooks/"+channel, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", at)
	r.Header.Set("webhook-signature", SignWebhook(p.Key, id, at, []byte(body)))
	return r, nil
}

// Post sends a request to a channel. A non-nil change modifies it after signing.
func (p *WebhookProgram) Post(channel, id, body string, change func(*http.Request)) (WebhookAnswer, error) {
	r, err := p.request(channel, id, body)
	if err != nil {
		return WebhookAnswer{}, err
	}
	if change != nil {
		change(r)
	}
	client := http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	a, err := client.Do(r)
	if err != nil {
		return WebhookAnswer{}, err
	}
	defer a.Body.Close() // the body has been read
	raw, err := io.ReadAll(a.Body)
	return WebhookAnswer{Code: a.StatusCode, Header: a.Header, Body: string(raw)}, err
}

// WebhookMessage returns the body of a text message.
func WebhookMessage(room, user, text string) string {
	raw, err := json.Marshal(map[string]any{"room": room,
		"user": map[string]string{"id": user, "name": strings.ToUpper(user)}, "text": text})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(raw)
}

// WebhookPost is a received request.
type WebhookPost struct {
	At       time.Time
	ID       string
	Code     int // status of the response; 0 without one
	Accepted bool
	Header   http.Header
	Raw      string // the body as received
	Body     WebhookBody
}

// WebhookBody is the body of a received request.
type WebhookBody struct {
	Kind    string              `json:"kind"`
	Key     string              `json:"key"`
	Channel string              `json:"channel"`
	Room    string              `json:"room"`
	Topic   string              `json:"topic"`
	Group   bool                `json:"group"`
	Text    string              `json:"text"`
	Buttons []map[string]string `json:"buttons"`
	ReplyTo string              `json:"reply_to"`
	Of      string              `json:"of"`
}

// WebhookReceiver is an endpoint for outbound requests. It rejects invalid signatures.
type WebhookReceiver struct {
	*Server
	URL string

	// Owned by mu.
	mu   sync.Mutex
	keys []string
}

// NewWebhookReceiver returns a receiver that stops when the test ends.
func NewWebhookReceiver(t testing.TB) *WebhookReceiver {
	t.Helper()
	r := &WebhookReceiver{keys: []string{WebhookKey}}
	r.Server = NewServer(t, &r.mu, r)
	r.URL = "http://" + r.Addr
	r.Up(t)
	return r
}

// AcceptKeys replaces the keys that the receiver accepts.
func (r *WebhookReceiver) AcceptKeys(keys ...string) {
	r.Update(func() { r.keys = keys })
}

// Names of requests, for faults and counts.
const (
	signed   = "signed"
	unsigned = "unsigned"
)

// Fail queues faults for the next requests with a valid signature.
func (r *WebhookReceiver) Fail(faults ...Fault) { r.Server.Fail(signed, faults...) }

// Posts returns all received requests.
func (r *WebhookReceiver) Posts() (posts []WebhookPost) {
	for _, c := range r.Calls("") {
		p, _ := c.Params["post"].(WebhookPost) // ServeHTTP sets it
		p.Code, p.At, p.Accepted = c.Status, c.At, c.Status == http.StatusOK || c.Params["accepted"] == true
		posts = append(posts, p)
	}
	return posts
}

// Texts returns the current messages in order, as a program shows them that deduplicates by id and
// applies edits.
func (r *WebhookReceiver) Texts() []string {
	var texts []string
	at := map[string]int{}
	for _, p := range r.Posts() {
		_, known := at[p.ID]
		switch {
		case !p.Accepted || known:
		case p.Body.Kind == "edit":
			if i, ok := at[p.Body.Of]; ok {
				texts[i] = p.Body.Text
			}
		default:
			at[p.ID] = len(texts)
			texts = append(texts, p.Body.Text)
		}
	}
	return texts
}

// WaitFor waits until good returns true, also for conditions that are not the receiver's.
func (r *WebhookReceiver) WaitFor(t testing.TB, what string, good func() bool) {
	t.Helper()
	WaitFor(t, what, good)
}

// String describes the received requests.
func (r *WebhookReceiver) String() string { return fmt.Sprintf("%+v", r.Posts()) }

// ServeHTTP implements [Dialect].
func (r *WebhookReceiver) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	raw, err := io.ReadAll(in.Body)
	p := WebhookPost{ID: in.Header.Get("webhook-id"), Header: in.Header.Clone(), Raw: string(raw)}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err == nil {
		err = d.Decode(&p.Body)
	}
	params := map[string]any{"post": p}
	if reason := r.check(in, raw, p); reason != "" || err != nil {
		r.Serve(w, in, unsigned, params, func() (any, *Error) {
			return nil, &Error{Status: http.StatusUnauthorized, Message: fmt.Sprint(reason, err)}
		})
		return
	}
	r.Serve(w, in, signed, params, func() (any, *Error) {
		params["accepted"] = true
		return nil, nil
	})
}

// Respond implements [Dialect].
func (r *WebhookReceiver) Respond(w http.ResponseWriter, _ any, refused *Error) {
	if refused == nil {
		return
	}
	if refused.RetryAfter != 0 {
		w.Header().Set("Retry-After", fmt.Sprint(refused.RetryAfter))
	}
	w.WriteHeader(refused.Status)
	_, _ = io.WriteString(w, refused.Message) // the client may be gone
}

// check returns what is wrong with a request, or "".
func (r *WebhookReceiver) check(in *http.Request, raw []byte, p WebhookPost) string {
	at := in.Header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	signed := false
	for given := range strings.SplitSeq(in.Header.Get("webhook-signature"), " ") {
		for _, key := range r.keys {
			signed = signed || given == SignWebhook(key, p.ID, at, raw)
		}
	}
	switch {
	case in.Method != http.MethodPost || in.Header.Get("Content-Type") != "application/json":
		return "not a JSON POST request"
	case err != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Minute:
		return "timestamp not current"
	case !signed:
		return "invalid signature"
	case p.ID == "" || p.ID != p.Body.Key || strings.ContainsAny(p.ID, ". "):
		return "invalid webhook-id"
	}
	return ""
}
