//go:build !torture

package node

import (
	"github.com/spf13/cobra"

	"mailroom/internal/console"
	"mailroom/store"
)

// addTorture and moreCommands are hooks of the torture build. They do nothing in a normal
// build.
func addTorture(store store.Store, _ *agentSet) (store.Store, error) { return store, nil }

func moreCommands(con *console.Console) []*cobra.Command { return nil }
