package target_test

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mailroom"
	"mailroom/alert"
	"mailroom/alert/target"
	"mailroom/alert/webpush"
	"mailroom/internal/machinetest"
	"mailroom/internal/netguard"
	"mailroom/internal/setting"
)

var _ alert.Spreader = (*target.Push)(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func loopback() netip.Prefix { return netip.MustParsePrefix("127.0.0.0/8") }

// newTarget returns a target that may connect to this machine.
func newTarget(t *testing.T, change ...func(*target.PushOptions)) *target.Push {
	t.Helper()
	key := webpush.NewKey()
	o := target.PushOptions{Name: "browsers", Contact: "mailto:ops@example.org", Key: func() (string, error) {
		return key, nil
	}}
	o.Address.Allow(loopback())
	for _, c := range change {
		c(&o)
	}
	out, err := target.OpenPush(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.CloseIdleConnections)
	return out
}

// subscription returns a new browser's subscription at an endpoint.
func subscription(t *testing.T, endpoint string) webpush.Subscription {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return webpush.Subscription{
		Endpoint: endpoint, P256DH: base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()),
		Auth: base64.RawURLEncoding.EncodeToString(make([]byte, 16)), By: "operator", CreatedAt: time.Unix(1, 0).UTC(),
	}
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// service is a push service. It answers each request with handle.
func service(t *testing.T, handle http.HandlerFunc) (endpoint string) {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.URL + "/push/capability"
}

func message(to json.RawMessage) alert.Message {
	return alert.Message{
		Key: "0123456789abcdef0123456789abcdef", Kind: alert.KindTicket, Title: "deploy asks", Body: "Deploy <b>now</b>?",
		URL:    "https://mail.example.org/decide#x",
		Urgent: true, To: to,
		Buttons: []alert.Button{{Label: "Approve", URL: "https://mail.example.org/v1/question/decision",
			Body: `{"link":"x","decision":"approve"}`}},
	}
}

func TestAMessageIsSentAsRFC8030Requires(t *testing.T) {
	var got *http.Request
	var body []byte
	endpoint := service(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		w.Header().Set("Location", "https://push.example.net/message/1")
		w.WriteHeader(http.StatusCreated)
	})
	to := newTarget(t)
	public, err := to.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	topics := map[string]bool{}
	for _, urgent := range []bool{true, false} {
		m := message(encode(t, subscription(t, endpoint)))
		m.Urgent = urgent
		receipt, err := to.Send(t.Context(), m)
		if err != nil || receipt != "" { // the address of the message lets its holder cancel it
			t.Fatalf("receipt %q, %v", receipt, err)
		}
		h := got.Header
		topics[h.Get("Topic")] = true
		want := map[bool]string{true: "high", false: "normal"}[urgent]
		if got.Method != http.MethodPost || got.URL.Path != "/push/capability" || h.Get("Ttl") != "86400" ||
			h.Get("Urgency") != want || h.Get("Content-Encoding") != "aes128gcm" ||
			!strings.HasPrefix(h.Get("Authorization"), "vapid t=ey") ||
			!strings.HasSuffix(h.Get("Authorization"), ", k="+public) {
			t.Errorf("the request is %s %s with %v", got.Method, got.URL, h)
		}
		if len(body) > 4096 || len(body) < 500 || strings.Contains(string(body), "Deploy") {
			t.Errorf("a body of %d bytes", len(body))
		}
	}
	if len(topics) != 1 || topics[""] {
		t.Errorf("the topics of one message are %v", topics)
	}
	for topic := range topics {
		if len(topic) != 32 || strings.ContainsFunc(topic, func(r rune) bool {
			return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", r)
		}) {
			t.Errorf("the topic is %q", topic)
		}
	}
}

func TestAnswersAreClassified(t *testing.T) {
	for status, want := range map[int]struct {
		class   mailroom.Class
		unknown bool
		gone    bool
		after   time.Duration
		text    string
	}{
		404: {class: mailroom.ClassPermanent, gone: true}, 410: {class: mailroom.ClassPermanent, gone: true},
		400: {class: mailroom.ClassPermanent}, 413: {class: mailroom.ClassPermanent},
		307: {class: mailroom.ClassPermanent, text: "redirects are not followed"},
		401: {class: mailroom.ClassPermanent, text: "another key"},
		403: {class: mailroom.ClassPermanent, text: "another key"},
		429: {class: mailroom.ClassUnavailable, after: 7 * time.Second},
		503: {class: mailroom.ClassUnavailable, after: 7 * time.Second},
		500: {class: mailroom.ClassUnavailable, unknown: true, after: 7 * time.Second},
		502: {class: mailroom.ClassUnavailable, unknown: true, after: 7 * time.Second},
	} {
		s := subscription(t, "")
		s.Endpoint = service(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/other")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "no: "+s.Endpoint+" "+r.Header.Get("Authorization")) // a lost text changes nothing
		})
		_, err := newTarget(t).Send(t.Context(), message(encode(t, s)))
		f := mailroom.AsFailure(err)
		switch {
		case err == nil, f.Class != want.class, errors.Is(err, alert.ErrGone) != want.gone,
			errors.Is(err, mailroom.ErrUnknown) != want.unknown, !strings.Contains(err.Error(), want.text):
			t.Errorf("%d: %v, class %v", status, err, f.Class)
		case want.after != 0 && f.RetryAfter != want.after:
			t.Errorf("%d: the pause is %s", status, f.RetryAfter)
		case strings.Contains(err.Error(), "capability"), strings.Contains(err.Error(), "vapid t="):
			t.Errorf("%d: the error quotes a secret: %v", status, err)
		}
	}
}

func TestALostAnswerOfThePushServiceIsAnUnknownOutcome(t *testing.T) {
	endpoint := service(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, err := newTarget(t).Send(t.Context(), message(encode(t, subscription(t, endpoint))))
	if !errors.Is(err, mailroom.ErrUnknown) || mailroom.AsFailure(err).Class != mailroom.ClassUnavailable {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hangs := service(t, func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		cancel()
		<-r.Context().Done()
	})
	if _, err := newTarget(t).Send(ctx, message(encode(t, subscription(t, hangs)))); !errors.Is(err, mailroom.ErrUnknown) {
		t.Errorf("cancelled: %v", err)
	}
	_, err = newTarget(t).Send(t.Context(), message(encode(t, subscription(t, "http://"+machinetest.Reserve(t)+"/"))))
	if errors.Is(err, mailroom.ErrUnknown) || mailroom.AsFailure(err).Class != mailroom.ClassUnavailable {
		t.Errorf("not connected: %v", err)
	}
}

func TestTheAddressOfAMessageIsInNoLog(t *testing.T) {
	for _, location := range []string{"", "https://push.example.net/message/1", "https://push.example.net/" +
		strings.Repeat("x", 100), "/a b"} {
		endpoint := service(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusAccepted)
		})
		if receipt, err := newTarget(t).Send(t.Context(), message(encode(t, subscription(t, endpoint)))); err != nil ||
			receipt != "" {
			t.Errorf("%q: receipt %q, %v", location, receipt, err)
		}
	}
}

// The endpoint comes from a browser: it must not lead to the networks of the server.
func TestOnlyPublicAddressesAreConnectedTo(t *testing.T) {
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	public := func(o *target.PushOptions) { o.Address = target.Address{} }
	for _, endpoint := range []string{
		s.URL, "https://127.0.0.1:" + port, "https://localhost:" + port, "https://[::1]:" + port, "https://10.0.0.1/",
		"https://169.254.169.254/latest/meta-data",
		"https://192.168.1.1/", "https://100.100.100.200/", "https://[::ffff:127.0.0.1]:" + port, "https://0.0.0.0:" + port,
	} {
		to := newTarget(t, public)
		b := subscription(t, endpoint)
		if err := to.Check(&b); mailroom.CodeOf(err) != mailroom.CodeInvalid ||
			!strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s is accepted: %v", endpoint, err)
		}
		if _, err := to.Send(t.Context(), message(encode(t, b))); mailroom.AsFailure(err).Class != mailroom.ClassPermanent {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	// A name is accepted, and its address is checked when it is connected to.
	to := newTarget(t, public, func(o *target.PushOptions) {
		o.Address.Resolve(machinetest.Resolver(t, [4]byte{127, 0, 0, 1}))
	})
	b := subscription(t, "https://push.example.org:"+port+"/")
	if err := to.Check(&b); err != nil {
		t.Errorf("a name: %v", err)
	}
	_, err = to.Send(t.Context(), message(encode(t, b)))
	if err == nil || !strings.Contains(err.Error(), netguard.ErrRefused.Error()) {
		t.Errorf("a name of this machine: %v", err)
	}
	if n := conns.Load(); n != 0 {
		t.Errorf("%d connections to this machine", n)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	other := service(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	endpoint := service(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other, http.StatusTemporaryRedirect)
	})
	if _, err := newTarget(t).Send(t.Context(),
		message(encode(t, subscription(t, endpoint)))); mailroom.AsFailure(err).Class != mailroom.ClassPermanent {
		t.Errorf("got %v", err)
	}
}

// The metadata of a thread may have been changed by an operator.
func TestPushSendsNothingToAThreadWithoutAValidSubscription(t *testing.T) {
	bad := subscription(t, "https://push.example.org/")
	bad.Auth = "short"
	for name, to := range map[string]json.RawMessage{
		"nothing": nil, "null": json.RawMessage("null"), "an object": json.RawMessage("{}"),
		"text":          json.RawMessage(`"https://push.example.org/"`),
		"another field": json.RawMessage(`{"endpoint":"https://push.example.org/","method":"GET"}`),
		"a bad key":     encode(t, bad),
		"http":          encode(t, subscription(t, "http://push.example.org/")),
	} {
		if _, err := newTarget(t).Send(t.Context(), message(to)); mailroom.AsFailure(err).Class != mailroom.ClassPermanent ||
			errors.Is(err, alert.ErrGone) != (to == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAlertsWaitWhileAPushTargetHasNoKey(t *testing.T) {
	for name, key := range map[string]func() (string, error){
		"none": func() (string, error) { return "", errors.New("missing token") }, "a wrong one": func() (string, error) {
			return "x", nil
		},
	} {
		to := newTarget(t, func(o *target.PushOptions) { o.Key = key })
		if _, err := to.Send(t.Context(),
			message(encode(t, subscription(t, "https://push.example.org/")))); mailroom.AsFailure(
			err).Class != mailroom.ClassUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		if public, err := to.PublicKey(); err == nil {
			t.Errorf("%s: the public key is %q", name, public)
		}
	}
}

func TestTheSettingsAreChecked(t *testing.T) {
	for contact, good := range map[string]bool{
		"mailto:ops@example.org": true, "https://example.org/contact": true, "": false, "ops@example.org": false,
		"mailto:": false, "mailto:ops": false,
		"mailto:ops@localhost": false, "mailto:me@host.local": false, "https://localhost": false, "https://192.0.2.1/": false,
		"https://[2001:db8::1]/":  false,
		"mailto:ops@example.org.": false, "https://box.lan/me": false, "https://Mail.Example.ORG": true,
		"mailto:ops@mail.internal":     false,
		"mailto:Ops <ops@example.org>": false, "http://example.org": false, "https://": false,
		"https://me:hush@example.org": false, "mailto:ops@example.org?subject=x": false,
		"mailto:" + strings.Repeat("x", 200) + "@example.org": false,
	} {
		s := target.NewPush().New()
		err := set(s.Keys, map[string]any{"contact": contact, "key_env": "KEY"})
		if err == nil {
			_, err = s.Open("browsers")
		}
		if (err == nil) != good {
			t.Errorf("contact %q: %v", contact, err)
		}
	}
	s := target.NewPush().New()
	if err := set(s.Keys, map[string]any{"contact": "mailto:ops@example.org"}); err == nil ||
		!strings.Contains(err.Error(), "key_env or key_file") {
		t.Errorf("without a key: %v", err)
	}
	if err := set(s.Keys, map[string]any{"contact": "mailto:ops@example.org", "key_env": "KEY",
		"allow": []string{"10.0.0.0/8"}, "insecure": true}); err != nil {
		t.Fatal(err)
	}
	opened, err := s.Open("browsers")
	if err != nil {
		t.Fatal(err)
	}
	to := opened.(*target.Push)
	b := subscription(t, "http://10.1.2.3/")
	if err := to.Check(&b); err != nil || to.Name() != "browsers" || to.Subscribers() != "alert:browsers:push:" {
		t.Errorf("%v, %q, %q", err, to.Name(), to.Subscribers())
	}
}

// set sets values as the configuration does.
func set(keys []setting.Setting, values map[string]any) error {
	for _, k := range keys {
		if v, ok := values[k.Key]; ok {
			if err := k.Value.Set(v); err != nil {
				return err
			}
		}
	}
	return setting.CheckRequired(keys)
}
