package node

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

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/channel/poll"
	"mailroom/internal/netguard"
	"mailroom/internal/setting"
	"mailroom/server"
)

// bridgeOptions are the options of mailroom bridge.
type bridgeOptions struct {
	platform, workspace string
	agent               string
	command             []string
	tokenFile           string
	listen              string
	interval            time.Duration
}

// bridgeChannel is the name of a bridge's only channel and the prefix of its threads.
const bridgeChannel = "bridge"

// Environment variables that the command line tools of the platform also read.
const (
	envPlatform  = "PLATFORM_URL"
	envWorkspace = "WORKSPACE_ID"
	envWorkToken = "MOLECULE_WORKSPACE_TOKEN"
)

func bridgeCommand(con *command.Console) *cobra.Command {
	var b bridgeOptions
	cmd := &cobra.Command{
		Use:   "bridge --platform URL --workspace ID --agent NAME [flags] [-- COMMAND [ARG…]]",
		Short: "Connect an agent to a workspace of an agent platform",
		Long: `Connect an agent to a workspace of an agent platform by polling it for messages.

A bridge is a separate server with its own data folder. It stores each message
durably, runs each chat in order, sends each reply until the platform accepts it,
and then acknowledges the message. It can be killed and restarted at any time.

The agent is one that "mailroom agents" lists, or the command after "--", which
reads a message on standard input and writes its reply to standard output; --agent
then names it. Agent settings come from mailroom.toml in the data folder, if it
exists. The token comes from --token-file or MOLECULE_WORKSPACE_TOKEN; PLATFORM_URL
and WORKSPACE_ID replace the flags.

"mailroom --data DIR channels" shows the state of the bridge. The other commands
work with --data too.`,
		Example: `  mailroom bridge --platform https://platform.example.org --workspace 6f1e… --agent codex --token-file token
  MOLECULE_WORKSPACE_TOKEN=… mailroom bridge --platform … --workspace … -- my-agent --quiet`,
	}
	flags := cmd.Flags()
	flags.StringVar(&b.platform, "platform", "", "address of the platform (default $"+envPlatform+")")
	flags.StringVar(&b.workspace, "workspace", "", "id of the workspace (default $"+envWorkspace+")")
	flags.StringVar(&b.agent, "agent", "", "agent that handles the messages, or a name for the command after --")
	flags.StringVar(&b.tokenFile, "token-file", "", "file with the workspace token (default $"+envWorkToken+")")
	flags.StringVar(&b.listen, "listen", "", "address to listen on for commands (default a free port on localhost)")
	flags.DurationVar(&b.interval, "interval", poll.DefaultInterval, "polling interval")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b.command = args
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
			return command.Errorf(command.ExitUsage, "write the command after --", "unexpected argument %q", args[0])
		}
		return runBridge(cmd.Context(), con, b)
	}
	return cmd
}

// runBridge serves one channel until ctx is done.
func runBridge(ctx context.Context, con *command.Console, b bridgeOptions) error {
	if err := b.applyEnv(con.Env); err != nil {
		return err
	}
	dir, err := bridgeDir(con, b.workspace)
	if err != nil {
		return err
	}
	c, err := loadConfig(con, dir, "")
	if err != nil {
		return err
	}
	c.DefaultListen("127.0.0.1:0")
	if b.listen != "" {
		if err := c.SetListen(b.listen); err != nil {
			return command.Errorf(command.ExitUsage, "", "%w", err)
		}
	}
	if len(b.command) > 0 {
		if err := c.AddCommand(b.agent, b.command); err != nil {
			return command.Errorf(command.ExitUsage, "set a name with --agent", "%w", err)
		}
	}
	if err := checkLocalAgent(c, b.agent, ", or a command after --"); err != nil {
		return err
	}
	ch := c.NewChannel(poll.NewKind())
	token := ch.Secrets()[0]
	*token = setting.Secret{File: b.tokenFile, Env: envWorkToken}
	o := ch.Settings.Options.(*poll.Options)
	o.URL, o.Workspace, o.Interval, o.Agent = b.platform, b.workspace, b.interval, b.agent
	ch.Agent = b.agent
	c.Channels[bridgeChannel] = ch
	for _, warning := range c.ReadTokens(con.Env) {
		con.Infof("%s", warning)
	}
	c.DefaultWhenAllDown(config.AllDownExit)
	if _, err := poll.Open(*o, token); err != nil {
		return command.Errorf(command.ExitUsage, "set "+envWorkToken+" or --token-file", "%w", err)
	}
	if u, err := url.Parse(b.platform); err == nil && u.Scheme == "http" && !netguard.Local(u.Hostname()) {
		con.Infof("warning: the connection to %s is not encrypted, and neither is the token sent over it", b.platform)
	}
	con.Data = string(dir) // hints of errors name the data folder
	con.UseAbsolutePaths()
	c.Command = con.CommandPrefix()
	con.Infof("connecting workspace %s of %s to agent %s", b.workspace, b.platform, b.agent)
	if err := serve(ctx, con, dir, c, nil); err != nil {
		return explainServeError(con, err)
	}
	return nil
}

// CheckAgent returns an error if the agent can run neither here nor, as the configuration says, at a worker elsewhere.
func CheckAgent(c *config.Config, agent string) error {
	if a := c.Agents[agent]; a != nil && a.Kind == config.KindRemote {
		return nil
	}
	return checkLocalAgent(c, agent, `, or serve it by a worker and add a table for it with kind = "remote"`)
}

// checkLocalAgent returns an error if the agent cannot run here. or ends its hint, which lists the agents that can.
func checkLocalAgent(c *config.Config, agent, or string) error {
	r, err := newAgentSet(c, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return command.Errorf(command.ExitUsage, "", "%w", err)
	}
	d := r.programs.describe(agent, server.AgentInfo{})
	known := "use " + strings.Join(slices.Sorted(maps.Keys(r.agents)), ", ") + or
	switch {
	case d.Disabled:
		return command.Errorf(command.ExitUsage, known, "agent %s is unavailable: %s", agent, d.Problem)
	case r.agents[agent].Agent == nil:
		return command.Errorf(command.ExitUsage, known, "unknown agent %q", agent)
	}
	return nil
}

// applyEnv fills unset options from the environment and validates the result.
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
			return command.Errorf(command.ExitUsage, "set "+from.flag+" or "+from.env, "missing %s",
				strings.TrimPrefix(from.flag, "--"))
		}
	}
	if _, err := setting.ParseBaseURL(b.platform, "https://platform.example.org"); err != nil {
		return command.Errorf(command.ExitUsage, "", "--platform: %w", err)
	}
	if b.agent == "" && len(b.command) > 0 {
		b.agent = filepath.Base(b.command[0])
	}
	if b.agent == "" {
		return command.Errorf(command.ExitUsage, "set --agent, or write a command after --", "missing agent")
	}
	if b.interval <= 0 {
		return command.Errorf(command.ExitUsage, "use a duration such as 2s", "invalid --interval %s", b.interval)
	}
	return nil
}

// bridgeDir returns the data folder of a bridge: the given one, or a folder for this
// workspace next to the default data folder.
func bridgeDir(con *command.Console, workspace string) (datadir.Dir, error) {
	if con.Data != "" || con.Env("MAILROOM_DATA") != "" {
		dir, err := datadir.Find(con.Data, con.Env)
		if err != nil {
			return "", command.Errorf(command.ExitUsage, "", "%w", err)
		}
		return dir, nil
	}
	usual, err := datadir.Default(con.Env)
	if err != nil {
		return "", command.Errorf(command.ExitUsage, "", "%w", err)
	}
	return datadir.Dir(string(usual) + "-bridge-" + url.QueryEscape(workspace)), nil
}
