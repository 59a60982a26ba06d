package node

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/issues/board/boardtest"
)

// TestTheTokenOfPullRequestsIsOfTheServerOnly opens one with the token of the settings, which programs do not get.
func TestTheTokenOfPullRequestsIsOfTheServerOnly(t *testing.T) {
	f := boardtest.NewGitHub(t)
	base := resolvePath(t.TempDir())
	token := filepath.Join(base, "token")
	data, err := filepath.Join(base, "data"), os.WriteFile(token, []byte(boardtest.Token+"\n"), 0o600)
	if err == nil {
		err = os.Mkdir(data, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	const worktrees = "kind = \"exec\"\ncommand = [\"cat\"]\ndir = \"/tmp\"\nworkspace = \"worktree\"\n" +
		"push = \"origin\"\npull_request = true\nenv_allow = [\"PULL_TOKEN\"]\n"
	c, r, _, err := newTestAgents(t, data, "[agents.a]\n"+worktrees+
		"pull_token_file = \""+token+"\"\npull_url = \""+f.URL+"\"\n[agents.b]\n"+worktrees+
		"pull_token_env = \"PULL_TOKEN\"\n[agents.c]\n"+worktrees)
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range c.ReadTokens(func(name string) string { return "value of " + name }) {
		t.Error(warning)
	}
	a, err := r.sandbox.confine("a", c.Agents["a"])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(a.isolation.Hide, token) || len(a.allowed([]string{"PULL_TOKEN"})) > 0 {
		t.Errorf("programs can read the token: hidden are %q", a.isolation.Hide)
	}
	if elsewhere := a.worktrees.Pulls("git@github.com:ann/roof.git"); elsewhere != nil {
		t.Errorf("the token of %s is used for another host", f.URL)
	}
	pulls := a.worktrees.Pulls("ssh://git@127.0.0.1:22/ann/roof.git")
	if pulls == nil {
		t.Fatal("the token is not used")
	}
	address, err := pulls.Open(t.Context(), "b", "Fix it", "Because")
	if all := f.PullsOf("b"); err != nil || len(all) != 1 || address != all[0].URL || all[0].Title != "Fix it" {
		t.Errorf("opened %q, %v: %+v", address, err, all)
	}
	if err := os.WriteFile(token, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pulls.Find(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("the token is not read again: %v", err)
	}
	b, err := r.sandbox.confine("b", c.Agents["b"])
	if err != nil || b.worktrees.Pulls("git@github.com:ann/roof.git") == nil {
		t.Errorf("the token of a variable is not used: %v", err)
	}
	if got, err := c.Agents["b"].PullToken.Get(); got != "value of PULL_TOKEN" || err != nil {
		t.Errorf("the token of the variable is %q, %v", got, err)
	}
	if none, err := r.sandbox.confine("c", c.Agents["c"]); err != nil || none.worktrees.Pulls != nil {
		t.Errorf("an agent without a token has the API: %v", err)
	}
}
