package command

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mayBeEmpty is the annotation of a flag whose empty value has a meaning.
const mayBeEmpty = "mailroom_may_be_empty"

// AllowEmpty lets flags of a command have an empty value.
func AllowEmpty(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		if err := flags.SetAnnotation(name, mayBeEmpty, []string{"true"}); err != nil {
			panic("allow an empty value: " + err.Error()) // the command has no such flag: a bug
		}
	}
}

// CheckEmptyFlags refuses a flag with an empty value, unless that has a meaning. Usually a script passed a variable
// that is not set. If the command took the flag as absent, it would use another thread, server or folder than the
// script's author meant.
func CheckEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && hasEmpty(f.Value) && f.Annotations[mayBeEmpty] == nil {
			err = UsageErrorf(cmd, "--%s is empty: give a value, or leave the flag out", f.Name)
		}
	})
	return err
}

// hasEmpty reports whether the value of a flag is an empty text, an empty list, or a list with an empty text.
func hasEmpty(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		all := list.GetSlice()
		return len(all) == 0 || slices.Contains(all, "")
	}
	return v.Type() == "string" && v.String() == ""
}
