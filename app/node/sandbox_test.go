package node

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/internal/proc"
)

// newTestAgents parses settings of a server with the data folder data.
func newTestAgents(t *testing.T, data, settings string) (*config.Config, *agentSet, string, error) {
	t.Helper()
	c, err := config.Parse("mailroom.toml", []byte(settings), config.Kinds(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Data = data
	var log bytes.Buffer
	t.Setenv("PATH", t.TempDir()) // no programs are found
	r, err := newAgentSet(c, nil, nil, slog.New(slog.NewTextHandler(&log, nil)))
	return c, r, log.String(), err
}

func TestRequiredIsolationRefusesToStartWithoutAny(t *testing.T) {
	data := t.TempDir()
	// An isolation cannot hide a program's own working directory.
	const agent = "[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]\n"
	works := agent + "dir = \"" + data + "\"\n"
	for _, settings := range []string{
		"isolation = \"required\"\n" + works, works + "isolation = \"required\"", works + "isolation = \"namespace\"",
		works + "isolation = \"landlock\"",
	} {
		_, _, _, err := newTestAgents(t, data, settings)
		if err == nil || !strings.Contains(err.Error(), "agent a: isolation ") ||
			!strings.Contains(err.Error(), "the program works in the data folder itself") {
			t.Errorf("%s: error %v", settings, err)
		}
	}
	best, why := proc.Probe(t.Context())
	_, r, _, err := newTestAgents(t, data, agent+"isolation = \"required\"")
	if (err == nil) != (why == nil) {
		t.Errorf("isolation required, best available %s: error %v", best, err)
	}
	if err == nil && r.sandbox.isolationOf("a") != string(best) {
		t.Errorf("isolation %q, want %s", r.sandbox.isolationOf("a"), best)
	}
}

func TestOneWarningNamesAllAgentsWithoutIsolation(t *testing.T) {
	data := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, r, log, err := newTestAgents(t, data, "isolation = \"none\"\n[agents.a]\nkind = \"exec\"\ncommand = [\""+
		program+"\"]\n"+
		"[agents.b]\nkind = \"exec\"\ncommand = [\""+program+"\"]\nisolation = \"auto\"\ndir = \""+data+"\"\n")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(log, "level=WARN") != 1 ||
		!strings.Contains(log, `agents="a, b" reason="the program works in the data folder itself"`) {
		t.Errorf("log: %s", log)
	}
	if a, b, echo := r.sandbox.isolationOf("a"), r.sandbox.isolationOf("b"), r.sandbox.isolationOf("echo"); a != "none" ||
		b != "none" || echo != "" {
		t.Errorf("shown as %q, %q, %q; want none, none and nothing", a, b, echo)
	}
}

func TestSecretsBesideTheDataFolderAreHidden(t *testing.T) {
	base := resolvePath(t.TempDir())
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
	c, r, log, err := newTestAgents(t, data, "[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]\ndir = \""+data+
		"/work\"\nenv_allow = [\"PLATFORM_TOKEN\"]\n"+
		"[channels.tg]\nkind = \"telegram\"\nagent = \"a\"\ntoken_file = \""+base+"/link\"\n"+
		"[channels.dc]\nkind = \"discord\"\nagent = \"a\"\ntoken_env = \"PLATFORM_TOKEN\"\n"+
		"[targets.hook]\nkind = \"webhook\"\nurl = \"https://alerts.example.org\"\ntoken_file = \""+base+"/target\"\n")
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.sandbox.confine("a", c.Agents["a"])
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{data, token}; !slices.Equal(a.isolation.Hide[:1], want[:1]) ||
		!slices.Contains(a.isolation.Hide, token) {
		t.Errorf("hidden are %q, want %q", a.isolation.Hide, want)
	}
	for _, path := range []string{filepath.Join(base, "target"), filepath.Join(base, "link")} {
		if !slices.Contains(a.isolation.Hide, path) {
			t.Errorf("hidden are %q, not %s", a.isolation.Hide, path)
		}
	}
	if got := a.allowed([]string{"PATH", "PLATFORM_TOKEN"}); !slices.Equal(got, []string{"PATH"}) {
		t.Errorf("the program gets the variables %q", got)
	}
	if want := []string{filepath.Join(data, "work")}; !slices.Equal(a.isolation.Keep, want) {
		t.Errorf("kept are %q, want %q", a.isolation.Keep, want)
	}
	if !strings.Contains(log, "env_allow names a secret") || !strings.Contains(log, "variable=PLATFORM_TOKEN") {
		t.Errorf("log: %s", log)
	}
}

func TestProgramsThatLandlockHindersAreNamed(t *testing.T) {
	empty, ready := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(ready, ".claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	for _, c := range []struct {
		kind  proc.Kind
		agent config.Agent
		home  string
		want  string
	}{
		{proc.KindLandlock, config.Agent{Kind: "claude"}, empty, "claude may be unable to keep its sessions"},
		{proc.KindLandlock, config.Agent{Kind: "claude"}, ready, ""},
		{proc.KindLandlock, config.Agent{Kind: "exec"}, empty, ""},
	} {
		got := landlockProblem(c.kind, &c.agent, c.home)
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s of %s: %q, want %q", c.agent.Kind, c.kind, got, c.want)
		}
	}
}

// TestAProgramThatCannotWorkUnderLandlockIsRefused lists the combinations. The words say the ways out.
func TestAProgramThatCannotWorkUnderLandlockIsRefused(t *testing.T) {
	for _, c := range []struct {
		kind    proc.Kind
		agent   config.Agent
		refused bool
	}{
		{proc.KindLandlock, config.Agent{Kind: "codex", Permissions: "read"}, true},
		{proc.KindLandlock, config.Agent{Kind: "codex", Permissions: "edit"}, true},
		{proc.KindLandlock, config.Agent{Kind: "codex", Permissions: "all"}, false},
		{proc.KindNamespace, config.Agent{Kind: "codex", Permissions: "read"}, false},
		{proc.KindNone, config.Agent{Kind: "codex", Permissions: "read"}, false},
		{proc.KindLandlock, config.Agent{Kind: "claude", Permissions: "edit"}, false},
		{proc.KindLandlock, config.Agent{Kind: "acp", Command: []string{"codex-acp"}, Permissions: "ask"}, true},
		{proc.KindLandlock, config.Agent{Kind: "acp", Command: []string{"codex-acp"}, Mode: "agent-full-access"}, false},
		{proc.KindLandlock, config.Agent{Kind: "acp", Command: []string{"codex-acp"}, Permissions: "all"}, false},
		{proc.KindNamespace, config.Agent{Kind: "acp", Command: []string{"codex-acp"}, Permissions: "ask"}, false},
		{proc.KindLandlock, config.Agent{Kind: "acp", Command: []string{"claude-agent-acp"}, Permissions: "ask"}, false},
	} {
		got := landlockRefusal(c.kind, &c.agent)
		if (got != "") != c.refused || c.refused && (!strings.Contains(got, `permissions = "all"`) ||
			!strings.Contains(got, `isolation = "namespace"`)) {
			t.Errorf("%s with %s under %s: %q", c.agent.Kind, c.agent.Permissions, c.kind, got)
		}
	}
}

// TestTheProfileOfAProgramIsMadeBeforehand makes what a program cannot make under Landlock, and changes nothing that
// is there.
func TestTheProfileOfAProgramIsMadeBeforehand(t *testing.T) {
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	t.Setenv("CODEX_HOME", "")
	s := &sandbox{log: slog.New(slog.DiscardHandler)}
	home := t.TempDir()
	for range 2 {
		s.makeProfile("a", &config.Agent{Kind: "claude"}, home, nil)
		s.makeProfile("b", &config.Agent{Kind: "codex"}, home, nil)
		if why := landlockProblem(proc.KindLandlock, &config.Agent{Kind: "claude"}, home); why != "" {
			t.Errorf("claude: %s", why)
		}
		if info, err := os.Stat(filepath.Join(home, ".codex")); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder of codex: %v, %v", info, err)
		}
		want := "{}\n"
		if got, err := os.ReadFile(filepath.Join(home, ".claude.json")); err != nil || string(got) != want {
			t.Errorf(".claude.json is %q, %v; want %q", got, err, want)
		}
	}
	own := filepath.Join(home, ".claude.json")
	if err := os.WriteFile(own, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.makeProfile("a", &config.Agent{Kind: "claude"}, home, nil)
	if got, err := os.ReadFile(own); err != nil || string(got) != "mine" {
		t.Errorf("a file of the user became %q, %v", got, err)
	}
	elsewhere := t.TempDir()
	s.makeProfile("a", &config.Agent{Kind: "claude", Env: map[string]string{"CLAUDE_CONFIG_DIR": "/x"}}, elsewhere, nil)
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) > 0 {
		t.Errorf("made %v, %v, although the folder is set", left, err)
	}
}

// TestAgentsThatChangeOneFolderAreNamed warns of two agents whose limits do not keep them apart.
func TestAgentsThatChangeOneFolderAreNamed(t *testing.T) {
	dir := t.TempDir()
	agents := func(second string) map[string]*config.Agent {
		return map[string]*config.Agent{"a": {Kind: "codex", Permissions: "edit", Dir: dir},
			"b": {Kind: "claude", Permissions: second, Dir: dir + "/."}}
	}
	for second, want := range map[string][]string{"all": {"a, b"}, "read": nil} {
		if got := sharedFolders(agents(second)); !slices.Equal(got, want) {
			t.Errorf("with %s: %q, want %q", second, got, want)
		}
	}
}

func TestALimitWithoutEffectIsAWarning(t *testing.T) {
	_, _, log, err := newTestAgents(t, t.TempDir(),
		"[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]\nmax_processes = 60\nmax_open_files = 60\n")
	if err != nil {
		t.Fatal(err)
	}
	const want = `msg="limits of an agent have no effect" agent=a settings=max_processes reason="Linux does not limit the processes of root; set user`
	// A machine whose cgroup is delegated has no reason to warn; TestTheProcessLimitOfRootIsSetByItsCgroup has none.
	_, refused := proc.OpenCgroup()
	if warned := strings.Contains(log, want); runtime.GOOS == "linux" && warned != (os.Geteuid() == 0 && refused != nil) {
		t.Errorf("log: %s", log)
	}
}

// TestTheProcessLimitOfRootIsSetByItsCgroup has a machine that delegates a cgroup, and one that does not.
func TestTheProcessLimitOfRootIsSetByItsCgroup(t *testing.T) {
	for name, refused := range map[string]error{"delegated": nil,
		"not delegated": errors.New("cgroup /a is not delegated to the server")} {
		var log bytes.Buffer
		group := &proc.Cgroup{}
		s := &sandbox{log: slog.New(slog.NewTextHandler(&log, nil)), cgroup: func() (*proc.Cgroup, error) {
			if refused != nil {
				return nil, refused
			}
			return group, nil
		}}
		i := &proc.Isolation{Resources: proc.Resources{Processes: 60}}
		s.limitProcesses("a", i)
		root := runtime.GOOS == "linux" && os.Geteuid() == 0 // for others setrlimit(2) is enough
		if taken := i.Cgroup == group; taken != (root && refused == nil) {
			t.Errorf("%s: cgroup %v", name, i.Cgroup)
		}
		if warned := strings.Contains(log.String(), "(cgroup /a is not delegated to the server)"); warned != (root &&
			refused != nil) {
			t.Errorf("%s: log: %s", name, log.String())
		}
	}
}

func TestASubmitWithOptionsThatAnAgentDoesNotTakeIsRefused(t *testing.T) {
	_, r, _, err := newTestAgents(t, t.TempDir(),
		"[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]\n[agents.b]\nkind = \"exec\"\ncommand = [\"cat\"]\noptions = []\n"+
			"[agents.c]\nkind = \"codex\"\n[agents.d]\nkind = \"claude\"\noptions = [\"model\"]\n")
	if err != nil {
		t.Fatal(err)
	}
	for agent, refused := range map[string]bool{"a": false, "b": true, "c": true, "d": false, "echo": true, "inbox": false,
		"of a remote worker": false} {
		if err := r.checkOptions(agent, []byte(`{"model":"small"}`)); (err != nil) != refused {
			t.Errorf("agent %s: %v", agent, err)
		}
	}
}

func TestUserOfAnAgentIsChecked(t *testing.T) {
	for user, want := range map[string]string{
		"no-such-user-here": `agent a: user "no-such-user-here": user: unknown user no-such-user-here`,
		"root":              `agent a: user "root" is root; name another user`,
	} {
		if os.Geteuid() != 0 && user == "root" {
			want = `agent a: user is "root": only a server that runs as root can`
		}
		_, _, _, err := newTestAgents(t, t.TempDir(), "[agents.a]\nkind = \"exec\"\ncommand = [\"cat\"]\nuser = \""+
			user+"\"\n")
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestAWorkerHidesTheSecretsOfAServerOnItsMachine(t *testing.T) {
	base := resolvePath(t.TempDir())
	data, credentials := filepath.Join(base, "data"), filepath.Join(base, "credentials")
	settings := "[targets.hook]\nkind = \"webhook\"\nurl = \"https://alerts.example.org\"\ntoken_file = \"" + base +
		"/target\"\n" +
		"[store]\nkind = \"postgres\"\n[postgres]\nurl_file = \"" + base + "/url\"\n"
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	env := func(name string) string {
		return map[string]string{"HOME": base, "PGPASSFILE": filepath.Join(base, "passwords"),
			"CREDENTIALS_DIRECTORY": credentials}[name]
	}
	var log bytes.Buffer
	build := func(text string) *sandbox {
		if err := os.WriteFile(filepath.Join(data, "mailroom.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return newWorkSandbox(&command.Console{Data: data, Env: env}, filepath.Join(base, "token"),
			slog.New(slog.NewTextHandler(&log, nil)))
	}
	s := build(settings)
	for _, name := range []string{"data", "token", "target", "url", "passwords", "credentials"} {
		if path := filepath.Join(base, name); !slices.Contains(s.hide, path) {
			t.Errorf("hidden are %q, not %s", s.hide, path)
		}
	}
	if !slices.Contains(s.secrets, "PGPASSWORD") || log.Len() > 0 {
		t.Errorf("withheld are %q; log %s", s.secrets, log.String())
	}
	if build("nonsense"); !strings.Contains(log.String(), "its configuration cannot be read") {
		t.Errorf("a configuration that cannot be read: log %s", log.String())
	}
}

// TestARemoteWorkerHasTheIsolationOfAnAgent includes machines without a data folder.
func TestARemoteWorkerHasTheIsolationOfAnAgent(t *testing.T) {
	base := resolvePath(t.TempDir())
	token := filepath.Join(base, "token")
	if err := os.WriteFile(token, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	best, why := proc.Probe(t.Context())
	build := func(isolation, data string) (shown, log string, err error) {
		var said bytes.Buffer
		con := &command.Console{Data: data, Env: func(string) string { return "" }}
		s := newWorkSandbox(con, token, slog.New(slog.NewTextHandler(&said, nil)))
		_, err = workOptions{agent: "a", command: []string{"cat"}, isolation: isolation}.build(s)
		return s.isolationOf("a"), said.String(), err
	}
	if shown, log, err := build("none", base); err != nil || shown != "none" || strings.Count(log, "level=WARN") != 1 ||
		!strings.Contains(log, "agents=a") {
		t.Errorf("isolation none: shown as %q, %v, log %q", shown, err, log)
	}
	if shown, _, err := build("required", base); (err == nil) != (why == nil) || err == nil && shown != string(best) {
		t.Errorf("isolation required: shown as %q, %v; want %s", shown, err, best)
	}
	t.Chdir(base) // an isolation cannot hide the working directory
	if _, _, err := build("required", base); err == nil ||
		!strings.Contains(err.Error(), "the program works in the data folder itself") {
		t.Errorf("isolation required in the data folder: %v, want an error", err)
	}
	for isolation, want := range map[string]string{
		"some": `unknown isolation "some"; use auto, required`, "auto,user=": "has an empty user",
		"auto,user=no-such-user-here": "unknown user no-such-user-here",
	} {
		if _, _, err := build(isolation, base); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", isolation, err)
		}
	}
	if os.Geteuid() != 0 { // only root can run agents as another user
		return
	}
	away := filepath.Join(base, "none")
	if shown, log, err := build("none,user=nobody", away); err != nil || shown != "user nobody" || log != "" {
		t.Errorf("another user: shown as %q, %v, log %q", shown, err, log)
	}
	if err := os.Chmod(token, 0o644); err != nil {
		t.Fatal(err)
	}
	if shown, _, err := build("none,user=nobody", away); err != nil || shown != "none" {
		t.Errorf("another user who can read the token: shown as %q, %v; want an error", shown, err)
	}
}

// TestTheTrustOfCommandsIsHiddenFromAgents checks that an agent with worktrees cannot reach the file that says which
// commands of repositories may run, also if no person has written it yet.
func TestTheTrustOfCommandsIsHiddenFromAgents(t *testing.T) {
	home := resolvePath(t.TempDir())
	con := &command.Console{Env: func(name string) string { return map[string]string{"HOME": home}[name] }}
	folder := filepath.Join(home, ".config", "mailroom")
	for _, worktrees := range []bool{false, true} {
		a := &config.Agent{}
		if worktrees {
			a.Repos = []string{home}
		}
		c := &config.Config{Data: t.TempDir(), Agents: map[string]*config.Agent{"a": a}}
		c.Trust = trustFile(con, c)
		c.Private = privatePaths(con, c)
		if hidden := slices.Contains(newSandbox(c, slog.New(slog.DiscardHandler)).hide, folder); hidden != worktrees ||
			(c.Trust == filepath.Join(folder, "trust.json")) != worktrees {
			t.Errorf("with worktrees %v the trust is in %q, hidden: %v", worktrees, c.Trust, hidden)
		}
	}
}
