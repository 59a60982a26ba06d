package archtest

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

const (
	maxFileLines = 600
	maxFuncLines = 80
)

func checkFileSize(f *file) []string {
	lines := f.fset.File(f.ast.Pos()).LineCount()
	if lines <= maxFileLines {
		return nil
	}
	for _, group := range f.ast.Comments {
		if group.End() <= f.ast.Package && f.excused(f.ast.Package, group) {
			return nil
		}
	}
	return []string{f.finding(f.ast.Package, "the file has %d lines, the budget is %d", lines, maxFileLines)}
}

func checkFunctionSize(f *file) []string {
	var found []string
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := f.line(fn.End()) - f.line(fn.Pos()) + 1
		if lines > maxFuncLines && !f.excused(fn.Pos(), fn.Doc) {
			found = append(found, f.finding(fn.Pos(), "%s has %d lines, the budget is %d", fn.Name.Name, lines, maxFuncLines))
		}
	}
	return found
}

// checkVariables finds mutable package variables.
func checkVariables(f *file) []string {
	if f.test {
		return nil
	}
	var found []string
	for _, d := range f.ast.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.VAR {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec) // the only kind that a var declaration has
			for i, name := range spec.Names {
				if !fixed(spec, i) && !f.excused(name.Pos(), decl.Doc, spec.Doc, spec.Comment) {
					found = append(found, f.finding(name.Pos(), "package variable %s is mutable", name.Name))
				}
			}
		}
	}
	return found
}

// fixed reports whether the i-th variable of spec is of a kind that code does not
// change: a sentinel error, a compiled regexp, embedded files, or the
// assertion that a type implements an interface.
func fixed(spec *ast.ValueSpec, i int) bool {
	if spec.Names[i].Name == "_" || selector(spec.Type) == "embed.FS" {
		return true
	}
	if i >= len(spec.Values) {
		return false
	}
	call, ok := spec.Values[i].(*ast.CallExpr)
	if !ok {
		return false
	}
	switch selector(call.Fun) {
	case "errors.New", "fmt.Errorf", "regexp.MustCompile", "lazyregexp.New", "mailroom.Errorf", ".Errorf":
		return true
	}
	return false
}

// selector returns "package.Name", or ".Name" for a name without a package.
func selector(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return "." + e.Name
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok {
			return of.Name + "." + e.Sel.Name
		}
	}
	return ""
}

func TestOversizedCodeIsFound(t *testing.T) {
	long := func(n int) string { return strings.Repeat("\n", n) }
	for _, e := range []example{
		{"600 lines", "", "package x" + long(600), 0},
		{"601 lines", "", "package x" + long(601), 1},
		{"601 lines, with a reason", "", "// archtest: it is one table.\n\npackage x" + long(599), 0},
		{"601 lines, with an empty reason", "", "// archtest: \n\npackage x" + long(599), 1},
	} {
		e.run(t, checkFileSize)
	}
	for _, e := range []example{
		{"80 lines", "", "package x\nfunc f() {" + long(79) + "}", 0},
		{"81 lines", "", "package x\nfunc f() {" + long(80) + "}", 1},
		{"81 lines, with a reason", "", "package x\n// f runs.\n// archtest: one story.\nfunc f() {" + long(80) + "}", 0},
	} {
		e.run(t, checkFunctionSize)
	}
}

func TestMutableVariablesAreFound(t *testing.T) {
	for _, e := range []example{
		{"a counter", "", "package x\nvar n int", 1},
		{"two", "", "package x\nvar (\n a = 1\n b = map[string]int{}\n)", 2},
		{"a reason beside it", "", "package x\nvar n = [...]int{1} // archtest: a table, never written.", 0},
		{"a reason above it", "", "package x\n// archtest: a table, never written.\nvar n = [...]int{1}", 0},
		{"an error", "", "package x\nvar ErrGone = errors.New(\"gone\")", 0},
		{"an error by assignment later", "", "package x\nvar errGone error", 1},
		{"a regexp", "", "package x\nvar word = regexp.MustCompile(`a`)", 0},
		{"embedded files", "", "package x\n//go:embed a\nvar files embed.FS", 0},
		{"an assertion", "", "package x\nvar _ error = (*T)(nil)", 0},
		{"inside a function", "", "package x\nfunc f() { var n int; _ = n }", 0},
		{"in a test", "bus/x_test.go", "package x\nvar n int", 0},
	} {
		e.run(t, checkVariables)
	}
}
