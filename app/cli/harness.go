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
		return command.UsageErrorf(cmd, "unknown program %q; use %s", name, strings.Join(harnessNames(), ", "))
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
		Use:   "connect claude|codex|gemini|opencode",
		Short: "Give the sessions of a coding program an inbox",
		Long: `Give the sessions of a coding program an inbox that rings them: add the MCP server
mailroom to the user's configuration of claude or codex, by the command of that program,
and make a token for it, which is kept as a context. claude gets a hook, too, which rings
a session that its MCP server does not ring. opencode gets a plug-in, which adds the MCP
server and rings. gemini gets an extension with the MCP server and a note of waiting mail
for each turn. The command shows what it will change and asks. It changes nothing that it
has not made, and nothing the second time; "mailroom disconnect" takes it back.

Exit codes: 0 connected, or with --check it is; 1 not; 2 invalid usage; 4 no server.`,
		Example: `  mailroom connect claude
  mailroom connect codex --inbox reviews --yes
  mailroom connect claude --check`,
		Args: cobra.ExactArgs(1),
	}
	n.harnessFlags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&only, "check", false, "change nothing; fail if it is not connected")
	cmd.ValidArgs = harnessNames()
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
		Use:   "disconnect claude|codex|gemini|opencode",
		Short: "Take back what connect has changed",
		Long: `Take back what "mailroom connect" has changed: remove the MCP server mailroom, the hook,
the plug-in or the extension from the configuration of the program, and the context and the token that
connect has made. The inbox stays, with what waits in it.`,
		Example: `  mailroom disconnect claude`,
		Args:    cobra.ExactArgs(1),
	}
	n.harnessFlags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.ValidArgs = harnessNames()
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
	parts   []partState
	context bool // the context exists
}

// whole reports whether each part is as connect makes it.
func (s state) whole() bool {
	return !slices.ContainsFunc(s.parts, func(p partState) bool { return !p.same })
}

// look returns what exists. It refuses what is in the place of a part and not of this command.
func (n *connection) look(ctx context.Context, con *command.Console) (s state, err error) {
	want, err := n.entry()
	if err != nil {
		return s, command.Errorf(command.ExitFailed, "", "find this program: %w", err)
	}
	for _, look := range n.harness.parts {
		p, err := look(ctx, con, n, want)
		if err != nil {
			return s, err
		}
		s.parts = append(s.parts, p)
	}
	all, err := readContexts(con)
	_, s.context = all.Contexts[n.context]
	return s, err
}

func (n *connection) check(ctx context.Context, con *command.Console) error {
	s, err := n.look(ctx, con)
	hint := "connect it with `" + con.CommandLine("connect", n.harness.name) + "`"
	if err != nil {
		return err
	}
	for i, p := range s.parts {
		switch {
		case i == 0 && !p.exists:
			return command.Errorf(command.ExitFailed, hint, "%s is not connected", n.harness.name)
		case !p.exists && !p.same:
			return command.Errorf(command.ExitFailed, hint, "%s is connected without %s", n.harness.name, p.what)
		case !p.same:
			return command.Errorf(command.ExitFailed, hint, "%s is connected in another way: %s", n.harness.name, p.what)
		}
	}
	if !s.context {
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
	var changes []change
	if !s.context {
		changes = append(changes, change{fmt.Sprintf("make the token %s (%s) and keep it as the context of that name",
			n.context, strings.Join(connectScopes(), ", ")),
			func(ctx context.Context) error { return n.makeContext(ctx, con) }})
	}
	for _, p := range s.parts {
		if !p.same && p.exists {
			changes = append(changes, p.remove)
		}
		if !p.same {
			changes = append(changes, p.add)
		}
	}
	if len(changes) == 0 {
		return con.Printf("%s is connected with the inbox %s\n", n.harness.name, n.thread)
	}
	if err := apply(ctx, con, changes, yes); err != nil {
		return err
	}
	if s, err = n.look(ctx, con); err != nil {
		return err
	}
	if !s.whole() {
		return command.Errorf(command.ExitFailed, "look with `"+con.CommandLine("connect", n.harness.name, "--check")+"`",
			"%s has another configuration after the change", n.harness.name)
	}
	return con.Printf("%s is connected with the inbox %s, from its next session on\n", n.harness.name, n.thread)
}

func (n *connection) disconnect(ctx context.Context, con *command.Console, yes bool) error {
	s, err := n.look(ctx, con)
	if err != nil {
		return err
	}
	var changes []change
	for _, p := range slices.Backward(s.parts) {
		if p.exists {
			changes = append(changes, p.remove)
		}
	}
	if s.context && n.own {
		changes = append(changes, change{fmt.Sprintf("remove the context %[1]s and revoke the token %[1]s", n.context),
			func(ctx context.Context) error { return n.dropContext(ctx, con) }})
	}
	if len(changes) == 0 {
		return con.Printf("%s is not connected\n", n.harness.name)
	}
	if err := apply(ctx, con, changes, yes); err != nil {
		return err
	}
	return con.Printf("%s is disconnected\n", n.harness.name)
}

// apply shows changes, asks whether to make them, and makes them in order.
func apply(ctx context.Context, con *command.Console, changes []change, yes bool) error {
	plan := make([]string, len(changes))
	for i, c := range changes {
		plan[i] = c.line
	}
	if err := confirm(con, plan, yes); err != nil {
		return err
	}
	for _, c := range changes {
		if err := c.make(ctx); err != nil {
			return err
		}
	}
	return nil
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
