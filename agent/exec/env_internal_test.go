package exec

import (
	"testing"

	"mailroom"
)

// Values that occur in any text, and those of variables that every program has, are no secrets: redacted output
// would be unreadable.
func TestOnlyLongValuesOfOtherVariablesAreSecrets(t *testing.T) {
	t.Setenv("PATH", "/usr/local/bin:/usr/bin")
	t.Setenv("API_KEY", "abcdef")
	t.Setenv("DEBUG", "true")
	a := &agent{options: Options{EnvAllow: []string{"PATH", "API_KEY", "DEBUG"},
		Env: []string{"TOKEN=a longer one", "N=12345"}}}
	env, secrets := a.variables()
	if len(env) != 5 {
		t.Errorf("the program gets %q, want five variables", env)
	}
	if len(secrets) != 2 || secrets[0].name != "TOKEN" || secrets[1].name != "API_KEY" {
		t.Errorf("the secrets are %+v, want TOKEN and API_KEY, the longest first", secrets)
	}
}

// An attempt kills what an earlier attempt of its run left, and nothing of another run.
func TestAProcessBelongsToTheRunInItsEnvironment(t *testing.T) {
	run := mailroom.RunView{ID: "mine"}
	for name, tc := range map[string]struct {
		env     map[string]string
		attempt int
		ok      bool
	}{
		"of an attempt":      {map[string]string{envRun: "mine", envAttempt: "3"}, 3, true},
		"of another run":     {map[string]string{envRun: "theirs", envAttempt: "3"}, 0, false},
		"without a run":      {map[string]string{envAttempt: "3"}, 0, false},
		"without an attempt": {map[string]string{envRun: "mine"}, 0, false},
	} {
		attempt, ok := attemptOf(run, func(name string) (string, bool) { value, ok := tc.env[name]; return value, ok })
		if attempt != tc.attempt || ok != tc.ok {
			t.Errorf("%s: attempt %d, %t, want %d, %t", name, attempt, ok, tc.attempt, tc.ok)
		}
	}
}
