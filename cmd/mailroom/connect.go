package main

import (
	"github.com/spf13/cobra"

	"mailroom/client"
	"mailroom/internal/console"
	"mailroom/internal/endpoint"
)

// connect returns a client for the server.
func connect(con *console.Console) (*client.Client, error) {
	server, err := endpoint.Find(con)
	if err != nil {
		return nil, err
	}
	return server.Client(client.WithOutage(func(err error) { printConnectionState(con, err) })), nil
}

// withClient sets run as the action of cmd and passes it a client of the server.
func withClient(con *console.Console, cmd *cobra.Command, run func(c *client.Client, args []string) error) *cobra.Command {
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		c, err := connect(con)
		if err != nil {
			return err
		}
		return run(c, args)
	}
	return cmd
}
