package worktree

import "testing"

func TestTheHostOfARemoteChoosesTheProgram(t *testing.T) {
	for remote, want := range map[string]string{
		"https://github.com/ann/roof.git": "gh", "git@github.com:ann/gitlab-tools.git": "gh",
		"https://github.example.org/gitlab/roof": "gh", "https://gitlab.com/ann/roof.git": "glab",
		"git@gitlab.example.org:ann/roof.git": "glab", "ssh://git@gitlab.example.org:2222/ann/roof": "glab",
	} {
		if got := forgeOf(remote).program; got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
