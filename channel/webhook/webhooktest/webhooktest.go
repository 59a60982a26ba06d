// Package webhooktest provides both sides of a webhook for tests: a program that posts requests and
// a receiver. They implement the signature independently of package webhook.
package webhooktest

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
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Key and Secret are the same secret, raw and in the whsec_ form.
const (
	Key    = "0123456789abcdef0123456789abcdef"
	Secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
)

// Sign returns the signature of a request as the specification defines it.
func Sign(key, id, at string, body []byte) string {
	h := hmac.New(sha256.New, []byte(key))
	_, _ = h.Write(append([]byte(id+"."+at+"."), body...)) // writing to a hash never fails
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Program sends inbound requests.
type Program struct {
	URL string // base URL of the server
	Key string
}

// Answer is the response to a request.
type Answer struct {
	Code   int
	Header http.Header
	Body   string
}

// PostUnread sends a request and returns its connection without reading the response.
func (p *Program) PostUnread(channel, id, body string) (net.Conn, error) {
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

func (p *Program) request(channel, id, body string) (*http.Request, error) {
	r, err := http.NewRequest(http.MethodPost, p.URL+"/v1/hooks/"+channel, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", at)
	r.Header.Set("webhook-signature", Sign(p.Key, id, at, []byte(body)))
	return r, nil
}

// Post sends a request to a channel. A non-nil change modifies it after signing.
func (p *Program) Post(channel, id, body string, change func(*http.Request)) (Answer, error) {
	r, err := p.request(channel, id, body)
	if err != nil {
		return Answer{}, err
	}
	if change != nil {
		change(r)
	}
	client := http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	a, err := client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer a.Body.Close() // the body has been read
	raw, err := io.ReadAll(a.Body)
	return Answer{Code: a.StatusCode, Header: a.Header, Body: string(raw)}, err
}

// Message returns the body of a text message.
func Message(room, user, text string) string {
	raw, err := json.Marshal(map[string]any{"room": room, "user": map[string]string{"id": user, "name": strings.ToUpper(user)}, "text": text})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(raw)
}

// Fault describes how one request is answered. The zero value accepts it.
type Fault struct {
	Code       int // 0 accepts it with Body as the response
	RetryAfter string
	Location   string
	Body       string
	Hang       bool          // not accepted and never answered
	Reset      bool          // accepted; the connection is cut
	Hold       chan struct{} // accepted; answered after the channel is closed
}

// Post is a received request.
type Post struct {
	At       time.Time
	ID       string
	Code     int // status of the response; 0 without one
	Accepted bool
	Header   http.Header
	Raw      string // the body as received
	Body     Body
}

// Body is the body of a received request.
type Body struct {
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

// Receiver is an endpoint for outbound requests. It rejects invalid signatures.
type Receiver struct {
	URL string

	// Owned by mu.
	mu     sync.Mutex
	faults []Fault
	posts  []Post
	keys   []string
}

// NewReceiver returns a receiver that stops when the test ends.
func NewReceiver(t *testing.T) *Receiver {
	t.Helper()
	r := &Receiver{keys: []string{Key}}
	r.Up(t)
	return r
}

// NewDownReceiver returns a receiver that does not listen until Up.
func NewDownReceiver(t *testing.T) *Receiver {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = ln.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &Receiver{keys: []string{Key}, URL: "http://" + ln.Addr().String()}
}

// Up starts listening.
func (r *Receiver) Up(t *testing.T) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	if r.URL != "" {
		ln, err := net.Listen("tcp", strings.TrimPrefix(r.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Listener.Close() // never used
		s.Listener = ln
	}
	s.Start()
	r.URL = s.URL
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
}

// AcceptKeys replaces the keys that the receiver accepts.
func (r *Receiver) AcceptKeys(keys ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = keys
}

// Fail queues faults for the next requests.
func (r *Receiver) Fail(faults ...Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, faults...)
}

// Posts returns all received requests.
func (r *Receiver) Posts() []Post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Post(nil), r.posts...)
}

// Texts returns the current messages in order, as a program shows them that deduplicates by id and
// applies edits.
func (r *Receiver) Texts() []string {
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

// WaitFor polls until good returns true.
func (r *Receiver) WaitFor(t *testing.T, what string, good func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !good() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("condition not met in time: %s; received %+v", what, r.Posts())
		}
	}
}

func (r *Receiver) serve(w http.ResponseWriter, in *http.Request) {
	raw, err := io.ReadAll(in.Body)
	p := Post{ID: in.Header.Get("webhook-id"), Header: in.Header.Clone(), Raw: string(raw)}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err == nil {
		err = d.Decode(&p.Body)
	}
	if reason := r.check(in, raw, p); reason != "" || err != nil {
		http.Error(w, fmt.Sprint(reason, err), http.StatusUnauthorized)
		r.record(p, http.StatusUnauthorized)
		return
	}
	f := r.nextFault()
	p.Accepted = f.Code == 0 && !f.Hang
	if f.Hang {
		r.record(p, 0)
		<-in.Context().Done()
		return
	}
	if f.Reset || f.Hold != nil {
		r.record(p, 0)
	}
	if f.Reset {
		panic(http.ErrAbortHandler)
	}
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-in.Context().Done():
		}
		return
	}
	for name, value := range map[string]string{"Retry-After": f.RetryAfter, "Location": f.Location} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	if p.Accepted {
		f.Code = http.StatusOK
	}
	r.record(p, f.Code)
	w.WriteHeader(f.Code)
	_, _ = io.WriteString(w, f.Body) // the client may be gone
}

// check returns what is wrong with a request, or "".
func (r *Receiver) check(in *http.Request, raw []byte, p Post) string {
	at := in.Header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	signed := false
	for given := range strings.SplitSeq(in.Header.Get("webhook-signature"), " ") {
		for _, key := range r.keys {
			signed = signed || given == Sign(key, p.ID, at, raw)
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

func (r *Receiver) nextFault() (f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faults) > 0 {
		f, r.faults = r.faults[0], r.faults[1:]
	}
	return f
}

func (r *Receiver) record(p Post, code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Code, p.At = code, time.Now()
	r.posts = append(r.posts, p)
}
