package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"mailroom/api"
	"mailroom/app/command"
	"mailroom/client"
)

func TestAListWithoutMatchesSaysWhetherMoreCanBeRead(t *testing.T) {
	at, next := time.Date(2026, 11, 26, 5, 34, 7, 890, time.UTC), "abc"
	for _, c := range []struct {
		page api.Page[string]
		want string
	}{
		{api.Page[string]{Items: []string{"a"}, Next: &next, LookedTo: &at},
			"looked at runs created since 2026-11-26T05:34:07Z; continue with --cursor abc\n"},
		{api.Page[string]{Next: &next, LookedTo: &at},
			"no runs match among those that were read\nlooked at runs created since 2026-11-26T05:34:07Z; continue with --cursor abc\n"},
		{api.Page[string]{Items: []string{"a"}, Next: &next}, "more results: --cursor abc\n"},
		{api.Page[string]{Items: []string{"a"}}, ""},
	} {
		l := list[string]{
			fetch: func(*client.Client, context.Context, client.ListQuery) (api.Page[string], error) { return c.page, nil },
			row:   func(item string) []string { return []string{item} },
			what:  "runs",
		}
		var out, hints bytes.Buffer
		con := &command.Console{Stdout: &out, Stderr: &hints}
		if err := l.print(t.Context(), con, nil, client.ListQuery{}, false, command.FormatText); err != nil {
			t.Fatal(err)
		}
		if got := hints.String(); got != c.want || strings.Contains(out.String(), "looked") {
			t.Errorf("hints %q, want %q", got, c.want)
		}
	}
}
