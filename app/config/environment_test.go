package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// variables is an environment.
type variables map[string]string

func (v variables) get(name string) string { return v[name] }

func TestVariablesOverrideTheFile(t *testing.T) {
	env := variables{
		"MAILROOM_RUNS": "7", "MAILROOM_LOG_LEVEL": "debug", "MAILROOM_BEHIND_PROXY": "true",
		"MAILROOM_HOSTS":       `["a.example", "b.example"]`,
		"MAILROOM_LIMITS_BODY": "1MiB", "MAILROOM_AGENTS_ECHO_PACE": "1s", "MAILROOM_AGENTS_MY_TOOL_TOTAL_TIMEOUT": "2m",
		"MAILROOM_CHANNELS_RETRY_FIRST": "3s", "MAILROOM_CHANNELS_RETRY_MOST": "", "MAILROOM_AGENTS_MY_TOOL_KIND": "echo",
		"MAILROOM_DEFAULT_AGENT": "my-tool",
	}
	file := "runs = 3\nretention = \"1h\"\n[agents.my-tool]\nkind = \"exec\"\ncommand = [\"cat\"]\n" +
		"[channels.hook]\nkind = \"webhook\"\ntoken_env = \"S\"\nagent = \"echo\"\n"
	c, err := Parse("a.toml", []byte(file), Kinds(), env.get)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case c.Runs != 7, c.Agents["echo"].Limit != 7, c.LogLevel.String() != "DEBUG", !c.BehindProxy,
		!slices.Equal(c.Hosts, []string{"a.example", "b.example"}),
		c.Agents["echo"].Pace != time.Second, c.Agents["my-tool"].Kind != KindExec,
		c.Agents["my-tool"].TotalTimeout != 2*time.Minute,
		c.Retention != time.Hour, c.Channels["hook"].RetryFirst != 3*time.Second, c.DefaultAgent != "my-tool":
		t.Errorf("settings:\n%s", c.TOML(false))
	}
	shown := c.TOML(false)
	for _, want := range []string{
		"(from MAILROOM_RUNS)\nruns = 7\n", "(set)\nretention = \"1h\"\n", "(from MAILROOM_LIMITS_BODY)\nbody = \"1MiB\"\n",
		"(default)\nlease = ",
		"(from MAILROOM_AGENTS_MY_TOOL_TOTAL_TIMEOUT)\ntotal_timeout = \"2m\"\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is missing in\n%s", want, shown)
		}
	}
}

func TestVariablesAreEnoughWithoutAFile(t *testing.T) {
	env := variables{"MAILROOM_STORE_KIND": "postgres", "MAILROOM_POSTGRES_URL": "postgres://db.example/mail"}
	c, err := Load(t.TempDir()+"/mailroom.toml", false, Kinds(), env.get)
	if err != nil {
		t.Fatal(err)
	}
	if c.Store.Kind != StorePostgres || c.Postgres.URL != "postgres://db.example/mail" || c.File() != "" {
		t.Errorf("settings:\n%s", c.TOML(false))
	}
	if shown := c.TOML(false); !strings.HasPrefix(shown,
		"# No configuration file.\n# The variable MAILROOM_LISTEN overrides ") {
		t.Errorf("shown as %.120s", shown)
	}
}

func TestAnInvalidVariableIsNamed(t *testing.T) {
	for name, test := range map[string]struct{ value, want string }{
		"MAILROOM_RUNS": {"many", `MAILROOM_RUNS: "many" is not a whole number from 1 to 100000`},
		"MAILROOM_RENEW": {"14s",
			"MAILROOM_RENEW: 14s is too long for a lease of 15s; use at most half of it, 7.5s"},
		"MAILROOM_AGENTS_ECHO_PACE": {"fast",
			`MAILROOM_AGENTS_ECHO_PACE: "fast" is not a duration from 0s to 1h, such as "1m30s"`},
		"MAILROOM_HOSTS":        {"a.example\n", `MAILROOM_HOSTS: "a.example\n" is not a list of`},
		"MAILROOM_BEHIND_PROXY": {"1", "MAILROOM_BEHIND_PROXY: 1 is not true or false"},
	} {
		_, err := Parse("a.toml", []byte("listen = \"127.0.0.1:0\""), nil, variables{name: test.value}.get)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
	// Problems of the file are reported beside it.
	_, err := Parse("a.toml", []byte("runs = 0\nlimits = 1"), nil,
		variables{"MAILROOM_LEASE": "x", "MAILROOM_LIMITS_BODY": "1MiB"}.get)
	if err == nil || strings.Count(err.Error(), "\n") != 2 || !strings.Contains(err.Error(), "a.toml:1: runs: ") {
		t.Errorf("got %v, want three problems", err)
	}
}

func TestAVariableWithoutEffectIsNamed(t *testing.T) {
	file := "[agents.my-tool]\nkind = \"exec\"\ncommand = [\"cat\"]\nenv_allow = [\"MAILROOM_PASSED_ON\"]\n" +
		"[channels.hook]\nkind = \"webhook\"\ntoken_env = \"MAILROOM_HOOK_SECRET\"\nagent = \"echo\"\n"
	c, err := Parse("a.toml", []byte(file), Kinds(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := c.UnknownVariables([]string{
		"MAILROOM_LISTN=x", "MAILROOM_SOMETHING_ELSE_ALTOGETHER=1", "MAILROOM_LISTEN=127.0.0.1:1",
		"MAILROOM_LIMITS_BODY=1MiB", "MAILROOM_AGENTS_MY_TOOL_IDLE_TIMEOUT=1s",
		"MAILROOM_THREAD=t", "MAILROOM_RUN=r", "MAILROOM_TOKEN=secret", "MAILROOM_HOOK_SECRET=s", "MAILROOM_PASSED_ON=1",
		"PATH=/bin", "MAILROOMS=1",
	})
	want := []string{
		"MAILROOM_LISTN has no effect: Mailroom knows no such variable; did you mean MAILROOM_LISTEN?",
		"MAILROOM_SOMETHING_ELSE_ALTOGETHER has no effect: Mailroom knows no such variable",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Other variables have a meaning of their own, for the commands and for agents.
func TestNoSettingHasTheVariableOfSomethingElse(t *testing.T) {
	c := Default(Kinds())
	seen := map[string]string{}
	for _, section := range c.allSections() {
		for _, s := range section.settings {
			key := strings.Join(append(section.path, s.Key), ".")
			variable := Variable(key)
			if slices.Contains(otherVariables(), variable) {
				t.Errorf("%s has the variable %s, which means something else", key, variable)
			}
			if seen[variable] != "" {
				t.Errorf("%s and %s have the same variable %s", seen[variable], key, variable)
			}
			seen[variable] = key
		}
	}
}
