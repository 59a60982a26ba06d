package archtest

import (
	"cmp"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// support are folders outside the product: drivers of tests, fakes and benchmarks. Folders whose name ends with test
// are too.
//
// archtest: a table, never written.
var support = []string{"torture", "bench", "examples", "web/test", "testdata", "internal/archtest", "internal/fakemodel",
	"internal/suite", "internal/killpoint", "internal/nextversion", "store/memory", "store/sqlite/powercut",
	"server/openapi", "channel/slack/slackgo", "channel/matrix/dendrite", "tools"}

func isSupport(folder string) bool {
	for at := folder; at != "."; at = path.Dir(at) {
		if strings.HasSuffix(at, "test") || strings.Contains(at, "testdata") {
			return true
		}
	}
	return slices.ContainsFunc(support, func(base string) bool { return within(folder, base) })
}

// shape is how large the tree is, and how its folders depend on each other.
type shape struct {
	packages, product int      // with Go files
	pairs             []string // top folders that import each other
	lines, comments   int      // of the product
	long              int      // lines over maxLine characters in all Go files
	unused            []string // exported names of the product that no other package uses
}

const (
	maxLine = 120 // characters that a reader takes in without moving the head
	maxRow  = 140 // of a row of a table in a test, and of a field with a tag: a second line would hide the columns
)

// isLong reports whether a line of n characters is too long. Those of the mutants quote lines of other files.
func isLong(f *file, line string, n int) bool {
	if f.folder() == "torture/mutants" {
		return false
	}
	row := f.test && strings.HasPrefix(line, "{") || strings.HasSuffix(line, "`") && strings.Contains(line, ":\"")
	return n > maxRow || n > maxLine && !row
}

func shapeOf(t *testing.T, files []*file) (s shape) {
	t.Helper()
	folders, product := map[string]bool{}, map[string]bool{}
	imports := map[[2]string]bool{}
	exported, used := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		folders[f.folder()] = true
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(f.name)))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if isLong(f, strings.TrimSpace(line), utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))) {
				s.long++
			}
		}
		usedBy(f, used)
		if f.test || isSupport(f.folder()) {
			continue
		}
		product[f.folder()] = true
		s.lines += strings.Count(string(text), "\n")
		for _, group := range f.ast.Comments {
			s.comments += f.line(group.End()) - f.line(group.Pos()) + 1
		}
		for _, at := range importsOf(f) {
			if to, ours := strings.CutPrefix(at, module+"/"); ours && top(to) != top(f.folder()) && f.folder() != "." {
				imports[[2]string{top(f.folder()), top(to)}] = true
			}
		}
		for _, d := range f.ast.Decls {
			declared(f.folder(), d, exported)
		}
	}
	s.packages, s.product = len(folders), len(product)
	for pair := range imports {
		if pair[0] < pair[1] && imports[[2]string{pair[1], pair[0]}] {
			s.pairs = append(s.pairs, pair[0]+" and "+pair[1])
		}
	}
	for name := range exported {
		if !used[name] {
			s.unused = append(s.unused, name)
		}
	}
	slices.Sort(s.pairs)
	slices.Sort(s.unused)
	return s
}

func top(folder string) string {
	first, _, _ := strings.Cut(folder, "/")
	return first
}

// declared adds the exported names that a declaration adds to a folder.
func declared(folder string, d ast.Decl, names map[string]bool) {
	p := symbols{names: map[string]bool{}}
	p.declare(d)
	for name := range p.names {
		if ast.IsExported(name) && !strings.Contains(name, ".") {
			names[folder+"."+name] = true
		}
	}
}

// usedBy adds the names of other packages that a file uses.
func usedBy(f *file, names map[string]bool) {
	imports := importsOf(f)
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				if at, ours := strings.CutPrefix(imports[x.Name]+"/", module+"/"); ours {
					names[cmp.Or(strings.TrimSuffix(at, "/"), ".")+"."+s.Sel.Name] = true
				}
			}
		}
		return true
	})
}

// The tree stays as easy to learn as it is: these numbers only shrink. go test -v prints them.
func TestTheTreeStaysWithinItsBudgets(t *testing.T) {
	s := shapeOf(t, tree(t))
	for _, m := range []struct {
		name      string
		got, most int
	}{
		{"product packages", s.product, 93},
		{"packages", s.packages, 128},
		{"floors", len(floors), 20},
		{"groups of folders on the floors", groups(), 56},
		{"pairs of top folders that import each other", len(s.pairs), 1},
		{"exported names that no other package uses", len(s.unused), 183},
		{"lines that are too long", s.long, 520},
	} {
		t.Logf("%s: %d", m.name, m.got)
		if m.got > m.most {
			t.Errorf("%s: %d, the budget is %d", m.name, m.got, m.most)
		}
	}
	t.Logf("lines of the product: %d, comments: %.1f %% of them", s.lines, 100*float64(s.comments)/float64(s.lines))
	t.Logf("pairs: %s", strings.Join(s.pairs, "; "))
	byFolder := map[string]int{}
	for _, name := range s.unused {
		byFolder[name[:strings.LastIndexByte(name, '.')]]++
	}
	for _, folder := range slices.SortedFunc(maps.Keys(byFolder), func(a, b string) int {
		return cmp.Compare(byFolder[b], byFolder[a])
	})[:min(10, len(byFolder))] {
		t.Logf("%s exports %d names that no other package uses", folder, byFolder[folder])
	}
}
