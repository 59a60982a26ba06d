package mail

import (
	"bytes"
	"html"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mailroom/alert"
	"mailroom/internal/display"
)

const key = "0123456789abcdef0123456789abcdef"

// letter is a composed message as a mail program reads it.
type letter struct {
	raw, subject, text, html string
	header                   netmail.Header
}

func compose(t *testing.T, m alert.Message) letter {
	t.Helper()
	target, err := New(Options{Server: "smtp.example.org", TLS: TLSRequired, From: "Mailroom Ä <alerts@mail.example.org>",
		To: []string{"ops@example.org", "Zoë <zoe@example.org>"}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := target.compose(m, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return parseLetter(t, raw)
}

func parseLetter(t *testing.T, raw []byte) letter {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	l := letter{raw: string(raw), header: m.Header}
	if l.subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		t.Fatal(err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("Content-Type %q: %v", m.Header.Get("Content-Type"), err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	for _, part := range []struct {
		kind string
		to   *string
	}{{"text/plain", &l.text}, {"text/html", &l.html}} {
		p, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Header.Get("Content-Type"); got != part.kind+"; charset=UTF-8" {
			t.Errorf("part %q, want %s", got, part.kind)
		}
		*part.to = strings.ReplaceAll(string(body), "\r\n", "\n")
	}
	if _, err := parts.NextPart(); err != io.EOF {
		t.Errorf("a third part, or %v", err)
	}
	return l
}

func TestAMessageHasATextAndAnHTMLPart(t *testing.T) {
	l := compose(t, alert.Message{
		Key: key, Title: "coder asks for an approval", Body: "rm -rf /tmp/x\n  {\"force\": true}",
		URL: "https://mail.example.org/decide#abc.def",
		Buttons: []alert.Button{{Label: "Approve", URL: "https://mail.example.org/v1/question/decision", Body: "{}"},
			{Label: "Deny"}},
	})
	for name, want := range map[string]string{
		"From":    "=?utf-8?q?Mailroom_=C3=84?= <alerts@mail.example.org>",
		"To":      "<ops@example.org>, =?utf-8?q?Zo=C3=AB?= <zoe@example.org>",
		"Subject": "coder asks for an approval", "Message-Id": "<" + key + "@mail.example.org>",
		"Date": "Wed, 04 Mar 2026 05:06:07 +0000", "Auto-Submitted": "auto-generated",
	} {
		if got := l.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if want := "coder asks for an approval\n\nrm -rf /tmp/x\n  {\"force\": true}\n\nApprove or Deny on the page:\nhttps://mail.example.org/decide#abc.def\n"; l.text != want {
		t.Errorf("text\n%s\nwant\n%s", l.text, want)
	}
	for _, want := range []string{
		"<h1 style=\"font-size:1.2em\">coder asks for an approval</h1>", ">rm -rf /tmp/x\n  {&#34;force&#34;: true}</pre>",
		"<p>Approve or Deny on the page:</p>", `<a href="https://mail.example.org/decide#abc.def" style=`, ">Open</a>",
	} {
		if !strings.Contains(l.html, want) {
			t.Errorf("the HTML has no %q:\n%s", want, l.html)
		}
	}
}

func TestNoLinkOfAMessageDecides(t *testing.T) {
	l := compose(t, alert.Message{
		Key: key, Title: "coder asks for an approval", URL: "https://mail.example.org/decide#abc",
		Buttons: []alert.Button{{Label: "Approve", URL: "https://mail.example.org/v1/question/decision",
			Body: `{"decision":"approve"}`}},
	})
	for name, part := range map[string]string{"text": l.text, "HTML": l.html} {
		if strings.Contains(part, "question/decision") || strings.Count(part, "https://") != 1 {
			t.Errorf("the %s has another link than the page:\n%s", name, part)
		}
	}
}

func TestAMessageWithoutBodyAndAddressHasATitleOnly(t *testing.T) {
	l := compose(t, alert.Message{Key: key, Title: "Channel irc is not connected",
		Buttons: []alert.Button{{Label: "Approve"}}})
	if l.text != "Channel irc is not connected\n" {
		t.Errorf("text %q", l.text)
	}
	for _, absent := range []string{"<pre", "<a", "Approve"} {
		if strings.Contains(l.html, absent) {
			t.Errorf("the HTML has %s:\n%s", absent, l.html)
		}
	}
}

func TestARepeatedMessageSaysSoAndHasTheSameID(t *testing.T) {
	m := alert.Message{Key: key, Title: "coder failed"}
	first := compose(t, m)
	m.Repeated = true
	again := compose(t, m)
	if again.subject != "(repeated) coder failed" || !strings.HasPrefix(again.text, "(repeated) coder failed\n") {
		t.Errorf("subject %q, text %q", again.subject, again.text)
	}
	if a, b := first.header.Get("Message-Id"), again.header.Get("Message-Id"); a != b {
		t.Errorf("the ids %s and %s", a, b)
	}
}

func TestHostileTitlesAddNoHeader(t *testing.T) {
	for title, want := range map[string]string{
		"x\r\nBcc: evil@example.org":              "x Bcc: evil@example.org",
		"x\nBcc: evil@example.org\r\n\r\n<b>body": "x Bcc: evil@example.org <b>body",
		"x\rBcc: evil@example.org":                "x Bcc: evil@example.org",
		"Grüße an 世界 🚀":                           "Grüße an 世界 🚀",
		"=?utf-8?q?a=0D=0ABcc:_b?=":               "= ?utf-8?q?a=0D=0ABcc:_b?=",
		"ö =?utf-8?b?eA==?=":                      "ö = ?utf-8?b?eA== ?=",
		"a\x00b\u202ec":                           "a⟦U+0000⟧b⟦U+202E⟧c",
		strings.Repeat("x", 5000):                 display.Cut(strings.Repeat("x", 5000), alert.MaxTitle),
		strings.Repeat("世", 5000):                 display.Cut(strings.Repeat("世", 5000), alert.MaxTitle),
		"":                                        "",
	} {
		l := compose(t, alert.Message{Key: key, Title: title, Body: title})
		if l.subject != want {
			t.Errorf("%q: the subject is %q, want %q", title, l.subject, want)
		}
		checkHeader(t, l)
	}
}

// checkHeader checks that a message has the headers of every message, in lines that servers accept
// (RFC 5322, section 2.1.1).
func checkHeader(t *testing.T, l letter) {
	t.Helper()
	want := []string{"Auto-Submitted", "Content-Type", "Date", "From", "Message-Id", "Mime-Version", "Subject", "To"}
	if got := slices.Sorted(maps.Keys(l.header)); !slices.Equal(got, want) {
		t.Errorf("headers %q, want %q", got, want)
	}
	for _, values := range l.header {
		if len(values) != 1 {
			t.Errorf("a header has %d values: %q", len(values), values)
		}
	}
	for line := range strings.SplitSeq(l.raw, "\r\n") {
		if len(line) > 998 || strings.ContainsAny(line, "\r\n\x00") || !isASCII(line) {
			t.Errorf("line %q", line)
		}
	}
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' }) }

func TestHostileTextsAreNoHTML(t *testing.T) {
	const hostile = `</pre></h1><script>alert(1)</script><img src="https://evil.example/x.png" onerror=x> & {{.URL}} "`
	l := compose(t, alert.Message{
		Key: key, Title: hostile, Body: hostile, URL: `https://mail.example.org/#/x" onclick="y`,
		Buttons: []alert.Button{{Label: hostile}},
	})
	for _, absent := range []string{"<script", "<img", `" onclick=`} {
		if strings.Contains(l.html, absent) {
			t.Errorf("the HTML has %s:\n%s", absent, l.html)
		}
	}
	if got := strings.Count(html.UnescapeString(l.html), hostile); got < 3 {
		t.Errorf("the text is shown %d times:\n%s", got, l.html)
	}
	if !strings.Contains(l.text, hostile) {
		t.Errorf("text %q", l.text)
	}
	script := compose(t, alert.Message{Key: key, Title: "x", URL: "javascript:alert(1)"})
	if strings.Contains(script.html, "javascript:") {
		t.Errorf("a link runs a script:\n%s", script.html)
	}
}

func FuzzMessagesKeepTheirHeaders(f *testing.F) {
	f.Add("title", "body", "https://example.org/", "Approve")
	f.Add("a\r\nBcc: x@y", "\r\n.\r\n--boundary", "\r\n", "\r\n\r\n")
	f.Add("=?utf-8?q?=0A?=", "=?", "x\" y", "<b>")
	f.Fuzz(func(t *testing.T, title, body, url, label string) {
		if !utf8.ValidString(title + body + url + label) {
			t.Skip("texts of alerts are valid UTF-8")
		}
		l := compose(t, alert.Message{Key: key, Title: title, Body: body, URL: url, Buttons: []alert.Button{{Label: label}}})
		checkHeader(t, l)
		if want := display.Cut(display.Line(title), alert.MaxTitle); !slices.Equal(strings.Fields(l.subject),
			strings.Fields(strings.ReplaceAll(want, "=?", "= ?"))) {
			t.Errorf("the subject is %q, want %q", l.subject, want)
		}
	})
}
