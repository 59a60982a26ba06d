//go:build !torture

package main

import (
	"github.com/spf13/cobra"

	"mailroom"
)

// equip and moreCommands are where the build for the torture adds what it needs;
// there is nothing of it in the program otherwise.
func equip(store mailroom.Store, _ *roster) (mailroom.Store, error) { return store, nil }

func (m *Main) moreCommands() []*cobra.Command { return nil }
