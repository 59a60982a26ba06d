package archtest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// vague are phrases to avoid: name the subject, and write "again" or "while".
//
// archtest: a table, never written.
var vague = []string{"somebody", "nobody", "whoever", "anew", "meanwhile", "is to be"}

// exempt matches the identifier http.NoBody and the Unix user nobody.
var exempt = regexp.MustCompile("http\\.NoBody|[\"'`]nobody[\"'`]|user[ =]nobody")

// phrases returns the vague phrases in a text, each with its line. It searches for plain
// words, because a regular expression takes fifty times as long over the whole tree.
func phrases(text string) (found []string) {
	for i, line := range strings.Split(text, "\n") {
		lower := strings.ToLower(line)
		for _, phrase := range vague {
			if !strings.Contains(lower, phrase) {
				continue
			}
			rest := strings.ToLower(exempt.ReplaceAllString(line, ""))
			for at := strings.Index(rest, phrase); at >= 0; at = strings.Index(rest, phrase) {
				before, after := rest[:at], rest[at+len(phrase):]
				if !endsWord(before) && !startsWord(after) {
					found = append(found, strconv.Itoa(i+1)+": "+phrase)
				}
				rest = after
			}
		}
	}
	return found
}

func isWord(b byte) bool { return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' }

func endsWord(s string) bool { return s != "" && isWord(s[len(s)-1]) }

func startsWord(s string) bool { return s != "" && isWord(s[0]) }

// written returns the files that people write. Recorded transcripts are in testdata,
// which is left out.
func written(t *testing.T) (files []string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		switch {
		case d.IsDir() && p != root && (strings.HasPrefix(base, ".") || slices.Contains([]string{"testdata", "bin", "node_modules"}, base)):
			return fs.SkipDir
		case d.IsDir(), base == "phrases_test.go":
		case slices.Contains([]string{".go", ".js", ".mjs", ".md", ".toml"}, path.Ext(base)) || base == "Makefile":
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestNoFileHasVaguePhrases(t *testing.T) {
	for _, p := range written(t) {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range phrases(string(text)) {
			t.Errorf("%s:%s", p, at)
		}
	}
}

func TestVaguePhrasesAreFound(t *testing.T) {
	for _, x := range []struct {
		text string
		want int
	}{
		{"The adapter retries.", 0},
		{"Nobody waits, and somebody\nelse is to be asked anew; meanwhile whoever", 6},
		{"canewood, nobodyElse", 0},
		{"as the user `nobody` or \"nobody\", --isolation none,user=nobody, http.NoBody", 0},
	} {
		if got := phrases(x.text); len(got) != x.want {
			t.Errorf("%q: got %q, want %d", x.text, got, x.want)
		}
	}
	if got := phrases("a\nb\nnobody"); !slices.Equal(got, []string{"3: nobody"}) {
		t.Errorf("got %q, want line 3", got)
	}
}
