package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// pathInSpan is a path of the tree in a code span. A name of Go may follow a package.
	pathInSpan = regexp.MustCompile(`(?:^|[\s(,])([a-z]\w*/[\w./*-]*\w)`)
	fileInSpan = regexp.MustCompile(`^\w+\.(go|js)$`)
	goName     = regexp.MustCompile(`\.[A-Z]\w*(\.\w+)?$`)
	heading    = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInSlug  = regexp.MustCompile(`[^\w\- ]`)
)

// stale returns what the document name refers to and what does not exist: files and headings of links, and tests and
// paths in code spans. A path counts as one of the tree if its first folder is in top.
func stale(name, doc string, known, top map[string]bool, exists func(pattern string) bool,
	headings func(doc string) []string) (found []string) {
	for _, l := range link.FindAllStringSubmatch(doc, -1) {
		file, anchor, _ := strings.Cut(l[1], "#")
		if strings.Contains(file, ":") { // a page elsewhere
			continue
		}
		if made := path.Join(path.Dir(name), file); strings.HasPrefix(made, "docs/shots/") { // by tests of the pages
			continue
		} else if strings.HasPrefix(made, "docs/reference/") && exists(made) {
			anchor = "" // its headings are generated, and app/manual checks the links to them
		}
		to := name
		if file != "" {
			to = path.Join(path.Dir(name), file)
		}
		switch {
		case !exists(to):
			found = append(found, "there is no file "+to)
		case anchor != "" && !slices.Contains(headings(to), anchor):
			found = append(found, fmt.Sprintf("%s has no heading #%s", to, anchor))
		}
	}
	for _, span := range codeSpan.FindAllStringSubmatch(unfenced(doc), -1) {
		if testName.MatchString(span[1]) && !known[span[1]] {
			found = append(found, "there is no "+span[1])
		}
		if file := span[1]; fileInSpan.MatchString(file) &&
			!exists(file) && !exists("*/"+file) && !exists("*/*/"+file) && !exists("*/*/*/"+file) {
			found = append(found, "there is no "+file)
		}
		for _, p := range pathInSpan.FindAllStringSubmatch(span[1], -1) {
			first, _, _ := strings.Cut(p[1], "/")
			if top[first] && !exists(p[1]) && !exists(goName.ReplaceAllString(p[1], "")) {
				found = append(found, "there is no "+p[1])
			}
		}
	}
	return found
}

// unfenced returns doc without its blocks of code.
func unfenced(doc string) string {
	var b strings.Builder
	for i, part := range strings.Split(doc, "\n```") {
		if i%2 == 0 {
			b.WriteString(part)
		}
	}
	return b.String()
}

// slugs returns the anchors of the headings of a document, as they are in addresses.
func slugs(doc string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(unfenced(doc), -1) {
		text := notInSlug.ReplaceAllString(strings.ToLower(strings.ReplaceAll(h[1], "`", "")), "")
		all = append(all, strings.ReplaceAll(text, " ", "-"))
	}
	return all
}

// documents returns the names of the documents of the tree.
func documents(t *testing.T) []string {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "AGENTS.md"}
	for _, folder := range []string{"docs", "examples", "clients/plugin"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(p string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(p) == ".md" {
				names = append(names, strings.TrimPrefix(filepath.ToSlash(p), "../../"))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func TestTheDocumentsNameWhatIsThere(t *testing.T) {
	folders, err := os.ReadDir(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	top := map[string]bool{}
	for _, d := range folders {
		top[d.Name()] = d.IsDir() && d.Name() != "bin" // what make builds
	}
	exists := func(pattern string) bool {
		found, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
		return err == nil && len(found) > 0
	}
	headings := func(doc string) []string { return slugs(text(t, doc)) }
	known, names := provable(t), documents(t)
	if len(names) < 15 {
		t.Errorf("only %d documents", len(names))
	}
	contents := text(t, "docs/contents.md")
	for _, name := range names {
		if page, ok := strings.CutPrefix(name, "docs/"); ok && page != "contents.md" &&
			!strings.Contains(contents, "]("+page+"): ") {
			t.Errorf("%s has no row in docs/contents.md, without which a server does not start", name)
		}
		for _, finding := range stale(name, text(t, name), known, top, exists, headings) {
			t.Errorf("%s: %s", name, finding)
		}
	}
}

func TestStaleNamesInDocumentsAreFound(t *testing.T) {
	files := []string{
		"docs/a.md", "docs/b.md", "README.md", "run.go", "ledger/op.go", "ledger", "store/sqlite", "doctor/x_test.go",
	}
	exists := func(pattern string) bool {
		return slices.ContainsFunc(files, func(file string) bool {
			ok, err := path.Match(pattern, file)
			return err == nil && ok
		})
	}
	headings := func(doc string) []string { return slugs("# Top\n\n## A `key`, and more\n\n```\n# no heading\n```\n") }
	known, top := map[string]bool{"ledger.TestA": true}, map[string]bool{"ledger": true, "store": true, "doctor": true}
	for _, e := range []struct {
		name, doc string
		want      []string
	}{
		{"all there", "[a](a.md), [b](../README.md#a-key-and-more), [c](#top), [d](https://example.org/x#y)\n" +
			"`ledger/op.go`, `doctor/*_test.go`, `store/sqlite.Open`, `ledger.TestA`, `ledger.TestReal…`, " +
			"`run.go`, `op.go`\n", nil},
		{"a path elsewhere", "`src/main.go` and `/etc/ledger/x` and `https://host/ledger/y`\n", nil},
		{"a block of code", "\n```\n`ledger/gone.go`\n```\n", nil},
		{"a file of a link", "[a](gone.md)\n", []string{"there is no file docs/gone.md"}},
		{"a heading", "[a](a.md#gone)\n", []string{"docs/a.md has no heading #gone"}},
		{"a heading in a block", "[a](a.md#no-heading)\n", []string{"docs/a.md has no heading #no-heading"}},
		{"a test", "`ledger.TestGone`\n", []string{"there is no ledger.TestGone"}},
		{"a file", "see `ledger/gone.go`\n", []string{"there is no ledger/gone.go"}},
		{"a file without its folder", "see `gone.go`\n", []string{"there is no gone.go"}},
		{"a package", "`store/mysql.Open`\n", []string{"there is no store/mysql.Open"}},
		{"a file in a command", "`go test ./x ledger/gone`\n", []string{"there is no ledger/gone"}},
	} {
		if got := stale("docs/b.md", e.doc, known, top, exists, headings); !slices.Equal(got, e.want) {
			t.Errorf("%s: %q, want %q", e.name, got, e.want)
		}
	}
}
