package main

import (
	"fmt"

	"mailroom/cmd/mailroom/internal/config"
	"mailroom/internal/proc"
)

// hideSecrets keeps what this process knows from the programs that it starts: they
// may not read its memory and environment, and its environment loses the tokens
// that were read from it. Linux shows the environment that a process was started
// with in /proc as long as it lives, so the first protects the second.
func (m *Main) hideSecrets(variables []string) error {
	if err := proc.HideSelf(); err != nil {
		return err
	}
	if m.Unsetenv == nil {
		return nil
	}
	for _, name := range variables {
		if err := m.Unsetenv(name); err != nil {
			return fmt.Errorf("remove %s from the environment: %w", name, err)
		}
	}
	return nil
}

// secretVariables are the variables of the server's environment that hold secrets.
func secretVariables(c *config.Config) []string {
	names := []string{"MAILROOM_TOKEN"}
	for _, channel := range c.ChannelNames() {
		for _, s := range c.Channels[channel].Secrets() {
			if s.Env != "" {
				names = append(names, s.Env)
			}
		}
	}
	return names
}
