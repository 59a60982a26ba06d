package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// checkExpressions finds regular expressions of the product that each process compiles at its start, and those that do
// not compile when they are needed.
func checkExpressions(f *file) []string {
	folder := f.folder()
	beside := slices.ContainsFunc(unguarded, func(base string) bool { return within(folder, base) })
	if f.test || beside || strings.HasSuffix(path.Base(folder), "test") {
		return nil
	}
	var found []string
	for _, decl := range f.ast.Decls {
		variables, ok := decl.(*ast.GenDecl)
		if !ok || variables.Tok != token.VAR {
			continue
		}
		ast.Inspect(variables, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			switch {
			case !ok:
			case selector(call.Fun) == "regexp.MustCompile":
				found = append(found,
					f.finding(call.Pos(), "each process compiles this expression at its start: use lazyregexp.New"))
			case selector(call.Fun) == "lazyregexp.New":
				if err := compiles(call.Args); err != nil {
					found = append(found, f.finding(call.Pos(), "%v", err))
				}
			}
			return true
		})
	}
	return found
}

// compiles compiles the literals among the arguments.
func compiles(args []ast.Expr) error {
	for _, arg := range args {
		literal, ok := arg.(*ast.BasicLit)
		if !ok {
			continue
		}
		expression, err := strconv.Unquote(literal.Value)
		if err != nil {
			return err
		}
		if _, err := regexp.Compile(expression); err != nil {
			return err
		}
	}
	return nil
}

func TestExpressionsCompiledAtTheStartAreFound(t *testing.T) {
	for _, e := range []example{
		{"at the start", "", "package x\nvar word = regexp.MustCompile(`a`)", 1},
		{"when it is needed", "", "package x\nvar word = lazyregexp.New(`a`)", 0},
		{"one that does not compile", "", "package x\nvar word = lazyregexp.New(`(`)", 1},
		{"in a function", "", "package x\nfunc f() { _ = regexp.MustCompile(`a`) }", 0},
		{"in a test", "bus/x_test.go", "package x\nvar word = regexp.MustCompile(`a`)", 0},
		{"in a fake", "channel/slack/slacktest/x.go", "package x\nvar word = regexp.MustCompile(`a`)", 0},
	} {
		e.run(t, checkExpressions)
	}
}
