package httpcall

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestTheSignatureMatchesTheSpecification uses an example signed with OpenSSL.
func TestTheSignatureMatchesTheSpecification(t *testing.T) {
	keys, err := ParseSecrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const at = 1614265330
	body := []byte(`{"test": 2432232314}`)
	h := http.Header{}
	h.Set("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	h.Set("Webhook-Timestamp", "1614265330")
	h.Set("Webhook-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	for seconds, good := range map[int64]bool{at: true, at + 300: true, at - 300: true, at + 301: false, at - 301: false} {
		id, err := keys.Verify(h, body, time.Unix(seconds, 0))
		if (err == nil) != good || good && id != "msg_p5jXN8AQM9LWM0D4loKWxJek" {
			t.Errorf("%d s later: %q, %v", seconds-at, id, err)
		}
	}
}

func TestSignedRequestsAreVerified(t *testing.T) {
	one, two := NewSecret(), NewSecret()
	if one == two || CheckSecret(one) != nil || !strings.HasPrefix(one, "whsec_") {
		t.Fatalf("new secrets: %q, %q", one, two)
	}
	both, err := ParseSecrets(one + "\n" + two)
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	both.Sign(h, "id", []byte("body"))
	for _, keys := range []Secrets{both, both[:1], both[1:]} {
		if id, err := keys.Verify(h, []byte("body"), time.Now()); id != "id" || err != nil {
			t.Errorf("%d secrets: %q, %v", len(keys), id, err)
		}
		if id, err := keys.Verify(h, []byte("Body"), time.Now()); id != "" || err == nil {
			t.Errorf("another body: %q, %v", id, err)
		}
	}
}
