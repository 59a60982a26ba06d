package node

import (
	"fmt"

	"mailroom/internal/config"
	"mailroom/internal/console"
	"mailroom/internal/proc"
)

// hideSecrets hides the secrets of this process from child processes: it makes the process's
// memory and environment unreadable for them, and removes variables from its environment.
// Linux shows the initial environment in /proc for the life of the process, so removing
// the variables alone is not enough.
func hideSecrets(con *console.Console, variables []string) error {
	if err := proc.HideSelf(); err != nil {
		return err
	}
	if con.Unsetenv == nil {
		return nil
	}
	for _, name := range variables {
		if err := con.Unsetenv(name); err != nil {
			return fmt.Errorf("remove %s from the environment: %w", name, err)
		}
	}
	return nil
}

// secretVariables returns the environment variables that hold secrets of the server.
func secretVariables(c *config.Config) []string {
	names := []string{"MAILROOM_TOKEN"}
	for _, channel := range c.ChannelNames() {
		for _, s := range c.Channels[channel].Secrets() {
			if s.Env != "" {
				names = append(names, s.Env)
			}
		}
	}
	for _, target := range c.TargetNames() {
		for _, s := range c.Targets[target].Secrets() {
			if s.Env != "" {
				names = append(names, s.Env)
			}
		}
	}
	return names
}
