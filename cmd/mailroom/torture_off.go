//go:build !torture

package main

import (
	"github.com/spf13/cobra"

	"mailroom"
)

// addTorture and moreCommands are hooks of the torture build. They do nothing in a normal
// build.
func addTorture(store mailroom.Store, _ *agentSet) (mailroom.Store, error) { return store, nil }

func (m *Main) moreCommands() []*cobra.Command { return nil }
