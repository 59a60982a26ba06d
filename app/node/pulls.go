package node

import (
	"fmt"
	"time"

	"mailroom/agent/exec/worktree"
	"mailroom/app/config"
	"mailroom/internal/setting"
	"mailroom/issues/board/github"
)

// newPulls returns how the pull requests of an agent are opened over the API of GitHub, or nil if it has no token for
// that. The token is read again at each call.
func newPulls(a *config.Agent) (func(address string) worktree.Pulls, error) {
	if !a.PullToken.IsSet() {
		return nil, nil
	}
	base, err := setting.ParseBaseURL(a.PullURL, "https://api.github.com")
	if err != nil {
		return nil, fmt.Errorf("pull_url: %w", err)
	}
	// GitHub asks for a second, as in github.Options.
	pulls := github.NewPulls(github.PullOptions{Base: base, Token: a.PullToken.Get, WritePause: time.Second})
	return func(address string) worktree.Pulls {
		if of := pulls.Of(address); of != nil {
			return of
		}
		return nil
	}, nil
}
