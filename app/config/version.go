package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"mailroom/internal/setting"
)

// Definition returns the settings that decide what a run of the agent does, as JSON with sorted keys for [Rebuild]. It
// omits limit, the bounds of starts, deadline, the retry settings, call_timeout, options, the exit statuses and
// Confinement, because they decide only when, how long, how often and how isolated the agent runs. The variables of env
// are included as digests, because their values can be secrets. Pass a secret that changes often through env_allow,
// which is included by name only.
func (a *Agent) Definition() (json.RawMessage, error) {
	definition := map[string]any{}
	outside := map[string]bool{"limit": true, "deadline": true, oldRetryFirst: true, "call_timeout": true}
	for _, s := range slices.Concat(agentRetrySettings(&a.Retry), a.agentStarts(), a.outcomeSettings(nil),
		a.Confinement.settings()) {
		outside[s.Key] = true
	}
	for _, s := range a.settings() {
		switch {
		case outside[s.Key]:
		case s.Key == "env":
			digests := map[string]string{}
			for name, value := range a.Env {
				digests[name] = envDigest(name, value)
			}
			definition[s.Key] = digests
		default:
			definition[s.Key] = s.Value.Get()
		}
	}
	b, err := json.Marshal(definition) // sorts the keys of maps
	if err != nil {
		return nil, fmt.Errorf("encode the definition of an agent: %w", err)
	}
	return b, nil
}

// Version returns 12 hex digits of the SHA-256 of the agent's definition.
func (a *Agent) Version() (string, error) {
	b, err := a.Definition()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:12], nil
}

// envDigest returns a digest of a variable's value. The name is the HMAC key, so that equal
// values of two variables have different digests.
func envDigest(name, value string) string {
	mac := hmac.New(sha256.New, []byte("mailroom env "+name))
	mac.Write([]byte(value))
	return hex.EncodeToString(mac.Sum(nil))[:32]
}

// Rebuild returns the agent of a stored definition. The values of its variables, its limit, deadline and confinement
// come from present, the current agent of that name. A variable that changed or is missing is an error.
func Rebuild(definition json.RawMessage, present *Agent) (*Agent, error) {
	var given map[string]any
	if err := json.Unmarshal(definition, &given); err != nil {
		return nil, fmt.Errorf("read the definition: %w", err)
	}
	kind, ok := given["kind"].(string)
	if !ok {
		return nil, fmt.Errorf("the definition has no kind")
	}
	a := newAgent(kind)
	a.Limit, a.Deadline, a.Retry, a.Starts = present.Limit, present.Deadline, present.Retry, present.Starts
	a.Keys, a.KeyFrom = present.Keys, present.KeyFrom
	if a.IsProgram() && present.IsProgram() {
		a.Confinement, a.CallTimeout = present.Confinement, present.CallTimeout
		a.Options, a.PermanentExits, a.UnavailableExits = present.Options, present.PermanentExits, present.UnavailableExits
	}
	known := map[string]setting.Setting{}
	for _, s := range a.settings() {
		known[s.Key] = s
	}
	for _, key := range sorted(given) {
		s, ok := known[key]
		if !ok {
			return nil, fmt.Errorf("unknown setting %q", key)
		}
		v := given[key]
		if key == "env" {
			found, err := resolveEnv(v, present.Env)
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				continue
			}
			v = found
		}
		if err := s.Value.Set(v); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return a, nil
}

// resolveEnv returns the values of the current variables that match the digests.
func resolveEnv(digests any, present map[string]string) (map[string]any, error) {
	table, ok := digests.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("env is not a table")
	}
	found := map[string]any{}
	for _, name := range sorted(table) {
		value, ok := present[name]
		if !ok || table[name] != envDigest(name, value) {
			return nil, fmt.Errorf("variable %s has changed or is not set", name)
		}
		found[name] = value
	}
	return found, nil
}
