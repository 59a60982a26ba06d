package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// guards are the functions of internal/recovery that a goroutine defers first.
var guards = []string{"recovery.Log", "recovery.Error", "recovery.Handle"}

// unguarded are folders outside the product: test drivers, fakes and benchmarks. A panic there must end the
// process.
var unguarded = []string{"torture", "bench", "internal/fakemodel", "internal/suite"}

// checkGoroutines finds goroutines whose panic would end the process: what a go statement, a Go method or an AfterFunc
// starts begins with a deferred guard.
func checkGoroutines(f *file) []string {
	folder := f.folder()
	beside := slices.ContainsFunc(unguarded, func(base string) bool { return within(folder, base) })
	if f.test || beside || strings.HasSuffix(path.Base(folder), "test") {
		return nil
	}
	var found []string
	check := func(at ast.Node, started ast.Expr) {
		if !guarded(started) && !f.excused(at.Pos()) {
			found = append(found,
				f.finding(at.Pos(),
					"a panic in this goroutine ends the process: begin it with defer recovery.Log, Error or Handle"))
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			check(n, n.Call.Fun)
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			switch {
			case !ok:
			case (called.Sel.Name == "Go" || called.Sel.Name == "TryGo") && len(n.Args) == 1:
				check(n, n.Args[0])
			case called.Sel.Name == "AfterFunc" && len(n.Args) == 2 && !cancels(n.Args[1]):
				check(n, n.Args[1])
			}
		}
		return true
	})
	return found
}

// guarded reports whether a function begins with a deferred guard.
func guarded(e ast.Expr) bool {
	first := opening(e)
	d, ok := first.(*ast.DeferStmt)
	return ok && slices.Contains(guards, selector(d.Call.Fun))
}

// cancels reports whether a function only cancels a context, which cannot panic: it is cancel itself, or calls nothing
// else.
func cancels(e ast.Expr) bool {
	if selector(e) == ".cancel" {
		return true
	}
	literal, ok := e.(*ast.FuncLit)
	if !ok || len(literal.Body.List) != 1 {
		return false
	}
	call, ok := literal.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	called, ok := call.X.(*ast.CallExpr)
	return ok && selector(called.Fun) == ".cancel"
}

// opening is the first statement of a function literal.
func opening(e ast.Expr) ast.Stmt {
	literal, ok := e.(*ast.FuncLit)
	if !ok || len(literal.Body.List) == 0 {
		return nil
	}
	return literal.Body.List[0]
}

func TestGoroutinesWithoutAGuardAreFound(t *testing.T) {
	body := func(s string) string { return "package x\nfunc f() {\n" + s + "\n}" }
	for _, e := range []example{
		{"a bare one", "bus/x.go", body("go func() { g() }()"), 1},
		{"a function by name", "bus/x.go", body("go g()"), 1},
		{"a guard", "bus/x.go", body("go func() { defer recovery.Log(log, \"g\"); g() }()"), 0},
		{"a guard that is not the first", "bus/x.go", body("go func() { defer close(c); defer recovery.Log(log, \"g\") }()"), 1},
		{"a guard that is not deferred", "bus/x.go", body("go func() { recovery.Log(log, \"g\"); g() }()"), 1},
		{"a guard of the work alone", "bus/x.go", body("go func() { _ = recovery.Call(log, \"g\", g) }()"), 1},
		{"of a group", "bus/x.go", body("w.Go(func() { g() })"), 1},
		{"of a group, by name", "bus/x.go", body("w.Go(g)"), 1},
		{"of a group, guarded", "bus/x.go", body("w.Go(func() (err error) { defer recovery.Error(log, \"g\", &err); return g() })"), 0},
		{"of a timer", "bus/x.go", body("time.AfterFunc(d, func() { g() })"), 1},
		{"of a timer, by name", "bus/x.go", body("time.AfterFunc(d, g)"), 1},
		{"of a timer that cancels", "bus/x.go", body("time.AfterFunc(d, cancel)"), 0},
		{"of a context that cancels", "bus/x.go", body("context.AfterFunc(c, func() { cancel(errGone) })"), 0},
		{"a reason", "bus/x.go", body("go g() // archtest: g cannot panic."), 0},
		{"in a test", "bus/x_test.go", body("go g()"), 0},
		{"in a suite of tests", "channel/irc/irctest/x.go", body("go g()"), 0},
		{"in a driver", "torture/x.go", body("go g()"), 0},
	} {
		e.run(t, checkGoroutines)
	}
}
