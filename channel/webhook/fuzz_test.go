package webhook

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
)

// FuzzBody checks that a parsed event is complete and within its limits, and that a rejected body
// has an error code.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{"room":"r","user":{"id":"u","name":"U"},"text":"hi"}`,
		`{"kind":"edit","room":"r","topic":"t","user":{"id":"u"},"text":"hi","of":"m"}`,
		`{"kind":"delete","room":"r","of":"m"}`, `{"kind":"tap","room":"r","user":{"id":"u"},"of":"m","data":"approve 1 2"}`,
		`{"room":"r","group":true,"addressed":false,"user":{"id":"u"},"files":[{"uri":"https://a/b","size":1}]}`,
		`{"room":7}`, `{"room":"r","user":[]}`, `[]`, `null`, ``, `{"room":"\u0000"}`, "{\"room\":\"\xff\"}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := parseEvent("id", body)
		if err != nil {
			if mailroom.CodeOf(err) != mailroom.CodeInvalid || err.Error() == "" {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		switch {
		case e.Key != "id" || e.Position != "id" || e.Room.Chat == "":
			t.Errorf("%q is parsed as %+v", body, e)
		case e.Kind != chat.EventDeleted && e.User.ID == "", e.Kind != chat.EventMessage && e.TargetID == "",
			e.Kind == chat.EventButton && e.Data == "":
			t.Errorf("%q is parsed as %+v", body, e)
		}
		for _, name := range []string{e.Room.Chat, e.Room.Topic, e.User.ID, e.User.Name, e.TargetID, e.Data} {
			if len(name) > maxName || strings.ContainsRune(name, 0) {
				t.Errorf("%q contains the name %q", body, name)
			}
		}
		for _, file := range e.Files {
			if file.Open != nil || !strings.HasPrefix(strings.ToLower(file.URI), "http") {
				t.Errorf("%q has the file %+v", body, file)
			}
		}
	})
}

// TestAnInboundKeepsItsBounds exceeds each limit of the API description by one.
func TestAnInboundKeepsItsBounds(t *testing.T) {
	const (
		said = `{"room":"r","user":{"id":"u"},"text":"hi",%s}`
		tap  = `{"kind":"tap","room":"r","user":{"id":"u"},%s}`
		file = `"files":[{"uri":"https://a/b",%s}]`
	)
	for field, most := range fieldLimits() {
		name := field[strings.IndexByte(field, '.')+1:]
		value := `"` + name + `":"` + strings.Repeat("x", most+1) + `"`
		body := fmt.Sprintf(said, value)
		switch {
		case name == "files":
			body = fmt.Sprintf(said, `"files":[`+strings.Repeat(`{"uri":"https://a/b"},`, most)+`{"uri":"https://a/b"}]`)
		case field == "File.uri":
			body = fmt.Sprintf(said, `"files":[{"uri":"https://a/`+strings.Repeat("x", most)+`"}]`)
		case strings.HasPrefix(field, "File."):
			body = fmt.Sprintf(said, fmt.Sprintf(file, value))
		case strings.HasPrefix(field, "User."):
			body = `{"room":"r","text":"hi","user":{"id":"u",` + value + `}}`
		case name == "of":
			body = fmt.Sprintf(tap, `"data":"d",`+value)
		case name == "data":
			body = fmt.Sprintf(tap, `"of":"m",`+value)
		}
		if _, err := parseEvent("id", []byte(body)); mailroom.CodeOf(err) != mailroom.CodeInvalid ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s of more than %d: %v", field, most, err)
		}
	}
	if _, err := parseEvent("id",
		[]byte(`{"room":"r","user":{"id":"u"},"files":[{"uri":"https://a/b","size":9007199254740992}]}`)); mailroom.CodeOf(
		err) != mailroom.CodeInvalid {
		t.Errorf("a file of 2^53 bytes: %v", err)
	}
}

// FuzzSignature checks that no forged signature is accepted.
func FuzzSignature(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	f.Add("msg_1", "1800000000", "v1,AAAA", []byte("{}"))
	f.Add("a.b", "1800000000", "v1, v1a,", []byte(""))
	f.Add("", "-1", "v1,"+strings.Repeat("A", 44), []byte("x"))
	f.Fuzz(func(t *testing.T, id, at, signature string, body []byte) {
		h := http.Header{}
		h.Set(httpcall.HeaderID, id)
		h.Set(httpcall.HeaderTimestamp, at)
		h.Set(httpcall.HeaderSignature, signature)
		keys, err := httpcall.ParseSecrets(httpcall.NewSecret())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := keys.Verify(h, body, now); err == nil || got != "" ||
			mailroom.CodeOf(err) != mailroom.CodeUnauthenticated {
			t.Errorf("%q, %v", got, err)
		}
	})
}
