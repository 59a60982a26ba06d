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
		case d.IsDir() && p != root && (strings.HasPrefix(base, ".") ||
			slices.Contains([]string{"testdata", "bin", "node_modules"}, base)):
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

// pointing are phrases that point back to a noun instead of naming it, or that name neither who acts nor on what, with
// the number of them in the comments of the product. The numbers only shrink.
func pointing() map[string]int {
	return map[string]int{
		"told": 2, "tell": 4, "tells": 3, "that of": 20, "those of": 44, "is none": 25, "are none": 3, "as it is": 5,
	}
}

// countPhrase counts a phrase of whole words in a text in lower case.
func countPhrase(text, phrase string) (n int) {
	for {
		before, after, found := strings.Cut(text, phrase)
		if !found {
			return n
		}
		if !endsWord(before) && !startsWord(after) {
			n++
		}
		text = after
	}
}

func TestCommentsNameTheirNouns(t *testing.T) {
	counts := map[string]int{}
	for _, f := range tree(t) {
		if f.test || isSupport(f.folder()) {
			continue
		}
		for _, group := range f.ast.Comments {
			text := strings.Join(strings.Fields(strings.ToLower(group.Text())), " ")
			for phrase := range pointing() {
				counts[phrase] += countPhrase(text, phrase)
			}
		}
	}
	for phrase, most := range pointing() {
		if t.Logf("%q: %d", phrase, counts[phrase]); counts[phrase] > most {
			t.Errorf("%d comments with %q, at most %d: name the noun, or who does what", counts[phrase], phrase, most)
		}
	}
	if got := countPhrase("told by those who were told, untold, retold", "told"); got != 2 {
		t.Errorf("got %d", got)
	}
}
