package command

import (
	"slices"

	"github.com/spf13/cobra"
)

// group is a heading of mailroom --help with the commands below it.
type group struct {
	title    string
	commands []string
}

func groups() []group {
	return []group{
		{"Talk to agents:", []string{"answer", "approve", "attach", "deny", "interrupt", "send"}},
		{"Conversations and runs:", []string{"failures", "open", "report", "run", "runs", "schedule", "search", "tail",
			"threads", "tickets"}},
		{"Agents, channels and alerts:", []string{"agent", "agents", "bridge", "budget", "channels", "connect",
			"disconnect", "inbox", "mcp", "notify", "pair", "plugin", "work", "workers"}},
		{"The server and its store:", []string{"audit", "config", "doctor", "migrate", "nodes", "prices", "restore", "serve",
			"stats", "status", "stop", "store"}},
		{"Servers by name, and tokens:", []string{"context", "token"}},
		{"Work of several agents:", []string{"issue", "project", "publish", "workflow", "worktrees"}},
		{"This program:", []string{"completion", "docs", "help", "licenses", "version"}},
	}
}

// GroupCommands makes the help of root list its commands in groups.
func GroupCommands(root *cobra.Command) {
	for _, g := range groups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		if slices.Contains(g.commands, "help") {
			root.SetHelpCommandGroupID(g.title)
		}
		for _, cmd := range root.Commands() {
			if slices.Contains(g.commands, cmd.Name()) {
				cmd.GroupID = g.title
			}
		}
	}
}
