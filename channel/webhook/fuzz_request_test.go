package webhook_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom/api"
	"mailroom/channel/platformtest"
	"mailroom/channel/webhook"
	"mailroom/store"
)

// FuzzRequest sends whole requests over HTTP: path, headers, signature and body. Only a request
// with a current signature of the channel's secret is accepted. Any other gets a problem with a
// code and writes nothing. No request causes a panic, and the next one is accepted.
func FuzzRequest(f *testing.F) {
	said := platformtest.WebhookMessage("r", "ann", "hi")
	tap := `{"kind":"tap","room":"r","user":{"id":"ann"},"of":"m","data":"approve 1 2"}`
	for i, body := range []string{
		said, tap, `{"kind":"edit","room":"r","user":{"id":"ann"},"text":"hi","of":"1"}`,
		`{"kind":"delete","room":"r","of":"1"}`,
		`{"room":"r","user":{"id":"ann"},"files":[{"uri":"https://a/b","size":1}]}`, `{"room":"r","room":"s"}`,
		`{"room":"\ud800"}`,
		`[]`, `null`, ``, `{`, strings.Repeat("[", 1000), "\xff", `{"room":"r","user":{"id":"ann"},"text":"\u0000"}`,
	} {
		f.Add("ops", strconv.Itoa(i), int64(0), "", true, "X-Other", "a", []byte(body))
		f.Add("ops", strconv.Itoa(i), int64(0), "v1,AAAA v1a,", false, "Content-Type", "text/plain", []byte(body))
	}
	f.Add("down", "1", int64(0), "", true, "Content-Encoding", "gzip", []byte(said))
	f.Add("none", "a.b", int64(301), "", true, "Idempotency-Key", "k", []byte(said))
	f.Add("ops", "é", int64(-301), "", true, "Webhook-Id", "2", []byte(said))
	f.Add("ops", "", int64(0), "v1,"+strings.Repeat("A", 44), false, "Host", "elsewhere", []byte(said))
	f.Add("../messages", "1", int64(0), "", true, "Origin", "https://elsewhere", []byte(said))
	f.Fuzz(func(t *testing.T, channel, id string, skew int64, signature string, signed bool, name, value string,
		body []byte) {
		o := newFixture(t).start()
		at := strconv.FormatInt(time.Now().Unix()+skew, 10)
		if signed {
			signature = platformtest.SignWebhook(platformtest.WebhookKey, id, at, body)
		}
		a, err := o.program.Post(url.PathEscape(channel), "1", string(body), func(r *http.Request) {
			r.Header.Set("webhook-id", id)
			r.Header.Set("webhook-timestamp", at)
			r.Header.Set("webhook-signature", signature)
			r.Header.Set(name, value)
		})
		if err != nil {
			return // the HTTP client refuses the header
		}
		var accepted webhook.Accepted
		var p api.Problem
		switch {
		case a.Code == http.StatusAccepted:
			if err := json.Unmarshal([]byte(a.Body), &accepted); err != nil || !signed || channel != "ops" || skew > 600 ||
				skew < -600 {
				t.Errorf("accepted a request signed %v for %q, %d s from now: %s, %v", signed, channel, skew, a.Body, err)
			}
		case a.Code >= 500 && a.Code != http.StatusServiceUnavailable || a.Code < 400:
			t.Errorf("response to %q: %d %s", body, a.Code, a.Body)
		case json.Unmarshal([]byte(a.Body), &p) != nil || p.Code == "" || p.Status != a.Code:
			t.Errorf("response to %q: %d without a problem: %.200s", body, a.Code, a.Body)
		}
		if n := o.countRuns(store.RunQuery{}); n > 0 && a.Code != http.StatusAccepted {
			t.Errorf("response to %q: %d, but it created %d runs", body, a.Code, n)
		}
		o.post("next", said, http.StatusAccepted)
		if log := o.logs.String(); strings.Contains(log, "panic") {
			t.Errorf("%q panics: %s", body, log)
		}
	})
}
