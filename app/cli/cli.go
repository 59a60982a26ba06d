// Package cli has the commands that talk to a server. They use only the server's HTTP API.
package cli

import (
	"github.com/spf13/cobra"

	"mailroom/app/command"
)

// Commands returns the commands that talk to a server, except [Channels].
func Commands(con *command.Console) []*cobra.Command {
	return []*cobra.Command{
		agentCommand(con), agentsCommand(con), answerCommand(con), approveCommand(con), attachCommand(con),
		auditCommand(con), budgetCommand(con), connectCommand(con), contextCommand(con),
		denyCommand(con), disconnectCommand(con), failuresCommand(con), mailInboxCommand(con), interruptCommand(con),
		licensesCommand(con), mcpCommand(con), nodesCommand(con), openCommand(con), pairCommand(con),
		pluginCommand(con), projectCommand(con), publishCommand(con),
		reportCommand(con), runCommand(con), runsCommand(con), scheduleCommand(con),
		searchCommand(con), sendCommand(con),
		statsCommand(con), statusCommand(con), stopCommand(con), tailCommand(con), threadsCommand(con),
		ticketsCommand(con), tokenCommand(con), versionCommand(con), workersCommand(con),
	}
}
