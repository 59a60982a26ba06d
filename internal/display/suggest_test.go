package display

import "testing"

func TestTheNearestWordIsSuggested(t *testing.T) {
	known := []string{"lease", "renew", "sweep", "stop_grace", "run_deadline"}
	for word, want := range map[string]string{
		"leas": "lease", "laese": "lease", "LEASE": "lease", "stopgrace": "stop_grace", "run_dedline": "run_deadline",
		"colour": "", "": "",
	} {
		if got := Suggest(word, known); got != want {
			t.Errorf("the suggestion for %q is %q, want %q", word, got, want)
		}
	}
}
