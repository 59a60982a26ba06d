package console

import (
	"io"
	"strings"
	"testing"

	"mailroom"
)

func TestNoErrorShowsTheJSONPathOfAField(t *testing.T) {
	m := Console{Stderr: io.Discard}
	for _, c := range []struct {
		message string
		field   mailroom.Field
		want    string
	}{
		{`body.agent: no agent "x"`, mailroom.Field{Location: "body.agent", Message: `no agent "x"`}, `no agent "x"`},
		{"body.text: is too long", mailroom.Field{Location: "body.text", Message: "is too long"}, "text: is too long"},
		{"query.limit: is too large", mailroom.Field{Location: "query.limit", Message: "is too large"}, "limit: is too large"},
		{"body.messages[0].parts[1]: is blank", mailroom.Field{Location: "body.messages[0].parts[1]", Message: "is blank"}, "parts: is blank"},
		{"the request is invalid", mailroom.Field{Location: "body.mode", Message: "expected one of queue"}, "the request is invalid\n  mode: expected one of queue"},
		{"the request is invalid", mailroom.Field{Location: "body", Message: "is no JSON"}, "the request is invalid\n  is no JSON"},
	} {
		for _, code := range []mailroom.Code{mailroom.CodeInvalid, mailroom.CodeTooLarge} {
			exit, message, hint := m.explainServerError(&mailroom.Error{Code: code, Message: c.message, Fields: []mailroom.Field{c.field}})
			if got := message + hint; exit != ExitUsage || got != c.want || strings.Contains(got, "body.") {
				t.Errorf("%s: exit code %d and %q, want %q", c.message, exit, got, c.want)
			}
		}
	}
}
