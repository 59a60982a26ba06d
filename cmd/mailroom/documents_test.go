package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"mailroom/app/command"
	"mailroom/issues/bd"
)

// A document names a command in a code span, or at the start of a line of a block of code.
var (
	commandSpan = regexp.MustCompile("`((?:mailroom|bd) [^`]+)`")
	commandLine = regexp.MustCompile(`(?m)^(?:\$ |bin/)?((?:mailroom|bd) .*)$`)
	lowerWord   = regexp.MustCompile(`^[a-z]+$`)
	longFlag    = regexp.MustCompile(`^--([a-z][a-z-]*)`)
)

// unknownCommand returns the first word of a command line that is no command or flag, "" if all are known.
func unknownCommand(line string) string {
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " | ")
	words := strings.Fields(line)
	none := func(string) string { return "" }
	root := rootCommand(&command.Console{Env: none})
	if words[0] == "bd" {
		root = (&bd.Main{Env: none}).Command()
	}
	cmd, inPath, value := root, true, false
	for _, word := range words[1:] {
		word = strings.Trim(word, "[]()…,.\"'")
		flag := longFlag.FindStringSubmatch(word)
		called := func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) }
		next := slices.IndexFunc(cmd.Commands(), called)
		switch {
		case word == "--":
			return ""
		case value:
			value = false
		case flag != nil && flag[1] != "help":
			f := cmd.Flag(flag[1])
			if f == nil {
				return word
			}
			value = f.NoOptDefVal == "" && !strings.Contains(word, "=")
		case flag != nil:
		case inPath && next >= 0:
			cmd = cmd.Commands()[next]
		case inPath && cmd == root && word != "help" && lowerWord.MatchString(word):
			return word
		default:
			inPath = false
		}
	}
	return ""
}

func TestTheDocumentsNameCommandsAndFlagsThatExist(t *testing.T) {
	names := []string{"../../README.md", "../../CONTRIBUTING.md", "../../AGENTS.md"}
	for _, folder := range []string{"../../docs", "../../examples", "../../clients/plugin"} {
		err := filepath.WalkDir(folder, func(p string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(p) == ".md" {
				names = append(names, p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	checked := 0
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := commandSpan.FindAllStringSubmatch(string(raw), -1)
		found = append(found, commandLine.FindAllStringSubmatch(string(raw), -1)...)
		for _, line := range found {
			checked++
			if word := unknownCommand(line[1]); word != "" {
				t.Errorf("%s: %s: there is no %s", name, line[1], word)
			}
		}
	}
	if checked < 200 {
		t.Errorf("the documents name %d commands, fewer than they did", checked)
	}
}

func TestUnknownCommandsInDocumentsAreFound(t *testing.T) {
	for line, want := range map[string]string{
		"mailroom send --agent tour hello":            "",
		"mailroom run show RUN -o json":               "",
		"mailroom token revoke [--cancel] NAME # why": "",
		"mailroom --data DIR work --agent A -- p --x": "",
		"bd update x7k --claim | cat --gone":          "",
		"mailroom ship it":                            "ship",
		"mailroom send --gone hello":                  "--gone",
		"bd update x7k --gone":                        "--gone",
	} {
		if got := unknownCommand(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
