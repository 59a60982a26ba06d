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

// vague matches phrases to avoid: name the subject, and write "again" or "while". A quoted `nobody` is the Unix user, and http.NoBody
// an identifier.
var vague = regexp.MustCompile("(?i)[\"'`]nobody[\"'`]|http\\.NoBody|\\b(somebody|nobody|whoever|anew|meanwhile|is to be)\\b")

// phraseCeilings limits the vague phrases in the files of each top-level folder. The
// numbers may only shrink; a folder that is not listed may have none.
//
// archtest: a table, never written.
var phraseCeilings = map[string]int{
	"agent":    51,
	"bus":      3,
	"channel":  393,
	"cmd":      128,
	"doctor":   22,
	"engine":   30,
	"ledger":   41,
	"protocol": 16,
	"server":   70,
	"store":    37,
	"stream":   13,
	"torture":  27,
	"tracker":  38,
}

// phrases returns the vague phrases in a text, each with its line.
func phrases(text string) (found []string) {
	line, last := 1, 0
	for _, at := range vague.FindAllStringIndex(text, -1) {
		line += strings.Count(text[last:at[0]], "\n")
		last = at[0]
		if word := text[at[0]:at[1]]; !strings.ContainsAny(word, "\"'`.") {
			found = append(found, strconv.Itoa(line)+": "+word)
		}
	}
	return found
}

// written are the files that people write, by their top-level folder, "." for files of
// the root itself. Recorded transcripts are in testdata, which is left out.
func written(t *testing.T) map[string][]string {
	t.Helper()
	root := filepath.Join("..", "..")
	files := map[string][]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if p != root && (strings.HasPrefix(base, ".") || slices.Contains([]string{"testdata", "bin", "node_modules"}, base)) {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".js", ".mjs", ".md", ".toml"}, path.Ext(base)) || base == "phrases_test.go" {
			return nil
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		top, _, inside := strings.Cut(filepath.ToSlash(name), "/")
		if !inside {
			top = "."
		}
		files[top] = append(files[top], p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestVaguePhrasesStayBelowTheirCeilings(t *testing.T) {
	for top, files := range written(t) {
		var found []string
		for _, p := range files {
			text, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range phrases(string(text)) {
				found = append(found, p+":"+at)
			}
		}
		if most := phraseCeilings[top]; len(found) > most {
			t.Errorf("%s has %d vague phrases, at most %d allowed:\n%s", top, len(found), most, strings.Join(found, "\n"))
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
		{"as the user `nobody` or \"nobody\"", 0},
	} {
		if got := phrases(x.text); len(got) != x.want {
			t.Errorf("%q: got %q, want %d", x.text, got, x.want)
		}
	}
	if got := phrases("a\nb\nnobody"); !slices.Equal(got, []string{"3: nobody"}) {
		t.Errorf("got %q, want line 3", got)
	}
}
