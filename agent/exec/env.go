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

// Variables that are always set. The first two also identify processes of a run that have left the run's process
// group.
const (
	envRun     = "MAILROOM_RUN"
	envAttempt = "MAILROOM_ATTEMPT"
	envThread  = "MAILROOM_THREAD"
	envKey     = "MAILROOM_IDEMPOTENCY_KEY"
	envMark    = "MAILROOM_MARK" // Options.Mark
)

// Variables that show the command who sent the run's message and how. Their values come from outside, so their length
// is bounded.
const (
	envOptions  = "MAILROOM_OPTIONS" // JSON; absent without options. Its limit, mailroom.MaxOptions, fits into a variable
	envSender   = "MAILROOM_SENDER"
	envVia      = "MAILROOM_VIA"
	envMode     = "MAILROOM_MODE"
	envPriority = "MAILROOM_PRIORITY"
)

// maxSource bounds the values of MAILROOM_SENDER and MAILROOM_VIA, in bytes.
const maxSource = 4 << 10

// sourceOf returns the variables that show who sent the run's message and how.
func sourceOf(run mailroom.RunView) []string {
	cut := func(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxSource)], "") }
	env := []string{
		envSender + "=" + cut(run.Origin.Sender), envVia + "=" + cut(run.Origin.Via),
		envMode + "=" + string(run.Mode), envPriority + "=" + strconv.Itoa(run.Priority),
	}
	if len(run.Options) > 0 {
		env = append(env, envOptions+"="+string(run.Options))
	}
	return env
}

// attemptOf returns the attempt of run that started a process, given lookup for the process's environment. ok is
// false if no attempt of run did.
func attemptOf(run mailroom.RunView, lookup func(string) (string, bool)) (attempt int, ok bool) {
	if id, _ := lookup(envRun); id != run.ID {
		return 0, false
	}
	text, _ := lookup(envAttempt)
	attempt, err := strconv.Atoi(text)
	return attempt, err == nil
}

// secret is a value that must not appear in entries and errors.
type secret struct{ name, value string }

// minSecret is the minimum length of a secret, in bytes. Shorter values, such as 1 or true, occur
// in unrelated text.
const minSecret = 6

// environment returns the environment of the command and the secrets in it, longest first.
func (a *agent) environment(run mailroom.RunView) (env []string, secrets []secret) {
	env, secrets = a.variables()
	if a.options.Mark != "" {
		env = append(env, envMark+"="+a.options.Mark)
	}
	return append(append(env, sourceOf(run)...),
		envRun+"="+run.ID, envAttempt+"="+strconv.Itoa(run.Attempt),
		envThread+"="+run.Thread, envKey+"="+run.ID,
	), secrets
}

// variables returns the part of the environment that does not depend on a run.
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

// redact returns the last limit bytes of raw as text, with secrets replaced by their names. A
// secret that crosses the limit is dropped whole; raw must therefore begin at least one longest
// secret before the limit.
func redact(raw []byte, secrets []secret, limit int) string {
	from := max(0, len(raw)-limit)
	for moved := from > 0; moved; {
		moved = false
		for _, s := range secrets {
			// The first occurrence that could cross from.
			at := max(0, from-len(s.value)+1)
			if i := bytes.Index(raw[at:], []byte(s.value)); i >= 0 && at+i < from {
				from, moved = at+i+len(s.value), true
			}
		}
	}
	if from > 0 {
		for from < len(raw) && !utf8.RuneStart(raw[from]) {
			from++ // the rest of a truncated character
		}
	}
	var c textDecoder
	text := c.add([]byte(redactText(string(raw[from:]), secrets))) + c.flush()
	return redactText(text, secrets) // secrets in UTF-16 become visible once NUL bytes are gone
}

// redactText replaces the values of secrets by their names in brackets.
func redactText(text string, secrets []secret) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s.value, "["+s.name+"]")
	}
	return text
}
