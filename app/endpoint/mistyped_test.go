package endpoint

import (
	"slices"
	"testing"
)

func TestAMistypedVariableOfAServerIsNamed(t *testing.T) {
	got := MistypedVariables([]string{
		"MAILROOM_TOKE=x", "MAILROOM_TOKEN=x", "MAILROOM_URLS=x", "MAILROOM_CONTXT=x", "MAILROOM_DTAA=", "MAILROOM_RUN=r",
		"MAILROOM_RUNS=4", "MAILROOM_LISTEN=x", "URLS=x", "MAILROOM_MARK=m",
	})
	want := []string{
		"MAILROOM_TOKE has no effect: Mailroom knows no such variable; did you mean MAILROOM_TOKEN?",
		"MAILROOM_URLS has no effect: Mailroom knows no such variable; did you mean MAILROOM_URL?",
		"MAILROOM_CONTXT has no effect: Mailroom knows no such variable; did you mean MAILROOM_CONTEXT?",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
