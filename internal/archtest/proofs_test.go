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
	outside     = regexp.MustCompile(`^(\d+\. \*\*|\| \d+ \||- Proof:)`)
	numberedRow = regexp.MustCompile(`^\| \*\*(\d+)\. `)
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	testName    = regexp.MustCompile(`^[\w/]+\.(Test|Fuzz)\w*$|\w\.txtar$`)
	killPoint   = regexp.MustCompile(`\{"((?:at|before|after) [^"]+)", \d+\}`)
	target      = regexp.MustCompile(`(?m)^([a-z]+):`)
)

// promised is the head of a table of promises. Each of its rows has a number or none, the promise, and the tests.
const promised = "| | promise | tests |"

// proofs checks that each row of the tables of promises names something in its last cell, that the numbers are in
// order, that no promise stands outside of a table, and that all names in last cells are known, as are all names of
// tests elsewhere. rows is how many promises there are.
func proofs(doc string, known map[string]bool) (rows int, found []string) {
	last, inside := 0, false
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		inside = inside && strings.HasPrefix(line, "|") || line == promised
		if !inside && outside.MatchString(line) {
			found = append(found, fmt.Sprintf("a promise in no table: %.40s", line))
		}
		for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
			if testName.MatchString(span[1]) && !known[span[1]] {
				found = append(found, "there is no "+span[1])
			}
		}
		if !inside || line == promised || strings.HasPrefix(line, "| ---") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 3 {
			found = append(found, fmt.Sprintf("row %d has %d cells", rows, len(cells)))
			continue
		}
		if n := strings.TrimSpace(cells[0]); n != "" {
			if last++; n != fmt.Sprint(last) {
				found = append(found, fmt.Sprintf("promise %s is number %d", n, last))
			}
		}
		names := codeSpan.FindAllStringSubmatch(cells[2], -1)
		if len(names) == 0 || strings.TrimSpace(cells[1]) == "" {
			found = append(found, fmt.Sprintf("row %d has no promise or no proof", rows))
		}
		for _, span := range names {
			if !testName.MatchString(span[1]) && !known[span[1]] {
				found = append(found, "there is no "+span[1])
			}
		}
	}
	return rows, found
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
	rows, found := proofs(text(t, "docs/guarantees.md"), provable(t))
	if rows < 94 {
		t.Errorf("docs/guarantees.md: %d promises, fewer than there were", rows)
	}
	for _, finding := range found {
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

func TestRowsWithoutATestAreFound(t *testing.T) {
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

func TestBrokenProofsAreFound(t *testing.T) {
	known := map[string]bool{"ledger.TestA": true, "start.txtar": true, "make torture": true, "at text": true}
	const head = promised + "\n| --- | --- | --- |\n"
	for _, e := range []struct {
		name, doc string
		rows      int
		want      []string
	}{
		{"all kinds", head + "| 1 | **One.** | `ledger.TestA`, `start.txtar`, `make torture` (`at text`) |\n", 1, nil},
		{"two", head + "| 1 | **One** `key`. | `ledger.TestA` |\n| 2 | **Two.** | `start.txtar` |\n", 2, nil},
		{"two tables", head + "| 1 | **One.** | `ledger.TestA` |\n\n## Next\n\n" + head + "| 2 | **Two.** | `ledger.TestA` |\n", 2, nil},
		{"one without a number", head + "| 1 | **One.** | `ledger.TestA` |\n| | **Two.** | `start.txtar` |\n", 2, nil},
		{"another table", "| a | b |\n| --- | --- |\n| `x` | |\n", 0, nil},
		{"no proof", head + "| 1 | **One** `ledger.TestA`. | |\n| 2 | **Two.** | `ledger.TestA` |\n", 2,
			[]string{"row 1 has no promise or no proof"}},
		{"no proof and no number", head + "| | **One.** | |\n", 1, []string{"row 1 has no promise or no proof"}},
		{"no promise", head + "| 1 | | `ledger.TestA` |\n", 1, []string{"row 1 has no promise or no proof"}},
		{"a proof of words", head + "| 1 | **One.** | by hand |\n", 1, []string{"row 1 has no promise or no proof"}},
		{"a cell too many", head + "| 1 | **One** a | b. | `ledger.TestA` |\n", 1, []string{"row 1 has 4 cells"}},
		{"a test that is gone", head + "| 1 | **One.** | `ledger.TestB` |\n", 1, []string{"there is no ledger.TestB"}},
		{"in another package", head + "| 1 | **One.** | `engine.TestA` |\n", 1, []string{"there is no engine.TestA"}},
		{"a session that is gone", head + "| 1 | **One.** | `end.txtar` |\n", 1, []string{"there is no end.txtar"}},
		{"a point that is gone", head + "| 1 | **One.** | `make torture` (`at dawn`) |\n", 1, []string{"there is no at dawn"}},
		{"in the text", "By `ledger.FuzzB`.\n", 0, []string{"there is no ledger.FuzzB"}},
		{"a number left out", head + "| 1 | **One.** | `ledger.TestA` |\n| 3 | **Two.** | `ledger.TestA` |\n", 2,
			[]string{"promise 3 is number 2"}},
		{"a list", "1. **One.**\n", 0, []string{"a promise in no table: 1. **One.**"}},
		{"a table cut in two", head + "| 1 | **One.** | `ledger.TestA` |\n\n| 2 | **Two.** | `ledger.TestA` |\n", 1,
			[]string{"a promise in no table: | 2 | **Two.** | `ledger.TestA` |"}},
	} {
		if rows, got := proofs(e.doc, known); rows != e.rows || !slices.Equal(got, e.want) {
			t.Errorf("%s: got %d, %q, want %d, %q", e.name, rows, got, e.rows, e.want)
		}
	}
}
