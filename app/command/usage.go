package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mailroom/internal/display"
	"mailroom/internal/lazyregexp"
)

var (
	unknownCommand = lazyregexp.New(`^unknown command "(.*)" for "`)
	argumentCount  = lazyregexp.New(` ([0-9]+) arg\(s\), (?:only )?received ([0-9]+)$`)
)

// ExplainUsage rewrites an error of cobra or pflag about the command line of cmd: on one line,
// and with what to do.
func ExplainUsage(cmd *cobra.Command, err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		near := display.Suggest(e.GetSpecifiedName(), flagNames(cmd))
		return fmt.Errorf("%w%s", err, didYouMean("--", near))
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("invalid value %q for --%s: %s", e.GetValue(), e.GetFlag().Name, explainValue(e))
	}
	if m := unknownCommand().FindStringSubmatch(err.Error()); m != nil {
		if !cmd.HasAvailableSubCommands() {
			return fmt.Errorf("unexpected argument %q", m[1])
		}
		return fmt.Errorf("unknown command %q for %q%s", m[1], cmd.CommandPath(), suggestCommand(cmd, m[1]))
	}
	if m := argumentCount().FindStringSubmatch(err.Error()); m != nil {
		what := "missing arguments"
		want, errWant := strconv.Atoi(m[1])
		got, errGot := strconv.Atoi(m[2])
		if errWant == nil && errGot == nil && got > want {
			what = "too many arguments"
		}
		return fmt.Errorf("%s; usage: %s", what, cmd.UseLine())
	}
	return err
}

// suggestCommand suggests a command below cmd for a word that names none: those that list the word in SuggestFor, or
// else the one with the most similar name.
func suggestCommand(cmd *cobra.Command, word string) string {
	var known, meant []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
		for _, c := range append([]*cobra.Command{c}, c.Commands()...) {
			if c.IsAvailableCommand() && slices.Contains(c.SuggestFor, word) {
				meant = append(meant, strconv.Quote(strings.TrimPrefix(c.CommandPath(), cmd.CommandPath()+" ")))
			}
		}
	}
	if len(meant) > 0 {
		return " (did you mean " + strings.Join(meant, " or ") + "?)"
	}
	return didYouMean("", display.Suggest(word, known))
}

// flagNames returns the flags that the help of a command lists.
func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// didYouMean returns a suggestion of the word near, or "" if near is empty.
func didYouMean(prefix, near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", prefix+near)
}

// explainValue says which values a flag takes, without the text of the parser of numbers and durations.
func explainValue(e *pflag.InvalidValueError) string {
	switch kind := e.GetFlag().Value.Type(); {
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "use a whole number"
	case strings.HasPrefix(kind, "float"):
		return "use a number"
	case kind == "duration":
		return "use a duration such as 30s or 5m"
	case kind == "bool":
		return "use true or false"
	}
	return e.Unwrap().Error()
}
