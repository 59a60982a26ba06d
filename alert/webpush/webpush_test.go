package webpush

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"mailroom"
)

// The example of RFC 8291, section 5 and appendix A.
const (
	exampleText      = "When I grow up, I want to be a watermelon"
	exampleSender    = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw" // private
	exampleBrowser   = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94" // private
	exampleP256DH    = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	exampleAuth      = "BTBZMqHH6r4Tts7J_aSIgg"
	exampleSalt      = "DGv6ra1nlYgDCS1FRnbzlw"
	exampleEncrypted = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)

func mustDecode(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func example() *Subscription {
	return &Subscription{Endpoint: "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV", P256DH: exampleP256DH,
		Auth: exampleAuth}
}

func TestTheExampleOfTheSpecificationIsEncrypted(t *testing.T) {
	own, err := ecdh.P256().NewPrivateKey(mustDecode(t, exampleSender))
	if err != nil {
		t.Fatal(err)
	}
	got, err := example().encrypt([]byte(exampleText), own, mustDecode(t, exampleSalt), 0)
	if err != nil {
		t.Fatal(err)
	}
	if encode(got) != exampleEncrypted {
		t.Errorf("got\n%s, want\n%s", encode(got), exampleEncrypted)
	}
}

// decrypt reads the body of a request as the browser of the example does.
func decrypt(t *testing.T, body []byte) (text []byte, padding int) {
	t.Helper()
	if len(body) > recordSize || binary.BigEndian.Uint32(body[saltSize:]) != recordSize || body[saltSize+4] != publicSize {
		t.Fatalf("a body of %d bytes with the header %x", len(body), body[:saltSize+5])
	}
	salt, sender, sealed := body[:saltSize], body[saltSize+5:saltSize+5+publicSize], body[saltSize+5+publicSize:]
	own, err := ecdh.P256().NewPrivateKey(mustDecode(t, exampleBrowser))
	if err != nil {
		t.Fatal(err)
	}
	public, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := own.ECDH(public)
	if err != nil {
		t.Fatal(err)
	}
	derive := func(secret, salt []byte, info string, n int) []byte {
		out, err := hkdf.Key(sha256.New, secret, salt, info, n)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	input := derive(shared, mustDecode(t, exampleAuth), "WebPush: info\x00"+string(own.PublicKey().Bytes())+string(sender),
		32)
	block, err := aes.NewCipher(derive(input, salt, "Content-Encoding: aes128gcm\x00", 16))
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	padded, err := gcm.Open(nil, derive(input, salt, "Content-Encoding: nonce\x00", 12), sealed, nil)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.TrimRight(padded, "\x00")
	if len(text) == 0 || text[len(text)-1] != delimiter {
		t.Fatalf("no delimiter at the end of %x", padded)
	}
	return text[:len(text)-1], len(padded) - len(text)
}

func TestTheBrowserReadsWhatIsEncrypted(t *testing.T) {
	lengths := map[int]bool{}
	for _, n := range []int{0, 1, step - 1, step, step + 1, MaxPayload} {
		payload := bytes.Repeat([]byte("x"), n)
		body, err := example().Encrypt(payload)
		if err != nil {
			t.Fatal(err)
		}
		lengths[len(body)] = true
		got, padding := decrypt(t, body)
		if !bytes.Equal(got, payload) || padding < 1 || padding > step {
			t.Errorf("%d bytes: got %d, %d of padding", n, len(got), padding)
		}
	}
	if len(lengths) != 3 {
		t.Errorf("the bodies have the lengths %v, want three: their lengths must tell little", lengths)
	}
	again, err := example().Encrypt([]byte(exampleText))
	if err != nil {
		t.Fatal(err)
	}
	once, err := example().Encrypt([]byte(exampleText))
	if err != nil || bytes.Equal(once[:saltSize+5+publicSize], again[:saltSize+5+publicSize]) {
		t.Errorf("%v: two messages have one salt or one key", err)
	}
	if _, err := example().Encrypt(make([]byte, MaxPayload+1)); err == nil {
		t.Error("a payload above the bound is encrypted")
	}
}

// verify returns the claims of an Authorization header, after it checked the signature (RFC 8292, section 3).
func verify(t *testing.T, authorization string) (header, claims map[string]any) {
	t.Helper()
	rest, vapid := strings.CutPrefix(authorization, "vapid t=")
	token, key, both := strings.Cut(rest, ", k=")
	parts := strings.Split(token, ".")
	if !vapid || !both || len(parts) != 3 {
		t.Fatalf("the header is %q", authorization)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), mustDecode(t, key))
	if err != nil {
		t.Fatal(err)
	}
	signature := mustDecode(t, parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if len(signature) != 64 || !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(signature[:32]),
		new(big.Int).SetBytes(signature[32:])) {
		t.Errorf("the signature is not valid: %s", authorization)
	}
	for i, out := range []*map[string]any{&header, &claims} {
		if err := json.Unmarshal(mustDecode(t, parts[i]), out); err != nil {
			t.Fatal(err)
		}
	}
	return header, claims
}

// The first is the example of RFC 8292, section 2.4: it shows that verify reads the format.
func TestRequestsAreSigned(t *testing.T) {
	header, claims := verify(t,
		"vapid t=eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZS5uZXQiLCJleHAiOjE0NTM1MjM3NjgsInN1YiI6Im1haWx0bzpwdXNoQGV4YW1wbGUuY29tIn0.i3CYb7t4xfxCDquptFOepC9GAu_HLGkMlMuCGSK2rpiUfnK9ojFwDXb1JrErtmysazNjjvW2L9OkSSHzvoD1oA, "+
			"k=BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs")
	if header["alg"] != "ES256" || header["typ"] != "JWT" || claims["sub"] != "mailto:push@example.com" {
		t.Fatalf("the example has %v, %v", header, claims)
	}
	key, err := ParseKey(NewKey())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1453480568, 0)
	for endpoint, origin := range map[string]string{
		"https://push.example.net/push/a?b=c": "https://push.example.net",
		"https://push.example.net:8443/p":     "https://push.example.net:8443",
	} {
		at, err := url.Parse(endpoint)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 { // a number with a leading zero must keep its length
			got, err := key.Authorize(at, "mailto:push@example.com", now)
			if err != nil {
				t.Fatal(err)
			}
			header, claims = verify(t, got)
		}
		if header["alg"] != "ES256" || header["typ"] != "JWT" || len(claims) != 3 || claims["aud"] != origin ||
			claims["exp"] != float64(now.Add(12*time.Hour).Unix()) || claims["sub"] != "mailto:push@example.com" {
			t.Errorf("%s: %v, %v", endpoint, header, claims)
		}
	}
}

func TestKeysAreParsed(t *testing.T) {
	one, two := NewKey(), NewKey()
	if one == two || CheckKey(one) != nil || len(one) != 43 {
		t.Fatalf("new keys: %q, %q", one, two)
	}
	// The scalar and the point of the example of RFC 8291.
	key, err := ParseKey(exampleBrowser)
	if err != nil || key.Public() != exampleP256DH {
		t.Errorf("%v: the public key differs from that of the specification", err)
	}
	order := "_____wAAAAD__________7zm-q2nF56E87nKwvxjJVE"
	for _, bad := range []string{
		"", one + "=", one[:42], one + "A", strings.Repeat("A", 43), order, "!" + one[1:], " " + one,
		strings.Repeat("A", 42) + "B",
		"-----BEGIN PRIVATE KEY-----",
	} {
		if err := CheckKey(bad); err == nil {
			t.Errorf("the key %q is accepted", bad)
		} else if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("the error quotes the key: %v", err)
		}
	}
}

func TestSubscriptionsAreChecked(t *testing.T) {
	with := func(change func(*Subscription)) *Subscription {
		s := example()
		change(s)
		return s
	}
	off := encode(append([]byte{4}, make([]byte, 64)...)) // not on the curve
	for name, e := range map[string]struct {
		s     *Subscription
		field string
		code  mailroom.Code
	}{
		"complete":    {example(), "", ""},
		"with a port": {with(func(s *Subscription) { s.Endpoint = "https://push.example.net:8443/a?b=c" }), "", ""},
		"the longest endpoint": {with(func(s *Subscription) {
			s.Endpoint = "https://a.example/" + strings.Repeat("x", MaxEndpoint-18)
		}), "", ""},
		"longer": {with(func(s *Subscription) {
			s.Endpoint = "https://a.example/" + strings.Repeat("x", MaxEndpoint-17)
		}), "endpoint", mailroom.CodeTooLarge},
		"no endpoint": {with(func(s *Subscription) { s.Endpoint = "" }), "endpoint", mailroom.CodeInvalid},
		"http": {with(func(s *Subscription) {
			s.Endpoint = "http://push.example.net/a"
		}), "endpoint", mailroom.CodeInvalid},
		"another scheme": {with(func(s *Subscription) {
			s.Endpoint = "file:///etc/passwd"
		}), "endpoint", mailroom.CodeInvalid},
		"with a user": {with(func(s *Subscription) {
			s.Endpoint = "https://me:hush@push.example.net/a"
		}), "endpoint", mailroom.CodeInvalid},
		"with a fragment": {with(func(s *Subscription) {
			s.Endpoint = "https://push.example.net/a#b"
		}), "endpoint", mailroom.CodeInvalid},
		"with a line break": {with(func(s *Subscription) {
			s.Endpoint = "https://push.example.net/a\r\nX: y"
		}), "endpoint", mailroom.CodeInvalid},
		"with a space": {with(func(s *Subscription) {
			s.Endpoint = "https://push.example.net/a b"
		}), "endpoint", mailroom.CodeInvalid},
		"of another script": {with(func(s *Subscription) {
			s.Endpoint = "https://püsh.example.net/a"
		}), "endpoint", mailroom.CodeInvalid},
		"no key":        {with(func(s *Subscription) { s.P256DH = "" }), "keys.p256dh", mailroom.CodeInvalid},
		"padded":        {with(func(s *Subscription) { s.P256DH += "=" }), "keys.p256dh", mailroom.CodeInvalid},
		"off the curve": {with(func(s *Subscription) { s.P256DH = off }), "keys.p256dh", mailroom.CodeInvalid},
		"compressed": {with(func(s *Subscription) {
			s.P256DH = encode(append([]byte{2}, make([]byte, 32)...))
		}), "keys.p256dh", mailroom.CodeInvalid},
		"no secret":           {with(func(s *Subscription) { s.Auth = "" }), "keys.auth", mailroom.CodeInvalid},
		"a short secret":      {with(func(s *Subscription) { s.Auth = s.Auth[:20] }), "keys.auth", mailroom.CodeInvalid},
		"of other characters": {with(func(s *Subscription) { s.Auth = "+" + s.Auth[1:] }), "keys.auth", mailroom.CodeInvalid},
		"a long client": {with(func(s *Subscription) {
			s.Client = strings.Repeat("x", MaxClient+1)
		}), "client", mailroom.CodeInvalid},
		"a client with NUL": {with(func(s *Subscription) { s.Client = "a\x00" }), "client", mailroom.CodeInvalid},
	} {
		err := e.s.Check(false)
		if e.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if mailroom.CodeOf(err) != e.code || !strings.HasPrefix(err.Error(), e.field+": ") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %s of %s", name, err, e.code, e.field)
		}
	}
	if err := with(func(s *Subscription) { s.Endpoint = "http://push.example.net/a" }).Check(true); err != nil {
		t.Errorf("insecure: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []any{example(), Subscription{}, map[string]any{"endpoint": "https://a.example", "more": 1},
		[]int{}} {
		raw, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(append(raw, raw...))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Parse(raw, false)
		if err != nil {
			return
		}
		at, err := url.Parse(s.Endpoint)
		if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.User != nil || len(s.Endpoint) > MaxEndpoint {
			t.Errorf("the endpoint %q is accepted", s.Endpoint)
		}
		if _, err := s.Encrypt([]byte("x")); err != nil {
			t.Errorf("an accepted subscription cannot be used: %v", err)
		}
	})
}

// Keys that a browser makes are accepted.
func TestNewBrowsersAreAccepted(t *testing.T) {
	for range 20 {
		key, err := ecdh.P256().GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		s := example()
		s.P256DH = encode(key.PublicKey().Bytes())
		if err := s.Check(false); err != nil || len(s.P256DH) != KeyChars || len(s.Auth) != AuthChars {
			t.Errorf("%v: keys of %d and %d characters", err, len(s.P256DH), len(s.Auth))
		}
	}
}
