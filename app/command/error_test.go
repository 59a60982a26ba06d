package command

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
		{"body.text: is too long", mailroom.Field{Location: "body.text", Message: "is too long"}, "text is too long"},
		{"mode: must be queue or steer", mailroom.Field{Location: "body.mode", Message: "must be queue or steer", Value: "x"},
			`mode "x" must be queue or steer`},
		{"thread: is not a thread id", mailroom.Field{Location: "path.thread", Message: "is not a thread id", Value: "."},
			`thread "." is not a thread id`},
		{"quotas.threads: must be 0 or more", mailroom.Field{Location: "body.quotas.threads", Message: "must be 0 or more",
			Value: -1.0}, "threads must be 0 or more"},
		{"key: is too long", mailroom.Field{Location: "body.key", Message: "is too long", Value: strings.Repeat("x", 51)}, "key is too long"},
		{"agents: require the scope work", mailroom.Field{Location: "body.agents", Message: "require the scope work",
			Value: `["a"]`}, "agents require the scope work"},
		{"query.limit: must be at most 500", mailroom.Field{Location: "query.limit", Message: "must be at most 500",
			Value: 900.0}, "limit must be at most 500"},
		{"body.messages[0].parts[1]: is blank", mailroom.Field{Location: "body.messages[0].parts[1]", Message: "is blank"}, "parts is blank"},
		{"the request is invalid", mailroom.Field{Location: "body.mode", Message: "must be one of queue"},
			"the request is invalid\n  mode must be one of queue"},
		{"the request is invalid", mailroom.Field{Location: "body.color", Message: "unknown field"},
			"the request is invalid\n  color: unknown field"},
		{"body: is not JSON", mailroom.Field{Location: "body", Message: "is not JSON"}, "the request is not JSON"},
	} {
		for _, code := range []mailroom.Code{mailroom.CodeInvalid, mailroom.CodeTooLarge} {
			exit, message, hint := m.explainServerError(&mailroom.Error{Code: code, Message: c.message,
				Fields: []mailroom.Field{c.field}})
			if got := message + hint; exit != ExitUsage || got != c.want || strings.Contains(got, "body.") {
				t.Errorf("%s: exit code %d and %q, want %q", c.message, exit, got, c.want)
			}
		}
	}
}
