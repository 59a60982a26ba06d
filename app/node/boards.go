package node

import (
	"fmt"
	"log/slog"

	"mailroom/app/config"
	"mailroom/channel"
	"mailroom/engine"
	"mailroom/internal/setting"
	"mailroom/issues/board"
	"mailroom/issues/board/github"
	"mailroom/issues/board/linear"
	"mailroom/issues/workflow"
	"mailroom/ledger"
)

// newBoardChannel returns the runner of a board's channel. Its token is read again for each connection.
func newBoardChannel(
	c *config.Config, name string, agents map[string]engine.Agent, l *ledger.Ledger, log *slog.Logger,
) *channel.Runner {
	b := c.Boards[name]
	o := channel.Options{Name: name, Kind: b.Kind, Ledger: l, Log: log}
	var template *workflow.File
	if b.Workflow != "" {
		template = workflow.NewPrompt(b.Workflow)
	}
	w, err := board.New(board.Options{
		Kind: b.Kind, Place: b.Place(), Open: func() (board.Board, error) { return openBoard(b) },
		Agent: b.Agent, Agents: b.Agents, Labels: b.Labels, MaxClaims: b.MaxClaims, KeepOpen: b.KeepOpen,
		Interval: b.Interval, Command: c.Command,
		Workflow: template,
	})
	if err != nil {
		o.Connect = channel.Broken(err)
	} else {
		o.Connect, o.Reconnect = w.Connect, w.ReconnectPolicy()
	}
	for _, agent := range append([]string{b.Agent}, b.Agents...) {
		if agents[agent].Agent == nil {
			log.Warn("agent of board is not run by this server; its issues wait for a remote worker", "channel", name,
				"agent", agent)
		}
	}
	return channel.New(o)
}

// openBoard returns the board of a table. Its kind decides which; the token is read again at each call.
func openBoard(b *config.Board) (board.Board, error) {
	token, err := b.Token.Get()
	if err != nil {
		return nil, err
	}
	base, err := setting.ParseBaseURL(b.URL, "https://api.example.org")
	if err != nil {
		return nil, err
	}
	switch b.Kind {
	case config.BoardGitHub:
		return github.New(github.Options{Base: base, Repo: b.Repository, Token: token, Labels: b.Labels, Marks: b.Marks,
			WritePause: b.WritePause})
	case config.BoardLinear:
		return linear.New(linear.Options{Base: base, Token: token, Project: b.Project, Team: b.Team, Labels: b.Labels,
			Active: b.Active, Done: b.Done})
	}
	return nil, fmt.Errorf("unknown kind of board %q", b.Kind)
}
