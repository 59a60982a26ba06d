package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/internal/setting"
)

const roofBoard = "[boards.roof]\nkind = \"github\"\nrepository = \"ann/roof\"\nagent = \"echo\"\n" +
	"labels = [\"agent\"]\ntoken_env = \"T\"\n"

const projectBoard = "[boards.roof]\nkind = \"linear\"\nproject = \"roof-1a2b\"\nagent = \"echo\"\n" +
	"labels = [\"agent\"]\ntoken_env = \"T\"\n"

func TestABoardRoundTrips(t *testing.T) {
	c, err := parse("f.toml", []byte(roofBoard+"agents = [\"codex\", \"echo\"]\nmax_claimed = 3\n"+
		"when_done = \"comment\"\ninterval = \"5s\"\nurl = \"https://github.example.org/api/v3\"\n"+
		"marks = \"bot-\"\nwrite_pause = \"2s\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Board{
		Kind: BoardGitHub, Agent: "echo", Agents: []string{"codex"}, Labels: []string{"agent"}, MaxClaims: 3, KeepOpen: true,
		Interval: 5 * time.Second, URL: "https://github.example.org/api/v3", Token: &setting.Secret{Env: "T"},
		Webhook:    &setting.Secret{},
		Repository: "ann/roof", Marks: "bot-", WritePause: 2 * time.Second,
	}
	same := cmpopts.IgnoreUnexported(setting.Secret{})
	if diff := cmp.Diff(want, c.Boards["roof"], same); diff != "" {
		t.Error(diff)
	}
	again, err := parse("again.toml", []byte(c.TOML(false)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again.Boards["roof"], same); diff != "" {
		t.Errorf("printed and parsed again: %s", diff)
	}
}

// TestABoardGivesFourIssuesAtOnceIfItsAgentsWorkInWorktrees leaves one at once for agents that share a folder.
func TestABoardGivesFourIssuesAtOnceIfItsAgentsWorkInWorktrees(t *testing.T) {
	const agents = "[agents.tree]\nkind = \"codex\"\ndir = \"/roof\"\nworkspace = \"worktree\"\n" +
		"[agents.folder]\nkind = \"codex\"\ndir = \"/roof\"\n"
	for text, want := range map[string]int{
		"":                                     4,
		"agents = [\"folder\"]\n":              1,
		"max_claimed = 2\n":                    2,
		"agents = [\"tree\", \"elsewhere\"]\n": 1,
	} {
		c, err := parse("", []byte(agents+strings.Replace(roofBoard, `"echo"`, `"tree"`, 1)+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Boards["roof"].MaxClaims; got != want {
			t.Errorf("%q: %d issues at once, want %d", text, got, want)
		}
	}
}

func TestErrorsOfABoardNameTheKey(t *testing.T) {
	without := func(key string) string {
		var kept []string
		for line := range strings.Lines(roofBoard) {
			if !strings.HasPrefix(line, key) {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	with := func(key, value string) string { return without(key) + key + " = " + value }
	const noToken = `boards.roof: missing token; set either token_env or token_file (the configuration never contains ` +
		`the token itself)`
	const noLabels = `boards.roof: missing labels; set some such as labels = ["agent"], because strangers may open issues`
	for name, test := range map[string]struct {
		file string
		line int
		want string
	}{
		"no table": {"boards = 1", 1, `boards: not a table; use [boards.NAME]`},
		"no name": {"[boards]\nkind = \"github\"", 2,
			`boards.kind: "kind" is not a table; use [boards.NAME] for the settings of one board`},
		"no kind": {without("kind"), 1, `boards.roof: missing kind; use one of github, linear`},
		"a kind":  {with("kind", `"jira"`), 6, `boards.roof.kind: "jira" is not one of github, linear`},
		"no repository": {without("repository"), 1,
			`boards.roof: missing repository; set one such as repository = "ann/roof"`},
		"an address": {with("repository", `"https://github.com/ann/roof"`), 6,
			`boards.roof.repository: "https://github.com/ann/roof" is not a repository such as "ann/roof"`},
		"a way out": {with("repository", `"ann/.."`), 6,
			`boards.roof.repository: "ann/.." is not a repository such as "ann/roof"`},
		"no agent":        {without("agent"), 1, `boards.roof: missing agent; set one such as agent = "codex"`},
		"no labels":       {without("labels"), 1, noLabels},
		"no label at all": {with("labels", "[]"), 1, noLabels},
		"a comma": {with("labels", `["a,b"]`), 6,
			`boards.roof.labels: "a,b" is not a label of up to 50 characters without a comma, such as "agent"`},
		"no token":   {without("token_env"), 1, noToken},
		"two tokens": {roofBoard + "token_file = \"/t\"", 1, noToken},
		"the token itself": {roofBoard + `token = "ghp_1"`, 7, `boards.roof.token: unknown key; known keys: kind, agent, ` +
			`agents, labels, token_env, token_file, repository, marks, write_pause, ` +
			`webhook_env, webhook_file, max_claimed, ` +
			`when_done, workflow, interval, url`},
		"no marks": {with("marks", `""`), 7,
			`boards.roof.marks: "" is not up to 30 letters, digits and "._-", such as "mailroom-"`},
		"no claims": {with("max_claimed", "0"), 7, `boards.roof.max_claimed: 0 is not a whole number from 1 to 500`},
		"too often": {with("interval", `"1ms"`), 7,
			`boards.roof.interval: "1ms" is not a duration from 10ms to 1h, such as "1m30s"`},
		"no address": {with("url", `"api.github.com"`), 7,
			`boards.roof.url: "api.github.com" is not an address, such as "https://platform.example.org"`},
		"a typo":    {with("when_dome", `"close"`), 7, `boards.roof.when_dome: unknown key (did you mean "when_done"?)`},
		"no ending": {with("when_done", `"merge"`), 7, `boards.roof.when_done: "merge" is not one of close, comment`},
		"the server": {strings.Replace(roofBoard, "roof", "issue", 1), 1,
			`boards.issue: the name "issue" is reserved, because ids of threads begin with it: use another name`},
		"a channel": {strings.Replace(good, "mol", "roof", 1) + "token_env = \"A\"\n" + roofBoard, 7,
			`boards.roof: a channel has this name too; choose another name for one of them`},
		"twice": {roofBoard + strings.NewReplacer("boards.roof", "boards.top", "ann/roof", "Ann/Roof").Replace(roofBoard), 7,
			`boards.top: board roof shows Ann/Roof too, and both would do its issues; use one board, ` +
				`whose issues select other agents with labels agent:NAME`},
		"a project twice": {projectBoard + strings.NewReplacer("boards.roof", "boards.top", "roof-1a2b", "1A2B").
			Replace(projectBoard), 7, `boards.top: board roof shows 1A2B too, and both would do its issues; use one board, ` +
			`whose issues select other agents with labels agent:NAME`},
		"two secrets": {roofBoard + "webhook_env = \"A\"\nwebhook_file = \"/a\"", 1,
			`boards.roof: two secrets of the webhook; set either webhook_env or webhook_file`},
		"no team": {"[boards.eng]\nkind = \"linear\"\nagent = \"echo\"\nlabels = [\"a\"]\ntoken_env = \"T\"\n", 1,
			`boards.eng: missing project or team; set one such as team = "ENG"`},
		"a repository of Linear": {with("kind", `"linear"`), 2, `boards.roof.repository: unknown key; known keys: kind, ` +
			`agent, agents, labels, token_env, token_file, project, team, active, done, ` +
			`webhook_env, webhook_file, max_claimed, when_done, ` +
			`workflow, interval, url`},
	} {
		t.Run(name, func(t *testing.T) { refused(t, test.file, fmt.Sprintf("f.toml:%d: %s", test.line, test.want)) })
	}
}

func TestABoardOfLinearRoundTrips(t *testing.T) {
	c, err := parse("f.toml", []byte("[boards.eng]\nkind = \"linear\"\nteam = \"ENG\"\nproject = \"roof-1a2b\"\n"+
		"agent = \"echo\"\nlabels = [\"Agent\"]\ntoken_env = \"T\"\nactive = [\"Todo\"]\ndone = \"In Review\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := parse("again.toml", []byte(c.TOML(false)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Config{c, again} {
		b := c.Boards["eng"]
		if b.Team != "ENG" || b.Project != "roof-1a2b" || b.Done != "In Review" ||
			!slices.Equal(b.Active, []string{"Todo"}) || b.URL != "https://api.linear.app" || b.Place() != "roof-1a2b of ENG" {
			t.Errorf("%+v, %s", b, b.Place())
		}
	}
}

func TestTheTablesOfTheManualFollowTheBoards(t *testing.T) {
	var tables []manualTable
	for _, k := range boardKinds() {
		b := newBoard(k.name)
		own := settingsTable(k.settings(b))
		own[0] = "| setting of " + k.name + " | default | meaning |"
		if len(tables) == 0 {
			all := b.settings()
			for n := range k.settings(b) { // the settings of all kinds
				at := slices.IndexFunc(all, func(s setting.Setting) bool { return s.Key == k.settings(b)[n].Key })
				all = slices.Delete(all, at, at+1)
			}
			tables = append(tables, settingsTable(all[1:]))
		}
		tables = append(tables, own)
	}
	check(t, "../../docs/boards.md", tables...)
}
