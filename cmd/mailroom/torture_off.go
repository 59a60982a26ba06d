//go:build !torture

package main

import (
	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/internal/console"
)

// addTorture and moreCommands are hooks of the torture build. They do nothing in a normal
// build.
func addTorture(store mailroom.Store, _ *agentSet) (mailroom.Store, error) { return store, nil }

func moreCommands(con *console.Console) []*cobra.Command { return nil }
