package config

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/agent/builtin"
	"mailroom/internal/retry"
	"mailroom/internal/setting"
)

func TestEmptyFileIsAValidConfiguration(t *testing.T) {
	got, err := parse("mailroom.toml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Lease != 15*time.Second || got.Renew != 5*time.Second || got.Runs != 64 || got.Listen != "127.0.0.1:8420" {
		t.Errorf("unexpected defaults: %+v", got)
	}
	want := &Agent{Kind: KindEcho, Limit: 64, Deadline: time.Hour, Retry: retry.Default(),
		Starts: starts{Burst: 1}, Keys: starts{Burst: 1},
		Pace: builtin.DefaultPace}
	if diff := cmp.Diff(want, got.Agents["echo"], withoutSecrets()); diff != "" {
		t.Errorf("the echo agent (-want +got):\n%s", diff)
	}
}

// TestProgramsThatChangeFilesRunOneAtATime unless their limit says otherwise.
func TestProgramsThatChangeFilesRunOneAtATime(t *testing.T) {
	got, err := parse("mailroom.toml", []byte(`
		[agents.codex]
		permissions = "edit"
		dir = "/tmp"
		[agents.claude]
		permissions = "all"
		[agents.asks]
		kind = "claude"
		[agents.reads]
		kind = "codex"
		[agents.many]
		kind = "codex"
		permissions = "edit"
		limit = 5
	`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"codex": 1, "claude": 1, "asks": 64, "reads": 64, "many": 5} {
		if got := got.Agents[name].Limit; got != want {
			t.Errorf("the limit of %s is %d, want %d", name, got, want)
		}
	}
}

func TestAMissingFileIsAnErrorOnlyIfItWasNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mailroom.toml")
	if c, err := Load(path, false, nil, nil); err != nil || c.File() != "" {
		t.Errorf("Load of an optional missing file: %v, File() = %q", err, c.File())
	}
	if _, err := Load(path, true, nil, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Load of a required missing file: %v, want an error with its path", err)
	}
}

func TestAgentsHaveDefaults(t *testing.T) {
	got, err := parse("mailroom.toml", []byte(`
		runs = 8
		run_deadline = "2m"
		default_agent = "coder"
		[agents.echo]
		pace = "10ms"
		[agents.coder]
		kind = "exec"
		command = ["cat", "-u"]
		dir = "/tmp"
		env = { MODEL = "small" }
		env_allow = ["PATH", "HOME"]
		idle_timeout = "90s"
		limit = 2
	`))
	if err != nil {
		t.Fatal(err)
	}
	retries, once := retry.Default(), starts{Burst: 1}
	want := map[string]*Agent{
		"echo": {Kind: KindEcho, Limit: 8, Deadline: 2 * time.Minute, Retry: retries, Starts: once, Keys: once,
			Pace: 10 * time.Millisecond},
		"inbox": {Kind: KindInbox, Limit: 8, Deadline: 2 * time.Minute, Retry: retries, Starts: once, Keys: once},
		"tour": {Kind: KindTour, Limit: 8, Deadline: 2 * time.Minute, Retry: retries, Starts: once, Keys: once,
			Pace: builtin.DefaultPace},
		"coder": {
			Kind: KindExec, Limit: 2, Deadline: 2 * time.Minute, Retry: retries, Starts: once, Keys: once,
			Command: []string{"cat", "-u"}, Dir: "/tmp",
			Env: map[string]string{"MODEL": "small"}, EnvAllow: []string{"PATH", "HOME"}, IdleTimeout: 90 * time.Second,
			Options: []string{"*"}, PermanentExits: []int{78}, UnavailableExits: []int{75},
			Confinement: Confinement{Workspace: workspaceFolder, MaxWorktrees: 50, Base: BaseRemote,
				PullURL: gitHubAPI, Isolation: IsolationAuto},
		},
	}
	if diff := cmp.Diff(want, got.Agents, withoutSecrets()); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
}

// withoutSecrets compares where secrets come from, and not their values.
func withoutSecrets() cmp.Option { return cmpopts.IgnoreUnexported(setting.Secret{}) }

func TestErrorsNameKeyValueAndAllowedValues(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"unknown key names the nearest": {
			"runs = 3\nleese = \"15s\"", `f.toml:2: leese: unknown key (did you mean "lease"?)`,
		},
		"unknown key with nothing near": {
			"[agents.echo]\ncolour = 1",
			`f.toml:2: agents.echo.colour: unknown key; known keys: kind, budget, limit, deadline, ` + startKeys +
				`, attempts, ` + delayKeys + `, pace`,
		},
		"key of another kind": {
			"[agents.x]\nkind = \"echo\"\ncommand = [\"cat\"]",
			`f.toml:3: agents.x.command: unknown key; known keys: kind, budget, limit, deadline, ` + startKeys +
				`, attempts, ` + delayKeys + `, pace`,
		},
		"table with a typing error": {
			"[agent.x]\nkind = \"echo\"", `f.toml:1: agent: unknown key (did you mean "agents"?)`,
		},
		"duration out of range": {
			`lease = "1ms"`, `f.toml:1: lease: "1ms" is not a duration from 1s to 1h, such as "1m30s"`,
		},
		"duration without a unit": {
			`sweep = 5`, `f.toml:1: sweep: 5 is not a duration from 10ms to 1m, such as "1m30s"`,
		},
		"number out of range": {
			`runs = 0`, `f.toml:1: runs: 0 is not a whole number from 1 to 100000`,
		},
		"text for a number": {
			`runs = "many"`, `f.toml:1: runs: "many" is not a whole number from 1 to 100000`,
		},
		"address without a port": {
			`listen = "localhost"`, `f.toml:1: listen: "localhost" is not HOST:PORT, such as "127.0.0.1:8420"`,
		},
		"renewal longer than the lease": {
			"lease = \"10s\"\nrenew = \"8s\"", `f.toml:2: renew: 8s is too long for a lease of 10s; use at most half of it, 5s`,
		},
		"missing default agent": {
			"default_agent = \"ekho\"", `f.toml:1: default_agent: unknown agent "ekho" (did you mean "echo"?)`,
		},
		"unknown kind": {
			"[agents.x]\nkind = \"shell\"",
			`f.toml:2: agents.x.kind: "shell" is not one of echo, exec, acp, inbox, tour, remote, claude, codex`,
		},
		"no kind": {
			"[agents.x]\ncommand = [\"cat\"]",
			`f.toml:1: agents.x: missing kind; use one of echo, exec, acp, inbox, tour, remote, claude, codex`,
		},
		"exec without a command": {
			"[agents.x]\nkind = \"exec\"", `f.toml:1: agents.x: missing command; set one such as command = ["cat"]`,
		},
		"command as one text": {
			"[agents.x]\nkind = \"exec\"\ncommand = \"cat -u\"",
			`f.toml:3: agents.x.command: "cat -u" is not a list of strings, such as ["a", "b"]`,
		},
		"variables stay secret": {
			"[agents.x]\nkind = \"exec\"\ncommand = [\"cat\"]\nenv = { KEY = 42 }",
			`f.toml:4: agents.x.env: invalid variable "KEY": use a name without = and a string without NUL`,
		},
		"invalid name": {
			"[agents.\"a b\"]\nkind = \"echo\"",
			`f.toml:1: agents.a b: invalid name: use 1 to 64 letters, digits, dots, dashes and underscores`,
		},
		"agents as a number": {
			"agents = 1", `f.toml:1: agents: not a table; use [agents.NAME]`,
		},
		"several at once, in the order of the file": {
			"swep = \"1s\"\nruns = -1\n",
			"f.toml:1: swep: unknown key (did you mean \"sweep\"?)\nf.toml:2: runs: -1 is not a whole number from 1 to 100000",
		},
	} {
		t.Run(name, func(t *testing.T) { refused(t, test.file, test.want) })
	}
}

// parse parses a file whose channels may be of any platform.
func parse(file string, data []byte) (*Config, error) { return Parse(file, data, Kinds(), nil) }

// refused checks the error of Parse for a file named f.toml.
func refused(t *testing.T, file, want string) {
	t.Helper()
	_, err := parse("f.toml", []byte(file))
	if err == nil {
		t.Fatalf("Parse() succeeded, want error %q", want)
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestSyntaxErrorNamesItsLine(t *testing.T) {
	_, err := parse("f.toml", []byte("runs = 1\n[agents\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "f.toml:2: ") {
		t.Errorf("got %v, want an error at f.toml:2", err)
	}
}

func TestPrintedConfigurationLoadsAsTheSame(t *testing.T) {
	first, err := parse("a.toml", []byte(`
		log_level = "warn"
		agent_grace = "1h30m"
		[agents."v1.2"]
		kind = "exec"
		command = ["sh", "-c", "echo \"hi\\n\"\t\u0001"]
		env = { "A.B" = "x = \"1\"", C = "" }
		[store]
		kind = "postgres"
		[postgres]
		url_file = "database"
		[node]
		sticky_grace = "90s"
	`))
	if err != nil {
		t.Fatal(err)
	}
	second, err := parse("b.toml", []byte(first.TOML(true)))
	if err != nil {
		t.Fatal(err)
	}
	if second.Node.StickyGrace != 90*time.Second {
		t.Errorf("sticky_grace is %v after printing and loading", second.Node.StickyGrace)
	}
	got, want := strip(t, second), strip(t, first)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after printing and loading (-want +got):\n%s", diff)
	}
}

// strip returns all settings of c, without the name of the file.
func strip(t *testing.T, c *Config) map[string]any {
	t.Helper()
	b, err := c.JSON(true)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(b, &object); err != nil {
		t.Fatal(err)
	}
	delete(object, "file")
	return object
}

func TestPrintedConfigurationHidesVariables(t *testing.T) {
	c, err := parse("a.toml", []byte("[agents.x]\nkind = \"exec\"\ncommand = [\"cat\"]\nenv = { KEY = \"s3cret\" }\n"))
	if err != nil {
		t.Fatal(err)
	}
	object, err := c.JSON(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{c.TOML(false), string(object)} {
		if strings.Contains(printed, "s3cret") || !strings.Contains(printed, "KEY") {
			t.Errorf("printed configuration:\n%s\nwant the name of the variable without its value", printed)
		}
	}
	if c.Agents["x"].Env["KEY"] != "s3cret" {
		t.Error("printing changed the configuration")
	}
}

func TestPrintedConfigurationNamesItsSource(t *testing.T) {
	c, err := parse("a.toml", []byte("runs = 3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetListen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	got := c.TOML(false)
	for _, want := range []string{
		"# From a.toml and defaults.", "process. (set)\nruns = 3\n", "(default)\nlease = \"15s\"\n",
		"(set)\nlisten = \"127.0.0.1:0\"\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

func TestVersionChangesWithTheBehaviourOfAnAgent(t *testing.T) {
	version := func(file string) string {
		t.Helper()
		c, err := parse("f.toml", []byte("[agents.x]\nkind = \"exec\"\n"+file))
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Agents["x"].Version()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := version(`command = ["cat"]`)
	if len(first) != 12 || strings.Trim(first, "0123456789abcdef") != "" {
		t.Errorf("version is %q, want 12 hex digits", first)
	}
	for same, file := range map[string]string{
		"other order and spelling": "total_timeout = \"0m\"\ncommand = ['cat']",
		"empty list":               "command = [\"cat\"]\nenv = {}",
		"how many and how long only": "command = [\"cat\"]\nlimit = 3\ndeadline = \"5m\"\nattempts = 9\n" +
			"retry_first = \"3m\"\nretry_most = \"4m\"",
		"the older name of a delay": "command = [\"cat\"]\nretry_pause = \"3m\"",
	} {
		if got := version(file); got != first {
			t.Errorf("%s: version is %s, want %s as before", same, got, first)
		}
	}
	for other, file := range map[string]string{
		"command": `command = ["cat", "-u"]`,
		"env":     "command = [\"cat\"]\nenv = { A = \"b\" }",
		"timeout": "command = [\"cat\"]\nidle_timeout = \"5s\"",
	} {
		if got := version(file); got == first {
			t.Errorf("the version does not depend on %s: %s", other, got)
		}
	}
}

func TestAWorktreeNeedsItsRepositoryAndAllowsMoreAtOnce(t *testing.T) {
	const agent = "[agents.codex]\npermissions = \"edit\"\nworkspace = \"worktree\"\n"
	_, err := parse("", []byte(agent))
	if err == nil || !strings.Contains(err.Error(), "needs dir") {
		t.Errorf("error %v, want one that asks for dir", err)
	}
	for text, limit := range map[string]int{"": 4, "limit = 7\n": 7} {
		c, err := parse("", []byte(agent+"dir = \"/roof\"\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Agents["codex"].Limit; got != limit {
			t.Errorf("with %q %d runs at once, want %d", text, got, limit)
		}
	}
	_, err = parse("", []byte("[agents.codex]\npush = \"origin\"\n"))
	if err == nil || !strings.Contains(err.Error(), "needs workspace") {
		t.Errorf("error %v, want one that asks for a workspace", err)
	}
	const pulls = agent + "dir = \"/roof\"\npush = \"origin\"\n"
	for text, want := range map[string]string{
		"pull_token_file = \"t\"\n": "pull_token_file: opens no pull requests",
		"pull_request = true\npull_token_file = \"t\"\npull_token_env = \"T\"\n": "two sources of one token",
		"pull_request = true\npull_url = \"git\"\n":                              "pull_url",
	} {
		if _, err := parse("", []byte(pulls+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %q: %v, want %q", text, err, want)
		}
	}
	const tracker = "[tracker]\nfolder = \"/roof\"\nagent = \"codex\"\n"
	for text, claims := range map[string]int{"": 4, "max_claimed = 1\n": 1, "agents = [\"echo\"]\n": 1} {
		c, err := parse("", []byte(agent+"dir = \"/roof\"\n"+tracker+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Tracker.MaxClaims; got != claims {
			t.Errorf("with %q %d issues at once, want %d", text, got, claims)
		}
	}
}
