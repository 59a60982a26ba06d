package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/reserved"
	"mailroom/issues/board/boardtest"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
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

// TestNoPullRequestIsOpenedForWhatHasEnded revokes the token of one of two servers, and deletes threads.
func TestNoPullRequestIsOpenedForWhatHasEnded(t *testing.T) {
	twoOnOneStore(t, func(t *testing.T, here, there *ledger.Ledger) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		ask := func(owner, id string) (why string) {
			must(here.View(context.Background(), func(r store.Reader) (err error) {
				why, err = pullEnded(r, reserved.PullsID(owner, id), id, time.Now())
				return err
			}))
			return why
		}
		for _, name := range []string{"alice", "bob"} {
			_, err := there.Accounts().CreateToken(t.Context(), auth.Token{Name: name, Sum: name,
				Scopes: []auth.Permission{auth.PermissionSubmit}})
			must(err)
		}
		for id, owner := range map[string]string{"a": "alice", "b": "bob", "o": auth.Operator, "d": auth.Operator} {
			_, err := there.Submit(t.Context(), thread.Submit{Thread: id, Agent: "coder", Owner: owner,
				Messages: []thread.NewMessage{{Parts: mailroom.Text("go")}}, Origin: mailroom.Origin{Via: "user"}})
			must(err)
			if why := ask(owner, id); why != "" {
				t.Errorf("the thread %s of %s: %s", id, owner, why)
			}
		}
		must(there.Accounts().RevokeToken(t.Context(), "bob"))
		_, err := there.Interrupt(t.Context(), "d", auth.NewOperator("secret"))
		must(err)
		must(there.DeleteThread(t.Context(), "d", auth.NewOperator("secret")))
		for _, test := range []struct{ owner, id, want string }{
			{"bob", "b", "the token bob was revoked"}, {auth.Operator, "d", "the thread d was deleted"},
			{auth.Operator, "none", "the thread none was deleted"}, {auth.Operator, "a", "the thread a was deleted"},
			{"alice", "a", ""}, {auth.Operator, "o", ""},
		} {
			if why := ask(test.owner, test.id); !strings.HasPrefix(why, test.want) || (why == "") != (test.want == "") {
				t.Errorf("the thread %s of %s: %q, want %q", test.id, test.owner, why, test.want)
			}
		}
	})
}
