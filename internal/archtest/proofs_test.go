package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	numbered    = regexp.MustCompile(`(?m)^(\d+)\. \*\*`)
	numberedRow = regexp.MustCompile(`^\| \*\*(\d+)\. `)
	proving     = regexp.MustCompile(`^ *- Proof: `)
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	testName    = regexp.MustCompile(`^[\w/]+\.(Test|Fuzz)\w*$|\w\.txtar$`)
	killPoint   = regexp.MustCompile(`\{"((?:at|before|after) [^"]+)", \d+\}`)
	target      = regexp.MustCompile(`(?m)^([a-z]+):`)
)

// proofs checks that each numbered sentence of a document has a line that begins
// with "Proof:" and names something, and that all is known by the names that
// such lines have in code spans, as are all names of tests elsewhere.
func proofs(doc string, known map[string]bool) []string {
	var found []string
	last, proved, inside := 0, true, false
	left := func() { // a sentence ends
		if !proved {
			found = append(found, fmt.Sprintf("guarantee %d has no proof", last))
		}
	}
	for line := range strings.Lines(doc) {
		switch n := numbered.FindStringSubmatch(line); {
		case n != nil:
			left()
			if last++; n[1] != fmt.Sprint(last) {
				found = append(found, fmt.Sprintf("guarantee %s is number %d", n[1], last))
			}
			proved, inside = false, false
		case proving.MatchString(line):
			inside = true
		case !strings.HasPrefix(line, " "):
			inside = false
		}
		for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
			name := span[1]
			proved = proved || inside
			if (inside || testName.MatchString(name)) && !known[name] {
				found = append(found, fmt.Sprintf("guarantee %d: there is no %s", last, name))
			}
		}
	}
	left()
	return found
}

// provable are all names that a proof may give: tests and fuzz targets by
// package and function, sessions of the command, commands of make, and the points
// at which a server is killed.
func provable(t *testing.T) map[string]bool {
	known := map[string]bool{}
	for _, f := range tree(t) {
		if !strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		folder := f.folder()
		if folder == "." {
			folder = module
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && testName.MatchString(folder+"."+fn.Name.Name) {
				known[folder+"."+fn.Name.Name] = true
			}
		}
	}
	sessions, err := filepath.Glob("../../cmd/mailroom/testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sessions {
		known[filepath.Base(path)] = true
	}
	for _, n := range killPoint.FindAllStringSubmatch(text(t, "torture/plan.go"), -1) {
		known[n[1]] = true
	}
	for _, n := range target.FindAllStringSubmatch(text(t, "Makefile"), -1) {
		known["make "+n[1]] = true
	}
	return known
}

// text of a file of the tree.
func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEachGuaranteeNamesTestsThatExist(t *testing.T) {
	doc := text(t, "docs/guarantees.md")
	if n := len(numbered.FindAllString(doc, -1)); n < 30 {
		t.Fatalf("only %d guarantees found", n)
	}
	for _, finding := range proofs(doc, provable(t)) {
		t.Errorf("docs/guarantees.md: %s", finding)
	}
}

// tested checks the rows of a document's tables that begin with a number: these are in
// order, and each names a test in its last cell. All names of tests are known.
func tested(doc string, known map[string]bool) (rows int, found []string) {
	for line := range strings.Lines(doc) {
		names := codeSpan.FindAllStringSubmatch(line, -1)
		for _, span := range names {
			if testName.MatchString(span[1]) && !known[span[1]] {
				found = append(found, "there is no "+span[1])
			}
		}
		n := numberedRow.FindStringSubmatch(line)
		if n == nil {
			continue
		}
		if rows++; n[1] != fmt.Sprint(rows) {
			found = append(found, fmt.Sprintf("row %s is number %d", n[1], rows))
		}
		cells := strings.Split(strings.TrimRight(line, "| \n"), "|")
		last := codeSpan.FindStringSubmatch(cells[len(cells)-1])
		if last == nil || !testName.MatchString(last[1]) {
			found = append(found, fmt.Sprintf("row %s names no test", n[1]))
		}
	}
	return rows, found
}

func TestEachComplaintNamesTestsThatExist(t *testing.T) {
	rows, found := tested(text(t, "docs/channels.md"), provable(t))
	if rows != 9 {
		t.Errorf("docs/channels.md: %d complaints", rows)
	}
	for _, finding := range found {
		t.Errorf("docs/channels.md: %s", finding)
	}
}

func TestRowsThatNameNoTestAreSeen(t *testing.T) {
	known := map[string]bool{"ledger.TestA": true, "channel/chat.FuzzB": true}
	for _, e := range []struct {
		name, doc string
		rows      int
		want      []string
	}{
		{"two rows", "| **1. One** | `x` | `ledger.TestA`, `channel/chat.FuzzB` |\n| **2. Two** | | `ledger.TestA` |\n", 2, nil},
		{"another table", "| a | b |\n| --- | --- |\n| `x` | |\n", 0, nil},
		{"no test", "| **1. One** | here | |\n", 1, []string{"row 1 names no test"}},
		{"a test elsewhere", "| **1. One** | `ledger.TestA` | by hand |\n", 1, []string{"row 1 names no test"}},
		{"a test that is gone", "| **1. One** | | `ledger.TestA`, `ledger.TestC` |\n", 1, []string{"there is no ledger.TestC"}},
		{"in the text", "As `ledger.TestC` shows.\n", 0, []string{"there is no ledger.TestC"}},
		{"a number left out", "| **2. Two** | | `ledger.TestA` |\n", 1, []string{"row 2 is number 1"}},
	} {
		if rows, got := tested(e.doc, known); rows != e.rows || !slices.Equal(got, e.want) {
			t.Errorf("%s: %d rows, %q, want %d, %q", e.name, rows, got, e.rows, e.want)
		}
	}
}

func TestProofsThatDoNotHoldAreSeen(t *testing.T) {
	known := map[string]bool{"ledger.TestA": true, "start.txtar": true, "make torture": true, "at text": true}
	for _, e := range []struct {
		name, doc string
		want      []string
	}{
		{"all kinds", "1. **One.**\n   - Proof: `ledger.TestA`, `start.txtar`,\n     `make torture` (`at text`)\n", nil},
		{"two", "1. **One** `key`.\n   - Proof: `ledger.TestA`\n2. **Two.**\n   - Proof: `start.txtar`\n", nil},
		{"a heading after it", "1. **One.**\n   - Proof: `ledger.TestA`\n\n## Next `thing`\n", nil},
		{"a sentence without", "1. **One** `ledger.TestA`.\n2. **Two.**\n   - Proof: `ledger.TestA`\n", []string{"guarantee 1 has no proof"}},
		{"the last without", "1. **One.**\n", []string{"guarantee 1 has no proof"}},
		{"a proof of words", "1. **One.**\n   - Proof: by hand\n", []string{"guarantee 1 has no proof"}},
		{"a test that is gone", "1. **One.**\n   - Proof: `ledger.TestB`\n", []string{"guarantee 1: there is no ledger.TestB"}},
		{"in another package", "1. **One.**\n   - Proof: `engine.TestA`\n", []string{"guarantee 1: there is no engine.TestA"}},
		{"a session that is gone", "1. **One.**\n   - Proof: `end.txtar`\n", []string{"guarantee 1: there is no end.txtar"}},
		{"a point that is gone", "1. **One.**\n   - Proof: `make torture`\n     (`at dawn`)\n", []string{"guarantee 1: there is no at dawn"}},
		{"in the text", "By `ledger.FuzzB`.\n", []string{"guarantee 0: there is no ledger.FuzzB"}},
		{"a number left out", "1. **One.**\n   - Proof: `ledger.TestA`\n3. **Two.**\n   - Proof: `ledger.TestA`\n", []string{"guarantee 3 is number 2"}},
	} {
		if got := proofs(e.doc, known); !slices.Equal(got, e.want) {
			t.Errorf("%s: got %q, want %q", e.name, got, e.want)
		}
	}
}
