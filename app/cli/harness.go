package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/api"
	"mailroom/app/command"
	"mailroom/app/endpoint"
	"mailroom/auth"
	"mailroom/client"
	"mailroom/internal/check"
)

// connection is what connects a harness with an inbox: an entry in the configuration of the harness, and a token that
// the entry names by its context.
type connection struct {
	harness harness
	thread  string // the inbox
	context string // name of the context with the token
	own     bool   // the context is of this command, which makes and removes it
}

// harnessFlags adds the flags of connect and disconnect that say what to change.
func (n *connection) harnessFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.thread, "inbox", "", "thread that is the inbox (default inbox-of-HARNESS)")
	cmd.Flags().StringVar(&n.context, "as", "",
		"context whose token the sessions use (default: mailroom-HARNESS, with a token of its own)")
}

// read completes the connection from the argument of a command.
func (n *connection) read(cmd *cobra.Command, name string) (err error) {
	var ok bool
	if n.harness, ok = harnesses()[name]; !ok {
		return command.UsageErrorf(cmd, "unknown program %q; use claude or codex", name)
	}
	if n.thread == "" {
		n.thread = "inbox-of-" + name
	}
	if n.thread, err = check.ThreadID(n.thread); err != nil {
		return command.UsageErrorf(cmd, "--inbox: %w", err)
	}
	if n.context == "" {
		n.context, n.own = "mailroom-"+name, true
	}
	return nil
}

// entry returns the entry that the harness has when it is connected.
func (n *connection) entry() (serverEntry, error) {
	program, err := os.Executable()
	e := serverEntry{Command: program, Args: []string{"mcp", "--context", n.context, "--thread", n.thread}}
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" { // codex passes its servers HOME, but not this one
		e.Env = map[string]string{"XDG_CONFIG_HOME": dir}
	}
	return e, err
}

func connectCommand(con *command.Console) *cobra.Command {
	var n connection
	var yes, only bool
	cmd := &cobra.Command{
		Use:   "connect claude|codex",
		Short: "Give the sessions of a coding program an inbox",
		Long: `Give the sessions of a coding program an inbox that rings them: add the MCP server
mailroom to the user's configuration of claude or codex, by the command of that program,
and make a token for it, which is kept as a context. The command shows what it will change
and asks. It changes no entry that it has not made, and changes nothing the second time;
"mailroom disconnect" takes it back.

Exit codes: 0 connected, or with --check it is; 1 not; 2 invalid usage; 4 no server.`,
		Example: `  mailroom connect claude
  mailroom connect codex --inbox reviews --yes
  mailroom connect claude --check`,
		Args: cobra.ExactArgs(1),
	}
	n.harnessFlags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&only, "check", false, "change nothing; fail if it is not connected")
	cmd.ValidArgs = []string{"claude", "codex"}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := n.read(cmd, args[0]); err != nil {
			return err
		}
		if only {
			return n.check(cmd.Context(), con)
		}
		return n.connect(cmd.Context(), con, yes)
	}
	return cmd
}

func disconnectCommand(con *command.Console) *cobra.Command {
	var n connection
	var yes bool
	cmd := &cobra.Command{
		Use:   "disconnect claude|codex",
		Short: "Take back what connect has changed",
		Long: `Take back what "mailroom connect" has changed: remove the MCP server mailroom from the
configuration of claude or codex, and the context and the token that connect has made.
The inbox stays, with what waits in it.`,
		Example: `  mailroom disconnect claude`,
		Args:    cobra.ExactArgs(1),
	}
	n.harnessFlags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.ValidArgs = []string{"claude", "codex"}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := n.read(cmd, args[0]); err != nil {
			return err
		}
		return n.disconnect(cmd.Context(), con, yes)
	}
	return cmd
}

// state is what of a connection exists.
type state struct {
	want, found serverEntry
	entry       bool // the harness has an entry of the name
	same        bool // it is the wanted one
	context     bool // the context exists
}

// look returns what exists. It refuses an entry that is not of this command.
func (n *connection) look(ctx context.Context, con *command.Console) (s state, err error) {
	if s.want, err = n.entry(); err != nil {
		return s, command.Errorf(command.ExitFailed, "", "find this program: %w", err)
	}
	if s.found, s.entry, err = n.harness.find(ctx, con); err != nil {
		return s, err
	}
	s.same = s.entry && s.found.equal(s.want)
	if s.entry && !s.found.isOwn() {
		return s, command.Errorf(command.ExitFailed, "remove it with `"+n.harness.words(n.harness.remove())+"`, or keep it",
			"%s has an MCP server %s that this command has not made: %s", n.harness.name, entryName, s.found)
	}
	all, err := readContexts(con)
	_, s.context = all.Contexts[n.context]
	return s, err
}

func (n *connection) check(ctx context.Context, con *command.Console) error {
	s, err := n.look(ctx, con)
	hint := "connect it with `" + con.CommandLine("connect", n.harness.name) + "`"
	switch {
	case err != nil:
		return err
	case !s.entry:
		return command.Errorf(command.ExitFailed, hint, "%s is not connected", n.harness.name)
	case !s.same:
		return command.Errorf(command.ExitFailed, hint, "%s is connected in another way: %s", n.harness.name, s.found)
	case !s.context:
		return command.Errorf(command.ExitFailed, hint, "the context %s is missing", n.context)
	}
	own := *con
	own.Context, own.Data = n.context, ""
	server, err := endpoint.FindNamed(&own)
	if err != nil {
		return err
	}
	if _, err := server.Client(client.WithMaxAttempts(1)).Accounts().Session(ctx); err != nil {
		return command.Errorf(command.ExitServer, "", "%s with the token of the context %s: %w", server.URL, n.context, err)
	}
	return con.Printf("%s is connected with the inbox %s\n", n.harness.name, n.thread)
}

func (n *connection) connect(ctx context.Context, con *command.Console, yes bool) error {
	s, err := n.look(ctx, con)
	if err != nil {
		return err
	}
	if !s.context && !n.own {
		return command.Errorf(command.ExitUsage, "add it with `mailroom context add`", "no context %q", n.context)
	}
	var plan []string
	if !s.context {
		plan = append(plan, fmt.Sprintf("make the token %s (%s) and keep it as the context of that name", n.context,
			strings.Join(connectScopes(), ", ")))
	}
	if s.entry && !s.same {
		plan = append(plan, "run: "+n.harness.words(n.harness.remove()))
	}
	if !s.same {
		plan = append(plan, "run: "+n.harness.words(n.harness.add(s.want)))
	}
	if len(plan) == 0 {
		return con.Printf("%s is connected with the inbox %s\n", n.harness.name, n.thread)
	}
	if err := confirm(con, plan, yes); err != nil {
		return err
	}
	if !s.context {
		if err := n.makeContext(ctx, con); err != nil {
			return err
		}
	}
	if s.entry && !s.same {
		if err := n.harness.run(ctx, n.harness.remove()); err != nil {
			return err
		}
	}
	if !s.same {
		if err := n.harness.run(ctx, n.harness.add(s.want)); err != nil {
			return err
		}
	}
	if s, err = n.look(ctx, con); err != nil {
		return err
	}
	if !s.same {
		return command.Errorf(command.ExitFailed, "", "%s has another entry after the change: %s", n.harness.name, s.found)
	}
	return con.Printf("%s is connected with the inbox %s, from its next session on\n", n.harness.name, n.thread)
}

func (n *connection) disconnect(ctx context.Context, con *command.Console, yes bool) error {
	s, err := n.look(ctx, con)
	if err != nil {
		return err
	}
	var plan []string
	if s.entry {
		plan = append(plan, "run: "+n.harness.words(n.harness.remove()))
	}
	drop := s.context && n.own
	if drop {
		plan = append(plan, fmt.Sprintf("remove the context %[1]s and revoke the token %[1]s", n.context))
	}
	if len(plan) == 0 {
		return con.Printf("%s is not connected\n", n.harness.name)
	}
	if err := confirm(con, plan, yes); err != nil {
		return err
	}
	if s.entry {
		if err := n.harness.run(ctx, n.harness.remove()); err != nil {
			return err
		}
	}
	if drop {
		if err := n.dropContext(ctx, con); err != nil {
			return err
		}
	}
	return con.Printf("%s is disconnected\n", n.harness.name)
}

// confirm shows a plan and asks whether to carry it out.
func confirm(con *command.Console, plan []string, yes bool) error {
	for _, line := range plan {
		con.Infof("%s", line)
	}
	if yes {
		return nil
	}
	answer, err := con.Prompt(bufio.NewReader(con.Stdin), "Do this? [y/N] ")
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"y", "yes"}, strings.ToLower(answer)) {
		return command.Errorf(command.ExitFailed, "", "nothing was changed")
	}
	return nil
}

// connectScopes are the permissions that the tools of an inbox need.
func connectScopes() []string { return []string{"read", "submit", "decide"} }

// makeContext makes the token and keeps it.
func (n *connection) makeContext(ctx context.Context, con *command.Console) error {
	server, err := endpoint.Find(con)
	if err != nil {
		return err
	}
	if server.Operator && strings.HasPrefix(server.URL, "https:") {
		return command.Errorf(command.ExitUsage, "add a context with `mailroom context add --ca` and name it with --as",
			"the server of the data folder has a certificate of its own, which a context does not know")
	}
	in := api.NewToken{Name: n.context}
	for _, scope := range connectScopes() {
		in.Scopes = append(in.Scopes, auth.Permission(scope))
	}
	made, err := server.Client().Accounts().CreateToken(ctx, in)
	if mailroom.CodeOf(err) == mailroom.CodeConflict { // of a connect that was interrupted, or on another machine
		return command.Errorf(command.ExitFailed, "revoke it with `"+con.CommandLine("token", "revoke", n.context)+
			"`, or name a context that has it with --as", "the server has a token %s, and no context here has it", n.context)
	}
	if err != nil {
		return err
	}
	return changeContexts(ctx, con, func(all *endpoint.Contexts) error {
		if all.Contexts == nil {
			all.Contexts = map[string]endpoint.Context{}
		}
		all.Contexts[n.context] = endpoint.Context{URL: server.URL, Token: made.Secret, CA: con.Env("MAILROOM_CA")}
		return nil
	})
}

// dropContext removes the context and revokes its token. Without the right to revoke, it says who can.
func (n *connection) dropContext(ctx context.Context, con *command.Console) error {
	var dropped endpoint.Context
	if err := changeContexts(ctx, con, func(all *endpoint.Contexts) error {
		dropped = all.Contexts[n.context]
		if delete(all.Contexts, n.context); all.Current == n.context {
			all.Current = ""
		}
		return nil
	}); err != nil {
		return err
	}
	server, err := endpoint.Find(con)
	switch {
	case err == nil && server.URL != dropped.URL:
		err = fmt.Errorf("it is of another server, %s", dropped.URL)
	case err == nil:
		err = server.Client(client.WithMaxAttempts(1)).Accounts().RevokeToken(ctx, n.context)
	}
	if err != nil && mailroom.CodeOf(err) != mailroom.CodeNotFound {
		return command.Errorf(command.ExitServer, "run `"+con.CommandLine("token", "revoke", n.context)+"` as its operator",
			"the token %s is not revoked: %w", n.context, err)
	}
	return nil
}
