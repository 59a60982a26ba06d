package entry_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"mailroom/entry"
)

func TestAllKindsAreKnown(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "entry.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		value, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		kind, err := strconv.Unquote(value.Value)
		if err != nil || !entry.Known(kind) {
			t.Errorf("%s, kind %s, is not known: %v", spec.Names[0], value.Value, err)
		}
		kinds++
		return true
	})
	if kinds < 29 || !entry.Known("x.mine") || entry.Known("run.newer") {
		t.Errorf("%d kinds, kinds of agents known: %t, of newer versions: %t", kinds, entry.Known("x.mine"),
			entry.Known("run.newer"))
	}
}
