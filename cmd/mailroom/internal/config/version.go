package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Definition returns what decides what a run of the agent does, as JSON with
// sorted keys, which can be kept and given to [Rebuild]. limit, deadline and the
// keys of Confinement say when, how long and how closed in it may run, not what it
// does, and are not in it. Of the
// variables of env it has the names, and digests instead of the values, because
// they hold secrets; a secret that is changed often is better passed through
// env_allow, which counts by name.
func (a *Agent) Definition() (json.RawMessage, error) {
	definition := map[string]any{}
	outside := map[string]bool{"limit": true, "deadline": true}
	for _, s := range a.Confinement.settings() {
		outside[s.key] = true
	}
	for _, s := range a.settings() {
		switch {
		case outside[s.key]:
		case s.key == "env":
			digests := map[string]string{}
			for name, value := range a.Env {
				digests[name] = envDigest(name, value)
			}
			definition[s.key] = digests
		default:
			definition[s.key] = s.value.get()
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

// envDigest recognises the value of a variable. The name is the key of the
// digest, so that the same value of two variables is not seen to be the same.
func envDigest(name, value string) string {
	mac := hmac.New(sha256.New, []byte("mailroom env "+name))
	mac.Write([]byte(value))
	return hex.EncodeToString(mac.Sum(nil))[:32]
}

// Rebuild makes the agent of a kept definition. The values of its variables,
// its limit, deadline and confinement are those of the present agent of that name; a
// variable that has another value now, or is gone, is an error that names it.
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
	a.Limit, a.Deadline = present.Limit, present.Deadline
	if a.IsProgram() && present.IsProgram() {
		a.Confinement = present.Confinement
	}
	known := map[string]setting{}
	for _, s := range a.settings() {
		known[s.key] = s
	}
	for _, key := range sorted(given) {
		s, ok := known[key]
		if !ok {
			return nil, fmt.Errorf("nothing understands its setting %q", key)
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
		if err := s.value.set(v); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return a, nil
}

// resolveEnv finds the values of digests among the present variables.
func resolveEnv(digests any, present map[string]string) (map[string]any, error) {
	table, ok := digests.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("env is not a table")
	}
	found := map[string]any{}
	for _, name := range sorted(table) {
		value, ok := present[name]
		if !ok || table[name] != envDigest(name, value) {
			return nil, fmt.Errorf("variable %s no longer has the value that it had", name)
		}
		found[name] = value
	}
	return found, nil
}
