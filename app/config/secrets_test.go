package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// publicSettings accept a path, and what they name is no secret. A new setting that accepts any text must
// either hide its file or be added here with care: programs can read what it names.
func publicSettings() []string {
	return []string{
		// The file itself, names and addresses.
		"tls_cert", "dir", "program", "model", "mode", "user", "folder", "labels", "types", "agents", "threads", "tokens",
		"workspace", "key_from",
		"nick", "real_name", "account", "contact", "topic", "from", "to", "url", "api", "homeserver", "server",
		"schema", "thread",
		"about", "join", "done", "workflow",
	}
}

// everyKind returns a configuration with all kinds of agents, channels and targets.
func everyKind(t *testing.T) *Config {
	t.Helper()
	c := Default(Kinds())
	for _, kind := range kinds() {
		c.Agents["agent-"+kind] = newAgent(kind)
	}
	for _, k := range c.kinds.Channels {
		c.Channels["channel-"+k.Name] = c.NewChannel(k)
	}
	for _, k := range c.kinds.Targets {
		c.Targets["target-"+k.Name] = newTarget(k)
	}
	c.Tracker = newTracker()
	for _, k := range boardKinds() {
		c.Boards["board-"+k.name] = newBoard(k.name)
	}
	c.Rules["rule"] = newRule("rule")
	if len(c.Channels) < 7 || len(c.Targets) < 5 {
		t.Fatalf("only %d kinds of channels and %d of targets", len(c.Channels), len(c.Targets))
	}
	return c
}

func TestEverySettingThatNamesASecretHidesIt(t *testing.T) {
	c := everyKind(t)
	secrets := 0
	for _, section := range c.allSections() {
		for _, s := range section.settings {
			name := strings.Join(append(slices.Clone(section.path), s.Key), ".")
			path := "/secrets/" + name
			if s.Value.Set(path) != nil {
				continue // it names no file
			}
			isVariable := s.Secret != nil && s.Secret.Env == path
			hidden := slices.Contains(c.SecretFiles(), path) || isVariable && slices.Contains(c.SecretVariables(), path)
			switch {
			case hidden:
				secrets++
			case s.Secret != nil, strings.HasSuffix(s.Key, "_file"), !slices.Contains(publicSettings(), s.Key):
				t.Errorf("%s names a file or variable that programs can read", name)
			}
		}
	}
	if secrets < 20 {
		t.Errorf("only %d settings name secrets", secrets)
	}
}

func TestFilesOfTheDatabaseConnectionAreSecrets(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "url")
	if err := os.WriteFile(file, []byte("postgres://m@db.example.org/m?sslkey=/k%201&passfile=/p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set  Postgres
		want []string
	}{
		{Postgres{URLFile: file}, []string{"/k 1", "/p", file}},
		{Postgres{URL: "postgres://m@db.example.org/m?sslmode=verify-full&sslkey=/k&sslrootcert=/ca"}, []string{"/k"}},
		{Postgres{URL: `host=db.example.org sslkey = '/a \'b' passfile=/c\ d`}, []string{"/a 'b", "/c d"}},
		{Postgres{URL: "host=db.example.org servicefile=/s service=x"}, []string{"/s"}},
		{Postgres{URLFile: filepath.Join(folder, "none")}, []string{filepath.Join(folder, "none")}},
	} {
		all := Default(Kinds())
		all.Postgres = c.set
		if got := all.SecretFiles(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.set, got, c.want)
		}
	}
}

func TestFilesThatTheDatabaseLibraryReadsUnaskedAreSecrets(t *testing.T) {
	home := t.TempDir()
	service := filepath.Join(home, "services")
	if err := os.WriteFile(service, []byte("[x]\nhost=db.example.org\nsslkey=/from/service\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Default(Kinds())
	env := func(name string) string {
		return map[string]string{"HOME": home, "PGPASSFILE": "/from/variable", "PGSERVICEFILE": service}[name]
	}
	if got := c.DatabaseFiles(env); got != nil {
		t.Errorf("a server on SQLite hides %q", got)
	}
	c.Store.Kind = StorePostgres
	got := c.DatabaseFiles(env)
	for _, want := range []string{
		"/from/variable", service, "/from/service", filepath.Join(home, ".pgpass"),
		filepath.Join(home, ".postgresql/postgresql.key"),
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not hidden; hidden are %q", want, got)
		}
	}
}
