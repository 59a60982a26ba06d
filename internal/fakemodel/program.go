package fakemodel

import (
	"fmt"
	"os"
	"path/filepath"
)

// Environment returns variables that make codex and claude use only the model at url and keep their files in folder.
// HOME is set too, because the shells that the programs start would otherwise read the user's profile.
func Environment(url, folder string) map[string]string {
	return map[string]string{
		"HOME": folder,

		"CODEX_HOME":     filepath.Join(folder, "codex"),
		"OPENAI_API_KEY": "no-key",

		"CLAUDE_CONFIG_DIR":                        filepath.Join(folder, "claude"),
		"ANTHROPIC_BASE_URL":                       url,
		"ANTHROPIC_API_KEY":                        "no-key",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"CLAUDE_CODE_MAX_RETRIES":                  "1",
		"DISABLE_AUTOUPDATER":                      "1",
	}
}

// OpencodeEnvironment returns variables that make opencode use only the model at url, ask before it runs a command, and
// change nothing of itself.
func OpencodeEnvironment(url string) map[string]string {
	return map[string]string{
		"OPENCODE_DISABLE_MODELS_FETCH": "1",
		"OPENCODE_CONFIG_CONTENT": `{"model":"fake/fake-1","small_model":"fake/fake-1","autoupdate":false,` +
			`"share":"disabled","permission":{"bash":"ask","edit":"ask"},"provider":{"fake":{"npm":"@ai-sdk/anthropic",` +
			`"name":"Fake","options":{"baseURL":"` + url + `/v1","apiKey":"no-key"},"models":{"fake-1":{"name":"Fake"}}}}}`,
	}
}

// ConfigureCodex writes a configuration to home that makes codex use the model at url.
func ConfigureCodex(home, url string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fmt.Errorf("configure codex: %w", err)
	}
	// Without the analytics table codex spends seconds trying to reach its vendor.
	config := fmt.Sprintf(`model = "fake-1"
model_provider = "fake"

[model_providers.fake]
name = "fake"
base_url = %q
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 1
stream_max_retries = 1

[analytics]
enabled = false
`, url+"/v1")
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
		return fmt.Errorf("configure codex: %w", err)
	}
	return nil
}
