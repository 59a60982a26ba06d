package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Version returns 12 hex digits of the SHA-256 of the agent's definition: JSON
// with sorted keys of the settings that decide what a run does. limit and
// deadline say when and how long it may run, not what it does, so changing
// them leaves queued runs valid. Values of env are part of it; a secret that
// is changed often is better passed through env_allow, which counts by name.
func (a *Agent) Version() (string, error) {
	definition := map[string]any{}
	for _, s := range a.settings() {
		if s.key != "limit" && s.key != "deadline" {
			definition[s.key] = s.value.get()
		}
	}
	b, err := json.Marshal(definition) // sorts the keys of maps
	if err != nil {
		return "", fmt.Errorf("encode the definition of an agent: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])[:12], nil
}
