package channel

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// constants are the values of all constants of type Condition in state.go.
func constants(t *testing.T) (values []Condition) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "state.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "Condition" {
			for _, v := range spec.Values {
				value, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, Condition(value))
			}
		}
		return true
	})
	return values
}

func TestEachConditionIsDescribed(t *testing.T) {
	want := constants(t)
	if len(want) < 7 {
		t.Fatalf("only the conditions %v found", want)
	}
	if got := Conditions(); !slices.Equal(got, want) {
		t.Errorf("described are %v, want %v", got, want)
	}
	for _, d := range Descriptions() {
		if d.Meaning == "" || d.Action == "" {
			t.Errorf("%s has no meaning or no action", d.Condition)
		}
	}
}
