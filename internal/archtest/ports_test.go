package archtest

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// checkPorts finds tests that rely on the port of a listener that they close. The system gives such a port to another
// process at once: what should refuse answers, and what should come back cannot. machinetest holds a port.
func checkPorts(f *file) []string {
	if !f.test {
		return nil
	}
	var found []string
	report := func(at token.Pos, problem string) {
		if !f.excused(at) {
			found = append(found, f.finding(at, "%s: use machinetest.Reserve", problem))
		}
	}
	for _, d := range f.ast.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		for name, at := range assignedFrom(function, "net.Listen") {
			if used, closed := usesOf(function, name); closed && used["Addr"] && len(used) == 2 {
				report(at, "a listener only lends its port")
			}
		}
		for _, server := range []string{"httptest.NewServer", "httptest.NewTLSServer"} {
			for name, at := range assignedFrom(function, server) {
				if closesInside(function, name) {
					report(at, "a server that is closed before its test ends does not keep its port")
				}
			}
		}
		ast.Inspect(function, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && selector(call.Fun) == "net.Listen" && len(call.Args) == 2 &&
				!anyPort(call.Args[1]) {
				report(call.Pos(), "nothing kept the port to listen on")
			}
			return true
		})
	}
	return found
}

// anyPort reports whether an address is a literal that lets the system choose the port, or names a file of a Unix
// socket.
func anyPort(address ast.Expr) bool {
	literal, ok := address.(*ast.BasicLit)
	if !ok {
		call, ok := address.(*ast.CallExpr)
		return ok && selector(call.Fun) == "filepath.Join"
	}
	return strings.HasSuffix(literal.Value, `:0"`)
}

// assignedFrom returns the variables of a function that a call of made gives a value to.
func assignedFrom(function *ast.FuncDecl, made string) map[string]token.Pos {
	names := map[string]token.Pos{}
	ast.Inspect(function, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Rhs) == 1 {
			call, ok := a.Rhs[0].(*ast.CallExpr)
			if name, isName := a.Lhs[0].(*ast.Ident); ok && isName && selector(call.Fun) == made {
				names[name.Name] = a.Pos()
			}
		}
		return true
	})
	return names
}

// usesOf returns the methods of a variable that a function uses, "" for the variable itself, and whether it closes it.
func usesOf(function *ast.FuncDecl, name string) (used map[string]bool, closed bool) {
	used = map[string]bool{}
	ast.Inspect(function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, right := range n.Rhs {
				ast.Inspect(right, func(n ast.Node) bool { return count(n, name, used) })
			}
			return false
		default:
			return count(n, name, used)
		}
	})
	return used, used["Close"]
}

// count adds a use of the variable to used, and reports whether the children of n are to be looked at.
func count(n ast.Node, name string, used map[string]bool) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			if x.Name == name {
				used[n.Sel.Name] = true
			}
			return false
		}
	case *ast.Ident:
		if n.Name == name {
			used[""] = true
		}
	}
	return true
}

// closesInside reports whether a statement of a function closes a variable, except in defer and in functions that it
// passes on.
func closesInside(function *ast.FuncDecl, name string) bool {
	closes := false
	ast.Inspect(function, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.FuncLit:
			return false
		case *ast.CallExpr:
			closes = closes || selector(n.Fun) == name+".Close"
		}
		return !closes
	})
	return closes
}

func TestClosedPortsAreFound(t *testing.T) {
	body := func(s string) string { return "package x\nfunc f() {\n" + s + "\n}" }
	const listen = "l, err := net.Listen(\"tcp\", \"127.0.0.1:0\")\n"
	for _, e := range []example{
		{"closed, for its address", "bus/x_test.go", body(listen + "l.Close()\nreturn l.Addr().String()"), 1},
		{"closed by defer", "bus/x_test.go", body(listen + "defer l.Close()\nreturn l.Addr().String()"), 1},
		{"closed in the result", "bus/x_test.go", body(listen + "return l.Addr(), l.Close()"), 1},
		{"closed, with a reason", "bus/x_test.go",
			body(strings.TrimSpace(listen) + " // archtest: it is a foreign one.\ndefer l.Close()\ng(l.Addr())"), 0},
		{"served", "bus/x_test.go", body(listen + "go serve(l)\ndefer l.Close()\ng(l.Addr())"), 0},
		{"accepts", "bus/x_test.go", body(listen + "l.Accept()\nl.Close()\ng(l.Addr())"), 0},
		{"kept", "bus/x_test.go", body(listen + "s.l = l\nl.Close()\ng(l.Addr())"), 0},
		{"an address that was closed", "bus/x_test.go", body("net.Listen(\"tcp\", s.addr)"), 1},
		{"a socket in a folder", "bus/x_test.go", body("net.Listen(\"unix\", filepath.Join(dir, \"s\"))"), 0},
		{"a server that is closed early", "bus/x_test.go", body("s := httptest.NewServer(nil)\ns.Close()\ng(s.URL)"), 1},
		{"a server that is closed at the end", "bus/x_test.go", body("s := httptest.NewServer(nil)\ndefer s.Close()\ng(s.URL)"), 0},
		{"a server of the test", "bus/x_test.go", body("s := httptest.NewServer(nil)\nt.Cleanup(func() { s.Close() })"), 0},
		{"in a package for tests", "bus/x.go", "package x\nimport _ \"testing\"\nfunc f() {\n" + listen + "l.Close()\ng(l.Addr())}", 1},
		{"in the product", "bus/x.go", body("net.Listen(\"tcp\", addr)"), 0},
	} {
		e.run(t, checkPorts)
	}
}
