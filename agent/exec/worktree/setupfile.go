package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// SetupFile is the file of a repository with the commands that set up a new tree, such as "npm ci". It stands beside
// .worktreeinclude, a name that several programs share for the files to copy. The programs that run commands have no
// common file (.cursor/worktrees.json, conductor.json, .codex/environments), and each of those is for its own shell.
const SetupFile = ".worktreesetup"

const (
	maxSetup         = 64 << 10 // bytes
	maxSetupCommands = 50
)

// Setup is what a commit has in [SetupFile].
type Setup struct {
	Text   string
	Digest string // SHA-256 of Text, in hexadecimal digits
	Script bool   // the file is executable, and is the only command
	// Commands are argument vectors. No shell is involved, unless the script names one in its first line.
	Commands [][]string
}

// SetupName returns the name under which the commands of a repository are trusted: the path of its file. common is its
// git folder, without links. A submodule has a git folder of its own, and so a name of its own.
func SetupName(common string) string { return filepath.Join(personal(common), SetupFile) }

// ReadSetup returns what a commit has in [SetupFile], or nil if the commit has no such file. git calls git in the
// repository and returns its output unchanged. If the file cannot be used, the error is a [*Problem], and the result
// has what could be read of it.
func ReadSetup(git func(args ...string) (string, error), commit string) (*Setup, error) {
	out, err := git("ls-tree", "-z", "--long", "--full-tree", commit, "--", SetupFile)
	entry, name, _ := strings.Cut(strings.TrimSuffix(out, "\x00"), "\t")
	fields := strings.Fields(entry) // mode, type, id, size
	if err != nil || len(fields) != 4 || name != SetupFile {
		return nil, err
	}
	s := &Setup{Script: fields[0] == "100755"}
	kind := map[string]string{"040000": "a folder", "120000": "a link", "160000": "a submodule"}[fields[0]]
	if kind != "" {
		return s, permanent("%s is %s in the repository; make it a file", SetupFile, kind)
	}
	if size, err := strconv.Atoi(fields[3]); err != nil || size > maxSetup {
		return s, permanent("%s has more than %d KiB; make it smaller", SetupFile, maxSetup>>10)
	}
	if s.Text, err = git("cat-file", "blob", fields[2]); err != nil {
		return s, err
	}
	sum := sha256.Sum256([]byte(s.Text))
	s.Digest = hex.EncodeToString(sum[:])
	return s, s.parse()
}

// parse sets the commands. A text is either a script or a list of commands and never both, so that a change of the
// mode alone, which the digest does not cover, cannot give a trusted text another meaning.
func (s *Setup) parse() (err error) {
	script := strings.HasPrefix(s.Text, "#!")
	switch {
	case strings.Contains(s.Text, "\x00"):
		return permanent("%s is no text", SetupFile)
	case script && !s.Script:
		return permanent("%s begins with #! but is not executable; run: git update-index --chmod=+x %s", SetupFile, SetupFile)
	case !script && s.Script:
		return permanent("%s is executable but does not begin with #!; name its interpreter there", SetupFile)
	case script:
		s.Commands = [][]string{{"." + string(filepath.Separator) + SetupFile}}
		return nil
	}
	s.Commands, err = parseCommands(s.Text)
	return err
}

// parseCommands returns the commands of a list: one in each line. Empty lines and lines that begin with # have none.
func parseCommands(text string) (all [][]string, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		words, why := splitWords(line)
		if why != "" {
			return nil, permanent("line %d of %s: %s", number, SetupFile, why)
		}
		if len(words) > 0 {
			all = append(all, words)
		}
		if len(all) > maxSetupCommands {
			return nil, permanent("%s has more than %d commands; call a script", SetupFile, maxSetupCommands)
		}
	}
	return all, nil
}

// splitWords returns the words of a command, which spaces and tabs separate. Quotes of both kinds and a backslash keep
// characters as they are; a backslash in quotes is itself. A # that begins a word begins a comment, as in a shell. why
// says which character needs a shell, or which quote has no end.
func splitWords(line string) (words []string, why string) {
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, c := range line {
		if c == '#' && !inWord && quote == 0 {
			break
		}
		switch {
		case escaped:
			escaped = false
			word.WriteRune(c)
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\\':
			inWord, escaped = true, true
		case c == '"' || c == '\'':
			inWord, quote = true, c
		case c == ' ' || c == '\t':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		case strings.ContainsRune("|&;<>()$`*?", c):
			return nil, fmt.Sprintf("%q has no meaning, because no shell runs the commands; quote it, or make the file a script",
				string(c))
		default:
			inWord = true
			word.WriteRune(c)
		}
	}
	if quote != 0 || escaped {
		return nil, "a quote or a backslash has no end"
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) > 0 && words[0] == "" {
		return nil, "the name of the program is empty"
	}
	return words, ""
}
