// Package node builds a server from its parts, and has the commands that run one or a worker.
package node

import (
	"github.com/spf13/cobra"

	"mailroom/app/command"
)

// Commands returns the commands of this package.
func Commands(con *command.Console) []*cobra.Command {
	return append(moreCommands(con), bridgeCommand(con), configCommand(con), pricesCommand(con), serveCommand(con),
		workCommand(con))
}
