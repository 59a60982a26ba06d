//go:build !torture

package node

import (
	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/store"
)

// addTorture and moreCommands are hooks of the torture build. They do nothing in a normal
// build.
func addTorture(*agentSet) (wrap func(store.Store) store.Store, err error) {
	return func(st store.Store) store.Store { return st }, nil
}

func moreCommands(con *command.Console) []*cobra.Command { return nil }
