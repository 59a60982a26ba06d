package mail

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// FuzzAnswer checks that every response has one of four verdicts, and that its message is a short
// line without the token.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `null`, `{"id":`, "<html>\x1b[31m",
		`{"error":"f is reserved by bob","holder":"bob","expires_at":"2031-02-03T04:05:06Z"}`,
		`{"error":"no t0ken for you"}`, `{"error":{"code":1},"holder":7}`, "\xff",
	} {
		for _, status := range []int{200, 201, 204, 301, 400, 401, 404, 409, 422, 429, 500, 999} {
			f.Add(status, body, "7", true)
		}
	}
	f.Add(429, "", "Fri, 31 Dec 2999 23:59:59 GMT", false)
	b := &Client{settings: Settings{Token: "t0ken", Agent: "ann", Timeout: time.Second}}
	f.Fuzz(func(t *testing.T, status int, body, retry string, reserves bool) {
		r := Call{Key: "k"}.request()
		if reserves {
			r = b.reservation("x-1")
		}
		got := b.classify(r, &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {retry}}}, []byte(body))
		said := got.reason
		switch got.verdict {
		case verdictDone:
			if status < 200 || status > 299 || status != 204 && !json.Valid([]byte(body)) {
				t.Errorf("response %d %q counts as a success", status, body)
			}
		case verdictHeld:
			if status != 409 || !reserves || got.holder == nil || got.holder.By == "" {
				t.Fatalf("response %d %q: reservation of %v", status, body, got.holder)
			}
			said = got.holder.Error()
		case verdictRefused:
			if status < 400 || status > 499 {
				t.Errorf("response %d counts as a refusal", status)
			}
		case verdictFailed:
			if status == 400 || status == 409 {
				t.Errorf("response %d starts a backoff", status)
			}
			s := &server{}
			now := time.Now()
			s.startBackoff(said, got.retry, now)
			if on := s.activeBackoff(now).Until.Sub(now); on < defaultBackoff || on > maxBackoff {
				t.Errorf("Retry-After %q starts a backoff of %s", retry, on)
			}
		}
		if got.verdict != verdictDone && said == "" || strings.Contains(said, "t0ken") ||
			utf8.RuneCountInString(said) > maxQuote+100 ||
			strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(said) {
			t.Errorf("response %d %q: message %q", status, body, said)
		}
	})
}

// FuzzFile checks that a command works with any state file, and warns if it had to replace it.
func FuzzFile(f *testing.F) {
	const digest = "0123"
	for _, text := range []string{
		``, `null`, `[]`, `{"servers":null}`, `{"servers":{"0123":null}}`,
		`{"servers":{"0123":{"kept":[null,{"release":"x"}],"holds":{"ann x-1":null}}}}`,
		`{"servers":{"0123":{"silence":{"until":"2031-02-03T04:05:06Z"},"sender":{},"holds":{"ann x-1":[{}]}},"":{}}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := stateFile{t.TempDir()}
		if err := os.WriteFile(filepath.Join(p.folder, fileState), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := p.update(t.Context(), func(all *state) bool {
			s := all.Servers[digest]
			if s == nil {
				s = &server{}
				all.Servers[digest] = s
			}
			now := time.Now()
			s.activeBackoff(now)
			s.busy("c", now)
			s.addHold("ann", "x-1", "c", now)
			s.removeHold("ann", "x-1", "c")
			s.enqueue(Call{Issue: "x-1", Agent: "ann", At: now})
			s.Changed = now
			return true
		})
		if err != nil && !errors.Is(err, errCorrupt) {
			t.Fatalf("%q: %v", text, err)
		}
		after, err := p.read()
		if err != nil || after.Servers[digest] == nil || len(after.Servers[digest].Queued) == 0 {
			t.Errorf("%q: after a change the state is %+v, %v", text, after, err)
		}
	})
}
