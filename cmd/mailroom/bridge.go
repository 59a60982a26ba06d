package main

import (
	"context"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom/channel/poll"
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/cmd/mailroom/internal/datadir"
	"mailroom/server"
)

// bridgeOptions is what mailroom bridge was asked to do.
type bridgeOptions struct {
	platform, workspace string
	agent               string
	command             []string
	tokenFile           string
	listen              string
	interval            time.Duration
}

// bridgeChannel is the name of the one channel of a bridge. The threads of its
// chats begin with it.
const bridgeChannel = "bridge"

// Variables that users of the platform know.
const (
	envPlatform  = "PLATFORM_URL"
	envWorkspace = "WORKSPACE_ID"
	envWorkToken = "MOLECULE_WORKSPACE_TOKEN"
)

func (m *Main) bridgeCommand() *cobra.Command {
	var b bridgeOptions
	cmd := &cobra.Command{
		Use:   "bridge --platform URL --workspace ID --agent NAME [flags] [-- COMMAND [ARG…]]",
		Short: "Connect an agent to a workspace of an agent platform",
		Long: `Connect an agent to a workspace of an agent platform that is asked for its messages.

It is a server of its own with a data folder of its own: messages are taken in
durably, one chat after the other is worked on in its own order, replies are sent
until the platform has taken them, and a message is acknowledged after that. It can
be killed at any time and started again.

The agent is one that "mailroom agents" shows, or, with --agent as its name, the
command behind "--", which gets a message on standard input and writes its reply to
standard output. Settings of agents are read from mailroom.toml in the data folder,
if there is one. The token is read from --token-file or MOLECULE_WORKSPACE_TOKEN;
PLATFORM_URL and WORKSPACE_ID stand for the flags.

"mailroom --data DIR channels" says how it is, and the other commands work too.`,
		Example: `  mailroom bridge --platform https://platform.example.org --workspace 6f1e… --agent codex --token-file token
  MOLECULE_WORKSPACE_TOKEN=… mailroom bridge --platform … --workspace … -- my-agent --quiet`,
	}
	flags := cmd.Flags()
	flags.StringVar(&b.platform, "platform", "", "address of the platform (default $"+envPlatform+")")
	flags.StringVar(&b.workspace, "workspace", "", "id of the workspace (default $"+envWorkspace+")")
	flags.StringVar(&b.agent, "agent", "", "agent that reads the messages, or how the command behind -- is called")
	flags.StringVar(&b.tokenFile, "token-file", "", "file with the token of the workspace (default $"+envWorkToken+")")
	flags.StringVar(&b.listen, "listen", "", "address to listen on for commands (default a free port of this machine)")
	flags.DurationVar(&b.interval, "interval", poll.DefaultInterval, "how often the platform is asked for messages")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b.command = args
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
			return exitErrorf(exitUsage, "write it behind --", "%q is no flag", args[0])
		}
		return m.bridge(cmd.Context(), b)
	}
	return cmd
}

// bridge serves one channel until ctx ends.
func (m *Main) bridge(ctx context.Context, b bridgeOptions) error {
	if err := b.applyEnv(m.Env); err != nil {
		return err
	}
	dir, err := m.bridgeDir(b.workspace)
	if err != nil {
		return err
	}
	c, err := loadConfig(dir, "")
	if err != nil {
		return err
	}
	c.DefaultListen("127.0.0.1:0")
	if b.listen != "" {
		if err := c.SetListen(b.listen); err != nil {
			return exitErrorf(exitUsage, "", "%w", err)
		}
	}
	if len(b.command) > 0 {
		if err := c.AddCommand(b.agent, b.command); err != nil {
			return exitErrorf(exitUsage, "name it with --agent", "%w", err)
		}
	}
	if err := checkAgent(c, b.agent); err != nil {
		return err
	}
	ch := config.NewChannel(config.KindPoll)
	ch.Agent, ch.Token = b.agent, config.Secret{File: b.tokenFile, Env: envWorkToken}
	ch.Platform = &config.Poll{URL: b.platform, Workspace: b.workspace, Interval: b.interval}
	c.AddChannel(bridgeChannel, ch)
	for _, warning := range c.ReadTokens(m.Env) {
		m.infof("%s", warning)
	}
	c.DefaultWhenAllDown(config.AllDownExit)
	if _, err := openPoll(poll.Options{URL: b.platform, Workspace: b.workspace, Agent: b.agent}, ch); err != nil {
		return exitErrorf(exitUsage, "set "+envWorkToken+", or name a file that holds the token with --token-file", "%w", err)
	}
	if u, err := url.Parse(b.platform); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		m.infof("nothing encrypts what goes to %s, the token neither", b.platform)
	}
	c.Command = m.programName() + " --data " + quote(string(dir))
	m.data = string(dir) // so do the hints
	m.infof("connecting workspace %s of %s to agent %s", b.workspace, b.platform, b.agent)
	if err := m.serve(ctx, dir, c); err != nil {
		return m.explainServeError(err)
	}
	return nil
}

// checkAgent refuses an agent that cannot run here.
func checkAgent(c *config.Config, agent string) error {
	r, err := newAgentSet(c, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return exitErrorf(exitUsage, "", "%w", err)
	}
	d := r.programs.describe(agent, server.AgentInfo{})
	known := "choose one of " + strings.Join(slices.Sorted(maps.Keys(r.agents)), ", ") + ", or give a command behind --"
	switch {
	case d.Disabled:
		return exitErrorf(exitUsage, known, "agent %s cannot be used: %s", agent, d.Problem)
	case r.agents[agent].Agent == nil:
		return exitErrorf(exitUsage, known, "there is no agent %q", agent)
	}
	return nil
}

// applyEnv takes what no flag says from the environment, and refuses what is
// missing.
func (b *bridgeOptions) applyEnv(env func(string) string) error {
	for _, from := range []struct {
		value     *string
		flag, env string
	}{
		{&b.platform, "--platform", envPlatform},
		{&b.workspace, "--workspace", envWorkspace},
	} {
		if *from.value == "" {
			*from.value = strings.TrimSpace(env(from.env))
		}
		if *from.value == "" {
			return exitErrorf(exitUsage, "give "+from.flag+", or set "+from.env, "it is not said which %s", strings.TrimPrefix(from.flag, "--"))
		}
	}
	if _, err := poll.CheckURL(b.platform); err != nil {
		return exitErrorf(exitUsage, "", "--platform: %w", err)
	}
	if b.agent == "" && len(b.command) > 0 {
		b.agent = filepath.Base(b.command[0])
	}
	if b.agent == "" {
		return exitErrorf(exitUsage, "name one with --agent, or give a command behind --", "no agent is named")
	}
	if b.interval <= 0 {
		return exitErrorf(exitUsage, "give a time such as 2s", "--interval is %s", b.interval)
	}
	return nil
}

// bridgeDir is the data folder of a bridge: the one that is named, or one beside
// the usual one, for this workspace alone.
func (m *Main) bridgeDir(workspace string) (datadir.Dir, error) {
	if m.data != "" || m.Env("MAILROOM_DATA") != "" {
		dir, err := datadir.Find(m.data, m.Env)
		if err != nil {
			return "", exitErrorf(exitUsage, "", "%w", err)
		}
		return dir, nil
	}
	usual, err := datadir.Default(m.Env)
	if err != nil {
		return "", exitErrorf(exitUsage, "", "%w", err)
	}
	return datadir.Dir(string(usual) + "-bridge-" + url.QueryEscape(workspace)), nil
}
