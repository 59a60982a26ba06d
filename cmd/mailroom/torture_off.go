//go:build !torture

package main

import (
	"github.com/spf13/cobra"

	"mailroom"
)

// addTorture and moreCommands are where the build for the torture adds what it needs;
// there is nothing of it in the program otherwise.
func addTorture(store mailroom.Store, _ *agentSet) (mailroom.Store, error) { return store, nil }

func (m *Main) moreCommands() []*cobra.Command { return nil }
