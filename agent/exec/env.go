package exec

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mailroom"
)

// The variables that a command always finds. The first two also mark its
// processes, so that those can be found that left its group.
const (
	envRun     = "MAILROOM_RUN"
	envAttempt = "MAILROOM_ATTEMPT"
	envThread  = "MAILROOM_THREAD"
	envKey     = "MAILROOM_IDEMPOTENCY_KEY"
	envMark    = "MAILROOM_MARK" // Options.Mark
)

// attemptOf returns the attempt of run that a process with this environment is of.
func attemptOf(run *mailroom.Run, lookup func(string) (string, bool)) (attempt int, ok bool) {
	if id, _ := lookup(envRun); id != run.ID {
		return 0, false
	}
	text, _ := lookup(envAttempt)
	attempt, err := strconv.Atoi(text)
	return attempt, err == nil
}

// secret is a value that must not be shown.
type secret struct{ name, value string }

// minSecret is the length in bytes from which a value is treated as a secret:
// what is shorter, such as 1 or true, stands for too much else.
const minSecret = 6

// environment returns the whole environment of the command and the values in it
// that must not be shown, longest first.
func (a *agent) environment(run *mailroom.Run) (env []string, secrets []secret) {
	env, secrets = a.variables()
	if a.options.Mark != "" {
		env = append(env, envMark+"="+a.options.Mark)
	}
	return append(env,
		envRun+"="+run.ID, envAttempt+"="+strconv.Itoa(run.Attempt),
		envThread+"="+run.Thread, envKey+"="+run.ID,
	), secrets
}

// variables are those that do not depend on a run.
func (a *agent) variables() (env []string, secrets []secret) {
	for _, name := range a.options.EnvAllow {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	env = append(env, a.options.Env...)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if len(value) >= minSecret && !slices.Contains(DefaultEnvAllow(), name) {
			secrets = append(secrets, secret{name, value})
		}
	}
	slices.SortStableFunc(secrets, func(a, b secret) int { return cmp.Compare(len(b.value), len(a.value)) })
	return env, secrets
}

func maxSecretLen(secrets []secret) int {
	if len(secrets) == 0 {
		return 0
	}
	return len(secrets[0].value)
}

// redact returns the last limit bytes of raw as text, with the names of secrets
// for their values. A secret that is cut by the limit is left out whole: raw
// holds, before the last limit bytes, as many more as the longest secret has.
func redact(raw []byte, secrets []secret, limit int) string {
	from := max(0, len(raw)-limit)
	for moved := from > 0; moved; {
		moved = false
		for _, s := range secrets {
			// The first occurrence that could reach over from.
			at := max(0, from-len(s.value)+1)
			if i := bytes.Index(raw[at:], []byte(s.value)); i >= 0 && at+i < from {
				from, moved = at+i+len(s.value), true
			}
		}
	}
	if from > 0 {
		for from < len(raw) && !utf8.RuneStart(raw[from]) {
			from++ // the rest of a character that was cut
		}
	}
	var c textDecoder
	text := c.add([]byte(redactText(string(raw[from:]), secrets))) + c.flush()
	return redactText(text, secrets) // what was written with NULs in it, as UTF-16 is, can be read only now
}

// redactText puts the names of secrets in the place of their values.
func redactText(text string, secrets []secret) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s.value, "["+s.name+"]")
	}
	return text
}
