package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	maxMethods         = 12 // of an interface, embedded ones counted
	maxExcusedMethods  = 16 // of an interface whose comment says why
	maxExportedMethods = 40 // of a type
	maxAllMethods      = 60 // of a type
)

// methods are the interfaces and types of a tree with their methods.
type methods map[string]*typeMethods

// typeMethods is one named type or interface.
type typeMethods struct {
	name     string // "folder.Type"
	file     *file
	at       token.Pos
	docs     []*ast.CommentGroup
	isSeam   bool     // an interface
	own      []string // names of its own methods
	embedded []string // keys of embedded types of the tree
	foreign  int      // embedded interfaces from outside the tree; each counts as one method
}

// collectMethods collects the methods of all files, because a type and its methods may
// be in different files.
func collectMethods(files []*file) methods {
	all := methods{}
	for _, f := range files {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if spec, ok := s.(*ast.TypeSpec); ok {
						all.define(f, d, spec)
					}
				}
			case *ast.FuncDecl:
				if d.Recv != nil && len(d.Recv.List) == 1 {
					t := all.get(key(f, baseName(d.Recv.List[0].Type)))
					t.own = append(t.own, d.Name.Name)
				}
			}
		}
	}
	return all
}

// key identifies a type. The external test package of a folder has keys of its own.
func key(f *file, name string) string { return f.folder() + " " + f.ast.Name.Name + "." + name }

func (all methods) get(key string) *typeMethods {
	if all[key] == nil {
		all[key] = &typeMethods{}
	}
	return all[key]
}

func (all methods) define(f *file, decl *ast.GenDecl, spec *ast.TypeSpec) {
	t := all.get(key(f, spec.Name.Name))
	t.name, t.file, t.at = strings.Replace(f.folder(), ".", module, 1)+"."+spec.Name.Name, f, spec.Pos()
	t.docs = []*ast.CommentGroup{decl.Doc, spec.Doc}
	var fields *ast.FieldList
	switch of := spec.Type.(type) {
	case *ast.InterfaceType:
		t.isSeam, fields = true, of.Methods
	case *ast.StructType:
		fields = of.Fields
	default:
		return
	}
	for _, field := range fields.List {
		if t.isSeam {
			for _, name := range field.Names {
				t.own = append(t.own, name.Name)
			}
		}
		if len(field.Names) > 0 {
			continue
		}
		if target, ok := embeddedKey(f, field.Type); ok {
			t.embedded = append(t.embedded, target)
		} else if _, named := field.Type.(*ast.SelectorExpr); named && t.isSeam ||
			t.isSeam && baseName(field.Type) == "error" {
			t.foreign++
		}
	}
}

// baseName is the name of a type without its pointer and parameters.
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.IndexListExpr:
		return baseName(e.X)
	}
	return ""
}

// embeddedKey is the key of an embedded type that may be in the tree.
func embeddedKey(f *file, e ast.Expr) (string, bool) {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if name := baseName(e); name != "" {
		return key(f, name), name != "error"
	}
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	of, _ := sel.X.(*ast.Ident)
	for _, imp := range f.ast.Imports {
		target, err := strconv.Unquote(imp.Path.Value)
		if err != nil || of == nil {
			continue
		}
		local := path.Base(target)
		if imp.Name != nil {
			local = imp.Name.Name
		}
		if local != of.Name || target != module && !strings.HasPrefix(target, module+"/") {
			continue
		}
		folder := strings.TrimPrefix(strings.TrimPrefix(target, module), "/")
		if folder == "" {
			folder = "."
		}
		return folder + " " + path.Base(target) + "." + sel.Sel.Name, true
	}
	return "", false
}

// names returns the methods of a type, including promoted ones.
func (all methods) names(key string) []string {
	found, seen := map[string]bool{}, map[string]bool{}
	var walk func(key string)
	walk = func(key string) {
		t := all[key]
		if t == nil || seen[key] {
			return
		}
		seen[key] = true
		for _, name := range t.own {
			found[name] = true
		}
		for i := range t.foreign {
			found[fmt.Sprintf("%s#%d", key, i)] = true
		}
		for _, e := range t.embedded {
			walk(e)
		}
	}
	walk(key)
	list := make([]string, 0, len(found))
	for name := range found {
		list = append(list, name)
	}
	return list
}

// checkMethods finds interfaces and types with too many methods.
func checkMethods(files []*file) []string {
	all := collectMethods(files)
	var found []string
	for key, t := range all {
		if t.file == nil {
			continue // a method of a type that is not declared here
		}
		names := all.names(key)
		exported := 0
		for _, name := range names {
			if ast.IsExported(name) {
				exported++
			}
		}
		if t.isSeam {
			most := maxMethods
			if t.file.excused(t.at, t.docs...) {
				most = maxExcusedMethods
			}
			if n := len(names); n > most {
				found = append(found,
					t.file.finding(t.at, "%s has %d methods with the embedded ones, the budget is %d, or %d with a reason", t.name, n,
						maxMethods, maxExcusedMethods))
			}
			continue
		}
		if !t.file.test && (exported > maxExportedMethods || len(names) > maxAllMethods) {
			found = append(found, t.file.finding(t.at, "%s has %d exported methods and %d in all, the budget is %d and %d",
				t.name, exported, len(names), maxExportedMethods, maxAllMethods))
		}
	}
	slices.Sort(found)
	return found
}

func TestMethodBudgetsHold(t *testing.T) {
	for _, finding := range checkMethods(tree(t)) {
		t.Error(finding)
	}
}

func TestEmbeddedMethodsAreCounted(t *testing.T) {
	list := func(begin, n int, format string) (s string) {
		for i := range n {
			s += fmt.Sprintf(format, begin+i)
		}
		return s
	}
	seam := func(n int, embeds string) string {
		return "package bus\ntype T interface {\n" + embeds + list(0, n, "M%d()\n") + "}\n"
	}
	inner := "type inner interface {\n" + list(100, 6, "M%d()\n") + "}\n"
	concrete := func(exported, others int) string {
		return "package bus\ntype S struct{}\n" + list(0, exported, "func (s *S) M%d() {}\n") + list(0, others,
			"func (S) m%d() {}\n")
	}
	outer := "type O struct { *S }\nfunc (*O) N() {}\n"
	for _, x := range []struct {
		name    string
		sources []string // of bus/x.go, bus/y.go
		want    int
	}{
		{"12 methods", []string{seam(12, "")}, 0},
		{"13 methods", []string{seam(13, "")}, 1},
		{"16 methods, with a reason", []string{strings.Replace(seam(16, ""), "type", "// archtest: a protocol of others.\ntype", 1)}, 0},
		{"17 methods, with a reason", []string{strings.Replace(seam(17, ""), "type", "// archtest: a protocol of others.\ntype", 1)}, 1},
		{"6 methods and 6 embedded", []string{seam(6, "inner\n"), "package bus\n" + inner}, 0},
		{"7 methods and 6 embedded", []string{seam(7, "inner\n"), "package bus\n" + inner}, 1},
		{"12 methods and one of another module", []string{seam(12, "io.Closer\n")}, 1},
		{"40 exported methods", []string{concrete(40, 20)}, 0},
		{"41 exported methods", []string{concrete(41, 0)}, 1},
		{"61 methods in all", []string{concrete(1, 60)}, 1},
		{"40 exported methods and one that embeds them", []string{concrete(40, 0), "package bus\n" + outer}, 1},
	} {
		var files []*file
		for i, source := range x.sources {
			f, err := parse("bus/"+string(rune('x'+i))+".go", source)
			if err != nil {
				t.Fatalf("%s: %v", x.name, err)
			}
			files = append(files, f)
		}
		if got := checkMethods(files); len(got) != x.want {
			t.Errorf("%s: findings %q, want %d", x.name, got, x.want)
		}
	}
}
