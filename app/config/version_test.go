package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func agentX(t *testing.T, table string) *Agent {
	t.Helper()
	c, err := parse("f.toml", []byte("[agents.x]\n"+table))
	if err != nil {
		t.Fatal(err)
	}
	return c.Agents["x"]
}

func TestStoredDefinitionIsRebuilt(t *testing.T) {
	for name, table := range map[string]string{
		"echo":               "kind = \"echo\"\npace = \"7ms\"",
		"tour":               "kind = \"tour\"",
		"exec, defaults":     "kind = \"exec\"\ncommand = [\"cat\"]",
		"exec, all settings": "kind = \"exec\"\ncommand = [\"sh\", \"-c\", \"cat\"]\ndir = \"/tmp\"\nenv = { A = \"s3cret\", B = \"\" }\nenv_allow = []\nidle_timeout = \"90s\"",
	} {
		t.Run(name, func(t *testing.T) {
			want := agentX(t, table)
			kept, err := want.Definition()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(kept), "s3cret") {
				t.Errorf("the definition contains a secret: %s", kept)
			}
			present := agentX(t, "kind = \"exec\"\ncommand = [\"other\"]\nenv = { A = \"s3cret\", B = \"\", C = \"new\" }")
			got, err := Rebuild(kept, present)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, withoutSecrets()); diff != "" {
				t.Errorf("rebuilt (-want +got):\n%s", diff)
			}
			first, err := want.Version()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := got.Version(); err != nil || again != first {
				t.Errorf("version %s (%v), want %s", again, err, first)
			}
		})
	}
}

func TestDefinitionIsNotRebuiltWithOtherSecrets(t *testing.T) {
	kept, err := agentX(t, "kind = \"exec\"\ncommand = [\"cat\"]\nenv = { KEY = \"s3cret\" }").Definition()
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string]string{
		"changed": "kind = \"exec\"\ncommand = [\"cat\"]\nenv = { KEY = \"0ther\" }",
		"gone":    "kind = \"exec\"\ncommand = [\"cat\"]",
	} {
		_, err := Rebuild(kept, agentX(t, table))
		if err == nil || !strings.Contains(err.Error(), "KEY") || strings.Contains(err.Error(), "s3cret") ||
			strings.Contains(err.Error(), "0ther") {
			t.Errorf("%s: error %v, want one with KEY and without a value", name, err)
		}
	}
}

func TestInvalidDefinitionIsRefused(t *testing.T) {
	for _, kept := range []string{
		`{`, `{}`, `{"kind":7}`, `{"kind":"robot"}`, `{"kind":"echo","colour":"red"}`, `{"kind":"echo","pace":7}`,
		`{"kind":"exec","command":["cat"],"env":7}`,
	} {
		if a, err := Rebuild([]byte(kept), agentX(t, "kind = \"echo\"")); err == nil {
			t.Errorf("Rebuild(%s) = %+v, want an error", kept, a)
		}
	}
}
