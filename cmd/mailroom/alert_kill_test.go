package main

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"mailroom"
	"mailroom/alert/alerttest"
	"mailroom/alert/target"
	"mailroom/alert/webpush"
	"mailroom/api"
	"mailroom/channel/httpcall"
	"mailroom/channel/platformtest"
	"mailroom/entry"
)

// seenAlert is a message as a person sees it.
type seenAlert struct {
	key      string // recognizes a repeat; "" if the target has none
	repeated bool   // marked as a repeat
	deny     *alerttest.Action
}

// place is where alerts go in a kill test.
type place struct {
	config string // of [targets.phone]
	fail   func(alerttest.Fault)
	seen   func() int // messages that arrived, taken or not
	taken  func() []seenAlert
	// begin prepares the server once, and returns the thread of the run that sends; nil: that of the target.
	begin func(*alertFixture) string
}

func ntfyPlace(t *testing.T, _ *fixture) place {
	s := alerttest.NewNtfy(t)
	return place{
		config: fmt.Sprintf("kind = \"ntfy\"\nurl = %q\ntopic = \"alerts\"\nallow = [\"127.0.0.1\"]\n", s.URL), fail: s.Fail,
		seen: s.Seen,
		taken: func() (all []seenAlert) {
			for _, m := range s.Taken() {
				all = append(all, seenAlert{repeated: strings.HasPrefix(m.Title, "(repeated) "), deny: m.Button("Deny")})
			}
			return all
		},
	}
}

// faultyServer takes requests, unless its fault says otherwise.
type faultyServer struct {
	url string

	mu      sync.Mutex
	fault   alerttest.Fault
	arrived int
	all     []seenAlert
}

// newFaultyServer starts a server whose requests are read with read.
func newFaultyServer(t *testing.T, read func(r *http.Request, raw []byte) (seenAlert, error)) *faultyServer {
	f := &faultyServer{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		m, refused := read(r, raw)
		if err := errors.Join(err, refused); err != nil {
			t.Errorf("request: %v", err)
		}
		f.mu.Lock()
		f.arrived++
		now := f.fault
		if now == alerttest.None || now == alerttest.LoseAnswer {
			f.all = append(f.all, m)
		}
		f.mu.Unlock()
		if now != alerttest.None {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	f.url = s.URL
	return f
}

func (f *faultyServer) fail(now alerttest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = now
}

func (f *faultyServer) seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.arrived
}

func (f *faultyServer) taken() []seenAlert {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seenAlert{}, f.all...)
}

// pressOf returns the press of a button that posts JSON.
func pressOf(url, body string) *alerttest.Action {
	return &alerttest.Action{Action: "http", URL: url, Method: http.MethodPost, Body: body,
		Headers: map[string]string{"Content-Type": "application/json"}}
}

// pressOnPage returns the press of Deny on the page of a link.
func pressOnPage(link string) *alerttest.Action {
	return pressOf("https://mail.example.org/v1/question/decision", fmt.Sprintf(`{"link":%q,"decision":"deny"}`, link))
}

// hookPlace is a program that verifies what it gets.
func hookPlace(t *testing.T, h *fixture) place {
	secret := httpcall.NewSecret()
	keys, err := httpcall.ParseSecrets(secret)
	h.must(err)
	file := h.dir.TargetSecret("phone", "token")
	h.must(os.WriteFile(file, []byte(secret), 0o600))
	s := newFaultyServer(t, func(r *http.Request, raw []byte) (m seenAlert, err error) {
		var body target.WebhookBody
		id, err := keys.Verify(r.Header, raw, time.Now())
		if err := errors.Join(err, json.Unmarshal(raw, &body)); err != nil || id != body.Key {
			return m, fmt.Errorf("id %s and key %s: %w", id, body.Key, err)
		}
		m = seenAlert{key: body.Key, repeated: body.Repeated}
		for _, b := range body.Buttons {
			if b.Label == "Deny" {
				m.deny = pressOf(b.URL, string(b.Body))
			}
		}
		return m, nil
	})
	return place{
		config: fmt.Sprintf("kind = \"webhook\"\nurl = %q\ntoken_file = %q\nallow = [\"127.0.0.1\"]\n", s.url, file),
		fail:   s.fail, seen: s.seen, taken: s.taken,
	}
}

// pushPlace is a browser with its push service. A repeat has the topic of the first message, which replaces
// it at the service, and its tag, which replaces the notification.
func pushPlace(t *testing.T, h *fixture) place {
	file := h.dir.TargetSecret("phone", "key")
	h.must(os.WriteFile(file, []byte(webpush.NewKey()), 0o600))
	browser, err := ecdh.P256().GenerateKey(rand.Reader)
	h.must(err)
	auth := []byte("0123456789abcdef")
	s := newFaultyServer(t, func(r *http.Request, raw []byte) (m seenAlert, err error) {
		var body struct {
			Tag      string
			Repeated bool
			Buttons  []struct{ Label, URL, Body string }
		}
		text, err := decryptPush(raw, browser, auth)
		if err := errors.Join(err, json.Unmarshal(text, &body)); err != nil {
			return m, err
		}
		m = seenAlert{key: body.Tag + " " + r.Header.Get("Topic"), repeated: body.Repeated}
		for _, b := range body.Buttons {
			if b.Label == "Deny" {
				m.deny = pressOf(b.URL, b.Body)
			}
		}
		return m, nil
	})
	return place{
		config: fmt.Sprintf("kind = \"push\"\ncontact = \"mailto:ops@example.org\"\nkey_file = %q\nallow = [\"127.0.0.1\"]\n",
			file),
		fail: s.fail, seen: s.seen, taken: s.taken,
		begin: func(f *alertFixture) string {
			got, err := f.client().Accounts().SubscribePush(t.Context(),
				api.NewPushSubscription{Endpoint: s.url + "/1", Keys: api.PushKeys{
					P256DH: base64.RawURLEncoding.EncodeToString(browser.PublicKey().Bytes()),
					Auth:   base64.RawURLEncoding.EncodeToString(auth),
				}})
			f.must(err)
			return target.PushPrefix("phone") + got.ID
		},
	}
}

// decryptPush decrypts a message as a browser does (RFC 8291, section 3.4).
func decryptPush(raw []byte, own *ecdh.PrivateKey, auth []byte) ([]byte, error) {
	const head = 16 + 4 + 1 + 65 // salt, record size, length of the key, key
	if len(raw) < head {
		return nil, fmt.Errorf("%d bytes", len(raw))
	}
	sender, err := ecdh.P256().NewPublicKey(raw[21:head])
	if err != nil {
		return nil, err
	}
	shared, err := own.ECDH(sender)
	if err != nil {
		return nil, err
	}
	input, err := hkdf.Key(sha256.New, shared, auth, "WebPush: info\x00"+
		string(own.PublicKey().Bytes())+string(raw[21:head]), sha256.Size)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, input, raw[:16], "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Key(sha256.New, input, raw[:16], "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	text, err := gcm.Open(nil, nonce, raw[head:], nil)
	return bytes.TrimSuffix(bytes.TrimRight(text, "\x00"), []byte{2}), err
}

// alertMoment is a moment at which the server is killed, between a question and the end of its run.
type alertMoment struct {
	when     string
	fault    alerttest.Fault
	messages int                                // that arrive
	repeated int                                // of these
	decide   func(f *alertFixture, m seenAlert) // before the kill; nil: the first decision is after it
}

func alertMoments() []alertMoment {
	return []alertMoment{
		{when: "before the send", fault: alerttest.HoldOpen, messages: 1, repeated: 1}, // the server cannot know that nothing arrived
		{when: "after the send, before its receipt", fault: alerttest.LoseAnswer, messages: 2, repeated: 1},
		{when: "after the receipt", messages: 1},
		{when: "in the decision, before its commit", messages: 1, decide: (*alertFixture).beginToDeny},
		{when: "after the commit of the decision, before its answer", messages: 1, decide: (*alertFixture).denyUnread},
		{when: "after the decision", messages: 1, decide: (*alertFixture).deny},
	}
}

// TestAKilledServerSendsEachQuestion kills the server at each alertMoment, with each kind of target. The
// question is sent, decided once, and the run goes on once. A question that may have arrived before is marked.
func TestAKilledServerSendsEachQuestion(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T, *fixture) place{
		"ntfy": ntfyPlace, "webhook": hookPlace, "push": pushPlace, "email": mailPlace, "chat": chatPlace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var table strings.Builder
			tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
			fmt.Fprintln(tab, "KILLED\tMESSAGES\tMARKED AS REPEATED\tDECISIONS\tRUN RESUMED\tRUN COMPLETED")
			for _, m := range alertMoments() {
				t.Run(m.when, func(t *testing.T) { fmt.Fprintln(tab, m.play(t, start)) })
			}
			if err := tab.Flush(); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", table.String())
		})
	}
}

// play kills the server at the moment, restarts it, decides, and returns a line of the table.
func (m alertMoment) play(t *testing.T, start func(*testing.T, *fixture) place) string {
	f := &alertFixture{fixture: newFixture(t, ""), server: &process{}}
	p := start(t, f.fixture)
	f.configure(fmt.Sprintf(alertConfig, p.config))
	f.process(f.server)
	sender := "alert:phone"
	if p.begin != nil {
		sender = p.begin(f)
	}
	p.fail(m.fault)
	run := f.ask("t")
	platformtest.WaitFor(t, "the question", func() bool { return p.seen() > 0 })
	if m.fault == alerttest.None {
		f.waitEntries(sender, entry.KindCompleted, 1)
	}
	if m.decide != nil {
		m.decide(f, p.taken()[0])
	}
	f.server.kill()
	p.fail(alerttest.None)
	f.process(f.server)
	f.waitEntries(sender, entry.KindCompleted, 1)
	all := p.taken()
	keys, repeated := map[string]bool{}, 0
	for _, a := range all {
		if keys[a.key] = true; a.repeated {
			repeated++
		}
	}
	if len(all) != m.messages || repeated != m.repeated || len(keys) != 1 {
		t.Errorf("%d messages with %d keys, %d of them marked as repeated, want %d, 1 and %d", len(all), len(keys), repeated,
			m.messages, m.repeated)
	}
	for _, a := range all { // whichever the user presses, and then the other
		f.deny(a)
	}
	f.waitRun(run)
	decided, resumed, completed := f.decisions("t"), f.count("t", entry.KindResumed), f.count("t", entry.KindCompleted)
	if decided != 1 || resumed != 1 || completed != 1 {
		t.Errorf("decided %d times by the phone, resumed %d times, completed %d times, want once each", decided,
			resumed, completed)
	}
	if k := f.ticket("t"); *k.Decision != mailroom.VerdictDeny || *k.DecidedBy != "alert:phone" {
		t.Errorf("ticket: %+v", k)
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%d", m.when, len(all), repeated, decided, resumed, completed)
}

func (f *alertFixture) deny(m seenAlert) {
	f.t.Helper()
	if status, answer := f.press(f.denyOf(m)); status != http.StatusOK {
		f.t.Errorf("deny: %d %s", status, answer)
	}
}

func (f *alertFixture) denyOf(m seenAlert) *alerttest.Action {
	f.t.Helper()
	if m.deny == nil {
		f.t.Fatalf("no button in %+v", m)
	}
	return m.deny
}

// beginToDeny sends a press without its body, and returns when the server reads the body.
func (f *alertFixture) beginToDeny(m seenAlert) {
	f.t.Helper()
	r := f.pressRequest(f.denyOf(m))
	conn := f.dial()
	_, err := fmt.Fprintf(conn,
		"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", r.URL.Path, r.URL.Host, r.ContentLength)
	f.must(err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		f.t.Fatalf("the server does not read the body: %q %v", line, err)
	}
}

// denyUnread sends a press, does not read its answer, and returns when the decision is committed.
func (f *alertFixture) denyUnread(m seenAlert) {
	f.t.Helper()
	f.must(f.pressRequest(f.denyOf(m)).Write(f.dial()))
	platformtest.WaitFor(f.t, "the decision", func() bool { return f.decisions("t") == 1 })
}

// dial connects to the server until the end of the test.
func (f *alertFixture) dial() net.Conn {
	f.t.Helper()
	u, err := url.Parse(f.server.url)
	f.must(err)
	conn, err := net.Dial("tcp", u.Host)
	f.must(err)
	f.t.Cleanup(func() { conn.Close() }) // the server was killed
	return conn
}
