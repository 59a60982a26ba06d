package node

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"mailroom/app/config"
	"mailroom/channel"
	"mailroom/channel/httpcall"
	"mailroom/channel/webhook"
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
	c *config.Config, name string, agents map[string]engine.Agent, hooks *webhook.Hooks, l *ledger.Ledger,
	log *slog.Logger,
) *channel.Runner {
	b := c.Boards[name]
	o := channel.Options{Name: name, Kind: b.Kind, Ledger: l, Log: log}
	var template *workflow.File
	if b.Workflow != "" {
		template = workflow.NewPrompt(b.Workflow)
	}
	hintPause := time.Duration(0) // the default
	if b.Kind == config.BoardLinear {
		hintPause = linear.HintPause
	}
	w, err := board.New(board.Options{
		Kind: b.Kind, Place: b.Place(), Open: func() (board.Board, error) { return openBoard(b) },
		Agent: b.Agent, Agents: b.Agents, Labels: b.Labels, MaxClaims: b.MaxClaims, KeepOpen: b.KeepOpen,
		Interval: b.Interval, HintPause: hintPause, Command: c.Command,
		Workflow: template,
	})
	if err != nil {
		o.Connect = channel.Broken(err)
	} else {
		o.Connect, o.Reconnect = w.Connect, w.ReconnectPolicy()
		if b.Webhook.IsSet() {
			hooks.ExpectHints(name, hintOf(b, w))
		}
	}
	for _, agent := range append([]string{b.Agent}, b.Agents...) {
		if agents[agent].Agent == nil {
			log.Warn("agent of board is not run by this server; its issues wait for a remote worker", "channel", name,
				"agent", agent)
		}
	}
	return channel.New(o)
}

// minHookSecret is the shortest secret of a webhook, in bytes.
const minHookSecret = 16

// hintOf returns what the webhook of a board does. It only starts a poll, so a request that is replayed harms nothing.
func hintOf(b *config.Board, w *board.Watcher) webhook.Hint {
	header, prefix := "Linear-Signature", "" // https://linear.app/developers/webhooks
	if b.Kind == config.BoardGitHub {
		// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
		header, prefix = "X-Hub-Signature-256", "sha256="
	}
	return webhook.Hint{Header: header, Poll: w.Hint, Check: func(signature string, body []byte) (bool, error) {
		secret, err := b.Webhook.Get()
		if err == nil && len(secret) < minHookSecret {
			err = fmt.Errorf("the secret of the webhook has %d bytes, but at least %d are required", len(secret), minHookSecret)
		}
		signature, marked := strings.CutPrefix(signature, prefix)
		return err == nil && marked && httpcall.CheckHex(secret, signature, body), err
	}}
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
