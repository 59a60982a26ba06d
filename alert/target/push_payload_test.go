package target

import (
	"encoding/json"
	"strings"
	"testing"

	"mailroom/alert"
	"mailroom/alert/webpush"
)

func TestAPayloadIsBounded(t *testing.T) {
	link := strings.Repeat("l", alert.MaxLink)
	long := func(char string) alert.Message {
		m := alert.Message{Key: strings.Repeat("k", 36), Title: strings.Repeat(char, alert.MaxTitle),
			Body: strings.Repeat(char, pushMaxBody), URL: "https://mail.example.org/decide#" + link}
		for _, label := range []string{"Approve", "Deny"} {
			m.Buttons = append(m.Buttons, alert.Button{Label: label, URL: "https://mail.example.org/v1/question/decision",
				Body: `{"link":"` + link + `","decision":"approve"}`})
		}
		return m
	}
	for char, buttons := range map[string]int{"a": 2, "<": 2, "é": 2, "\n": 2, "😀": 0} {
		m := long(char)
		raw, err := pushPayloadOf(m)
		if err != nil || len(raw) > webpush.MaxPayload {
			t.Fatalf("%q: %d bytes, %v", char, len(raw), err)
		}
		var p pushPayload
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		if p.Title != m.Title || p.URL != m.URL || p.Tag != m.Key || p.Body != m.Body || len(p.Buttons) != buttons {
			t.Errorf("%q: %d buttons, want %d: %+v", char, len(p.Buttons), buttons, p)
		}
	}
	// A button must not approve what is not shown.
	m := long("a")
	m.Body = strings.Repeat("a", 5000)
	if raw, err := pushPayloadOf(m); err != nil || len(raw) > webpush.MaxPayload ||
		strings.Contains(string(raw), "Approve") {
		t.Errorf("a long text: %d bytes, %v", len(raw), err)
	}
	m.URL = strings.Repeat("u", 4000)
	if _, err := pushPayloadOf(m); err == nil {
		t.Error("a message that cannot be cut is sent")
	}
}
