package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the path of this module.
var module = strings.TrimSuffix(reflect.TypeFor[file]().PkgPath(), "/internal/archtest")

// file is one parsed Go file. Its name is relative to the root of the tree.
type file struct {
	name string
	test bool // a test file, or a file of a package for tests
	ast  *ast.File
	fset *token.FileSet
}

// folder returns the file's folder, "." for the root.
func (f *file) folder() string { return path.Dir(f.name) }

func (f *file) line(p token.Pos) int { return f.fset.Position(p).Line }

// finding formats a finding with its position.
func (f *file) finding(p token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", f.name, f.line(p), fmt.Sprintf(format, args...))
}

// excused reports whether a comment gives the reason for exceeding a budget, either in
// the doc comment or on the first line of the declaration.
func (f *file) excused(at token.Pos, docs ...*ast.CommentGroup) bool {
	for _, group := range f.ast.Comments {
		if f.line(group.Pos()) == f.line(at) {
			docs = append(docs, group)
		}
	}
	for _, doc := range docs {
		if doc == nil {
			continue
		}
		for _, c := range doc.List {
			if _, why, ok := strings.Cut(c.Text, "archtest: "); ok && strings.TrimSpace(why) != "" {
				return true
			}
		}
	}
	return false
}

func parse(name, source string) (*file, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &file{name: name, ast: tree, fset: fset, test: strings.HasSuffix(name, "_test.go")}
	for _, imp := range tree.Imports {
		f.test = f.test || imp.Path.Value == `"testing"`
	}
	return f, nil
}

// parsed are the Go files of the module. They are parsed once, because that takes longer than any of the checks.
var parsed = sync.OnceValues(func() ([]*file, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	var files []*file
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if p != root && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(p) != ".go" {
			return nil
		}
		source, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parse(filepath.ToSlash(name), string(source))
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	return files, err
})

// tree returns every Go file of the module.
func tree(t *testing.T) []*file {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("only %d Go files found", len(files))
	}
	return files
}

// TestTheRulesOfTheCodeHold checks the whole tree, each rule by its name.
func TestTheRulesOfTheCodeHold(t *testing.T) {
	files := tree(t)
	for name, check := range map[string]func(*file) []string{
		"imports point down":                checkImports,
		"files are small":                   checkFileSize,
		"functions are short":               checkFunctionSize,
		"no package variable is changeable": checkVariables,
		"each goroutine has a guard":        checkGoroutines,
		"package names name things":         checkNames,
		"no test sleeps":                    checkSleep,
		"no test relies on a closed port":   checkPorts,
		"no expression is compiled early":   checkExpressions,
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range files {
				for _, finding := range check(f) {
					t.Error(finding)
				}
			}
		})
	}
	t.Run("every floor has a folder", func(t *testing.T) {
		for base := range floorOf() {
			if !slices.ContainsFunc(files, func(f *file) bool { return within(f.folder(), base) }) {
				t.Errorf("floors names %s, which is not there", base)
			}
		}
	})
}

// example is a source with as many findings as it should have.
type example struct {
	name   string
	file   string // "" is x.go in a folder without a meaning
	source string
	want   int
}

func (e example) run(t *testing.T, check func(*file) []string) {
	t.Helper()
	name := e.file
	if name == "" {
		name = "bus/x.go"
	}
	f, err := parse(name, e.source)
	if err != nil {
		t.Fatalf("%s: %v", e.name, err)
	}
	if got := check(f); len(got) != e.want {
		t.Errorf("%s: %d findings %q, want %d", e.name, len(got), got, e.want)
	}
}
