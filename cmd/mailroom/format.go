package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// format is the value of -o.
type format string

const (
	asText format = "text"
	asJSON format = "json"
)

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "FORMAT" }

func (f *format) Set(s string) error {
	if s != string(asText) && s != string(asJSON) {
		return fmt.Errorf("use text or json")
	}
	*f = format(s)
	return nil
}

// formatFlag adds -o to a command that prints data.
func formatFlag(cmd *cobra.Command) *format {
	f := asText
	cmd.Flags().VarP(&f, "output", "o", "output format: text or json")
	return &f
}
