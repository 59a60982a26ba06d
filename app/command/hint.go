package command

import (
	"path/filepath"
	"slices"
	"strings"

	"mailroom/internal/lazyregexp"
)

// quotedCommand matches a command of mailroom in backticks, as texts have it.
var quotedCommand = lazyregexp.New("`mailroom( [^`\n]*)?`")

// Runnable returns a text whose commands in backticks work when a user copies them: with the path of this program, and
// with the flags that select the server of this command. Texts of packages that know no command line have neither.
func (c *Console) Runnable(text string) string {
	return quotedCommand().ReplaceAllStringFunc(text, func(quoted string) string {
		words := strings.Fields(strings.Trim(quoted, "`"))
		line := append([]string{c.Program()}, words[1:]...)
		if len(words) > 1 && c.needsServer(words[1:]) {
			line = slices.Insert(line, 2, c.server()...)
		}
		return "`" + strings.Join(line, " ") + "`"
	})
}

// needsServer reports whether a command line depends on the server and does not name one. Commands of store name stores
// by flags of their own.
func (c *Console) needsServer(words []string) bool {
	if slices.Contains([]string{"context", "completion", "help", "version", "issue", "store"}, words[0]) {
		return false
	}
	return !slices.ContainsFunc(words, func(word string) bool {
		return word == "--help" || strings.HasPrefix(word, "--data") || strings.HasPrefix(word, "--context")
	})
}

// UseAbsolutePaths makes hints name this program by its absolute path where they name a path at all, for texts that are
// read in another folder: in a chat, or in the comment of an issue.
func (c *Console) UseAbsolutePaths() {
	if !strings.ContainsRune(c.Name, filepath.Separator) {
		return
	}
	if path, err := filepath.Abs(c.Name); err == nil {
		c.Name = path
	}
}
