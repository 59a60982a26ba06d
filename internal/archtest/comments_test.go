package archtest

import (
	"go/ast"
	"go/doc/comment"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// symbols are the names of one package: "Name" of a declaration, "Type.Name" of a method or a field.
type symbols struct {
	names   map[string]bool
	imports map[string]string // import paths of its files, by the name in the file
}

// symbolsOf returns the symbols of each package, by its folder. Files of tests add to their package: their comments may
// link to both.
func symbolsOf(files []*file) map[string]*symbols {
	packages := map[string]*symbols{}
	for _, f := range files {
		p := packages[f.folder()]
		if p == nil {
			p = &symbols{map[string]bool{}, map[string]string{}}
			packages[f.folder()] = p
		}
		for name, at := range importsOf(f) {
			p.imports[name] = at
		}
		for _, d := range f.ast.Decls {
			p.declare(d)
		}
	}
	return packages
}

// importsOf returns the imports of a file by their names.
func importsOf(f *file) map[string]string {
	imports := map[string]string{}
	for _, imp := range f.ast.Imports {
		at, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			continue // the parser has read it, so this does not happen
		}
		name := path.Base(at)
		if strings.HasPrefix(name, "v") && len(name) == 2 {
			name = path.Base(path.Dir(at)) // a major version
		}
		if imp.Name != nil {
			name = imp.Name.Name
		}
		imports[name] = at
	}
	return imports
}

func (p *symbols) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		p.names[strings.TrimPrefix(receiver(d)+"."+d.Name.Name, ".")] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					p.names[n.Name] = true
				}
			case *ast.TypeSpec:
				p.names[s.Name.Name] = true
				ast.Inspect(s.Type, func(n ast.Node) bool {
					if field, ok := n.(*ast.Field); ok {
						for _, name := range field.Names {
							p.names[s.Name.Name+"."+name.Name] = true
						}
					}
					return true
				})
			}
		}
	}
}

// receiver returns the name of a method's type, or "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	of := d.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

// docComments calls do with each doc comment of a file and the name that it documents, which may be that of a constant
// or a variable.
func docComments(f *file, do func(doc *ast.CommentGroup, name string, value bool)) {
	visit := func(doc *ast.CommentGroup, name string, value bool) {
		if doc != nil {
			do(doc, name, value)
		}
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			visit(d.Doc, d.Name.Name, false)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					visit(docOf(d, s.Doc), s.Name.Name, false)
				case *ast.ValueSpec:
					if len(s.Names) == 1 {
						visit(docOf(d, s.Doc), s.Names[0].Name, true)
					}
				}
			}
		}
	}
}

// docOf returns the comment of one of a declaration's names: its own, or that of the declaration if this has no others.
func docOf(d *ast.GenDecl, own *ast.CommentGroup) *ast.CommentGroup {
	if own == nil && len(d.Specs) == 1 {
		return d.Doc
	}
	return own
}

// mixedCaps matches a word that can only be a name of the code.
var mixedCaps = regexp.MustCompile(`^[A-Za-z]+[a-z0-9][A-Z][A-Za-z0-9]*$`)

// checkFirstWords finds doc comments that begin with another name than the one that they document: it was renamed, or
// the comment has lost its place. The comment of a value may say what it holds without its name.
func checkFirstWords(f *file) (found []string) {
	if f.test {
		return nil
	}
	docComments(f, func(doc *ast.CommentGroup, name string, value bool) {
		words := strings.Fields(doc.Text())
		if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
			words = words[1:]
		}
		if name == "_" || name == "main" || len(words) == 0 {
			return
		}
		first := strings.TrimRight(words[0], ",:.")
		if first != name && first != name+"'s" && first != "Deprecated" && (!value || mixedCaps.MatchString(first)) {
			found = append(found, f.finding(doc.Pos(), "the comment of %s begins with %q", name, words[0]))
		}
	})
	return found
}

// checkLinks finds links of doc comments that lead nowhere. Names of other modules are not checked, only that their
// package is imported.
func checkLinks(packages map[string]*symbols) func(*file) []string {
	return func(f *file) (found []string) {
		here := packages[f.folder()]
		ast.Inspect(f.ast, func(n ast.Node) bool {
			var doc *ast.CommentGroup
			switch n := n.(type) {
			case *ast.File:
				doc = n.Doc
			case *ast.FuncDecl:
				doc = n.Doc
			case *ast.GenDecl:
				doc = n.Doc
			case *ast.TypeSpec:
				doc = n.Doc
			case *ast.ValueSpec:
				doc = n.Doc
			case *ast.Field:
				doc = n.Doc
			}
			if doc != nil {
				for _, link := range brokenLinks(doc.Text(), here, packages) {
					found = append(found, f.finding(doc.Pos(), "[%s] leads nowhere", link))
				}
			}
			return true
		})
		return found
	}
}

// ownLink matches a link to a name that is not exported.
var ownLink = regexp.MustCompile(`\[\*?([A-Za-z]\w*\.)?([a-z]\w*)\]`)

// notImported is the import path of a package of ours that a comment names, and its own package does not import.
const notImported = "?"

func brokenLinks(text string, here *symbols, packages map[string]*symbols) (broken []string) {
	parser := comment.Parser{
		LookupPackage: func(name string) (string, bool) {
			if at, ok := here.imports[name]; ok {
				return at, true
			}
			for folder := range packages {
				if path.Base(folder) == name && !here.names[name] {
					return notImported, true
				}
			}
			return "", false
		},
		LookupSym: func(recv, name string) bool {
			return here.names[strings.TrimPrefix(recv+"."+name, ".")] || recv == "" || here.names[recv]
		},
	}
	var walk func([]comment.Text)
	walk = func(texts []comment.Text) {
		for _, t := range texts {
			switch t := t.(type) {
			case *comment.DocLink:
				if !resolves(t, here, packages) {
					broken = append(broken, linkText(t))
				}
			case *comment.Link:
				walk(t.Text)
			}
		}
	}
	var blocks func([]comment.Block)
	blocks = func(all []comment.Block) {
		for _, b := range all {
			switch b := b.(type) {
			case *comment.Paragraph:
				walk(b.Text)
			case *comment.Heading:
				walk(b.Text)
			case *comment.List:
				for _, item := range b.Items {
					blocks(item.Content)
				}
			}
		}
	}
	blocks(parser.Parse(text).Content)
	for _, link := range ownLink.FindAllStringSubmatch(text, -1) { // which the parser takes for text
		of, name := strings.TrimSuffix(link[1], "."), link[2]
		if of == "" && mixedCaps.MatchString(name) && !here.names[name] || here.names[of] && !here.names[of+"."+name] {
			broken = append(broken, strings.Trim(link[0], "[]"))
		}
	}
	return broken
}

func resolves(link *comment.DocLink, here *symbols, packages map[string]*symbols) bool {
	in := here
	if at := link.ImportPath; at != "" {
		folder, ours := strings.CutPrefix(at+"/", module+"/")
		if !ours {
			return at != notImported || link.Name == "" // [server] may be a table of the settings
		}
		if in = packages[path.Clean(folder)]; in == nil {
			return false
		}
	}
	return link.Name == "" || in.names[strings.TrimPrefix(link.Recv+"."+link.Name, ".")]
}

func linkText(link *comment.DocLink) string {
	var text strings.Builder
	for _, t := range link.Text {
		if plain, ok := t.(comment.Plain); ok {
			text.WriteString(string(plain))
		}
	}
	return text.String()
}

func TestCommentsNameWhatIsThere(t *testing.T) {
	files := tree(t)
	links := checkLinks(symbolsOf(files))
	for _, f := range files {
		for _, finding := range append(checkFirstWords(f), links(f)...) {
			t.Error(finding)
		}
	}
}

func TestStaleCommentsAreFound(t *testing.T) {
	for _, e := range []example{
		{"its name", "", "package x\n// run runs.\nfunc run() {}", 0},
		{"an article", "", "package x\n// A Run is work.\ntype Run int", 0},
		{"an old name", "", "package x\n// start runs.\nfunc run() {}", 1},
		{"an old name of a type", "", "package x\n// Job is work.\ntype Run int", 1},
		{"an old name of a constant", "", "package x\n// DefaultProject is used.\nconst Default = 1", 1},
		{"what a constant holds", "", "package x\n// Threads that are kept.\nconst keep = 1", 0},
		{"a method in a group", "", "package x\ntype (\n// Run is work.\nRun int\n// Job is work.\nTask int\n)", 1},
		{"a test", "bus/x_test.go", "package x\n// A run ends.\nfunc TestRun() {}", 0},
	} {
		e.run(t, checkFirstWords)
	}
	imports := "package x\nimport \"" + module + "/store\"\n"
	other, err := parse("store/x.go", "package store\ntype Store struct{ Size int }\nfunc (s *Store) Read() {}")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []example{
		{"links", "",
			imports + "// f uses [store.Store], [store.Store.Read], [store.Store.Size], [f] and [T.m].\nfunc f() {}\ntype T int\nfunc (T) m() {}", 0},
		{"another module", "", "package x\nimport \"time\"\n// f uses [time.Nothing], list[0] and [words].\nfunc f() {}", 0},
		{"a name that is gone", "", imports + "// f uses [store.Reader] and [store.Store.Write].\nfunc f() {}", 2},
		{"an own name that is gone", "", "package x\n// f uses [Reader], [openRun] and [T.n].\nfunc f() {}\ntype T int", 3},
		{"a package that is not imported", "", "package x\n// f uses [store.Store].\nfunc f() {}", 1},
		{"in a field", "", "package x\ntype T struct {\n// Size is as in [Reader].\nSize int\n}", 1},
	} {
		f, err := parse("bus/x.go", e.source)
		if err != nil {
			t.Fatal(err)
		}
		e.run(t, checkLinks(symbolsOf([]*file{f, other})))
	}
}
