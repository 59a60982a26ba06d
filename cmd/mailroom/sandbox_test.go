package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/cmd/mailroom/internal/config"
	"mailroom/internal/proc"
)

// sandboxed parses settings of a server whose data folder is data.
func sandboxed(t *testing.T, data, settings string) (*config.Config, *roster, string, error) {
	t.Helper()
	c, err := config.Parse("mailroom.toml", []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	c.Data = data
	var log bytes.Buffer
	t.Setenv("PATH", t.TempDir()) // no programs are found
	r, err := newRoster(c, nil, slog.New(slog.NewTextHandler(&log, nil)))
	return c, r, log.String(), err
}

func TestRequiredIsolationRefusesToStartWithoutAny(t *testing.T) {
	data := t.TempDir()
	// Nothing can hide a folder from a program that works in it.
	const agent = "[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]\n"
	works := agent + "dir = \"" + data + "\"\n"
	for _, settings := range []string{
		"isolation = \"required\"\n" + works, works + "isolation = \"required\"", works + "isolation = \"namespace\"",
		works + "isolation = \"landlock\"",
	} {
		_, _, _, err := sandboxed(t, data, settings)
		if err == nil || !strings.Contains(err.Error(), "agent a: isolation is ") || !strings.Contains(err.Error(), "it works in the data folder itself") {
			t.Errorf("%s: error %v", settings, err)
		}
	}
	best, why := proc.Probe(t.Context())
	_, r, _, err := sandboxed(t, data, agent+"isolation = \"required\"")
	if (err == nil) != (why == nil) {
		t.Errorf("required where the best is %s: error %v", best, err)
	}
	if err == nil && r.sandbox.of("a") != string(best) {
		t.Errorf("isolation %q, want %s", r.sandbox.of("a"), best)
	}
}

func TestAgentsWithoutIsolationAreOneWarning(t *testing.T) {
	data := t.TempDir()
	_, r, log, err := sandboxed(t, data, "isolation = \"none\"\n[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]\n"+
		"[agents.b]\nkind = \"exec\"\ncommand = [\"cat\"]\nisolation = \"auto\"\ndir = \""+data+"\"\n")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, `agents="a, b" reason="it works in the data folder itself"`) {
		t.Errorf("the log is %s", log)
	}
	if a, b, echo := r.sandbox.of("a"), r.sandbox.of("b"), r.sandbox.of("echo"); a != "none" || b != "none" || echo != "" {
		t.Errorf("shown as %q, %q, %q; want none, none and nothing", a, b, echo)
	}
}

func TestSecretsBesideTheDataFolderAreHidden(t *testing.T) {
	base := resolved(t.TempDir())
	data, token := filepath.Join(base, "data"), filepath.Join(base, "token")
	if err := os.MkdirAll(filepath.Join(data, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(token, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(token, filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	c, r, log, err := sandboxed(t, data, "[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]\ndir = \""+data+"/work\"\nenv_allow = [\"PLATFORM_TOKEN\"]\n"+
		"[channels.tg]\nkind = \"telegram\"\nagent = \"a\"\ntoken_file = \""+base+"/link\"\n"+
		"[channels.dc]\nkind = \"discord\"\nagent = \"a\"\ntoken_env = \"PLATFORM_TOKEN\"\n")
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.sandbox.confine("a", c.Agents["a"])
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{data, token}; !slices.Equal(a.isolation.Hide[:1], want[:1]) || !slices.Contains(a.isolation.Hide, token) {
		t.Errorf("hidden are %q, want %q", a.isolation.Hide, want)
	}
	if want := []string{filepath.Join(data, "work")}; !slices.Equal(a.isolation.Keep, want) {
		t.Errorf("kept are %q, want %q", a.isolation.Keep, want)
	}
	if !strings.Contains(log, "env_allow names a variable with a secret") || !strings.Contains(log, "variable=PLATFORM_TOKEN") {
		t.Errorf("the log is %s", log)
	}
}

func TestUserOfAnAgentIsChecked(t *testing.T) {
	for user, want := range map[string]string{
		"no-such-user-here": `agent a: user "no-such-user-here": user: unknown user no-such-user-here`,
		"root":              `agent a: user "root" is root itself; name another`,
	} {
		if os.Geteuid() != 0 && user == "root" {
			want = `agent a: user is "root", but only a server that runs as root can start programs as another user`
		}
		_, _, _, err := sandboxed(t, t.TempDir(), "[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]\nuser = \""+user+"\"\n")
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
