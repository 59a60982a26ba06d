package manual

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// newMarkdown returns the parser and renderer of pages. It leaves HTML in Markdown out, so that a page has only what
// its content security policy allows.
func newMarkdown(m *Manual) goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(
			extension.Table, extension.Strikethrough,
		),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(transformer{m}, 100))),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(blocks{}, 100))),
	)
}

// pageKey is the key of the page in the context of the parser, whose value is a *parsing.
//
// archtest: a key, never written.
var pageKey = parser.NewContextKey()

// parsing is the state of a page that is parsed.
type parsing struct {
	page     *page
	title    string // text of the first heading
	headings []heading
	broken   []error         // links that lead nowhere
	anchors  map[string]bool // anchors of the page
	links    []target        // links to pages
	shots    []string        // pictures in the page that tests make
}

// heading is a line of the table of contents of a page.
type heading struct {
	Level    int
	ID, Text string
}

// target is what a link leads to.
type target struct{ path, anchor string }

// transformer changes the parsed Markdown of a page into what is rendered.
type transformer struct{ manual *Manual }

// Transform implements [parser.ASTTransformer].
func (t transformer) Transform(doc *ast.Document, reader text.Reader, pc parser.Context) {
	in, source := pc.Get(pageKey).(*parsing), reader.Source()
	var inlines, wide []ast.Node
	walk(doc, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Heading:
			t.addHeading(in, n, source)
		case *extast.Table:
			wide = append(wide, n)
		case *ast.Paragraph: // a drawing
			if image, ok := n.FirstChild().(*ast.Image); ok && image == n.LastChild() {
				wide = append(wide, n)
			}
		case *ast.Link, *ast.Image:
			inlines = append(inlines, n)
		}
	})
	for _, n := range inlines {
		switch n := n.(type) {
		case *ast.Link:
			t.resolveLink(in, n, source)
		case *ast.Image:
			t.resolveImage(in, n, source)
		}
	}
	for _, n := range wide {
		if n.Parent() == nil { // a drawing that is not there
			continue
		}
		scroll := &scrolling{}
		n.Parent().ReplaceChild(n.Parent(), n, scroll)
		scroll.AppendChild(scroll, n)
	}
	groupTabs(doc, source)
}

// walk calls f for each node of a tree, when the walk enters it.
func walk(n ast.Node, f func(ast.Node)) {
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // f returns no error
		if entering {
			f(n)
		}
		return ast.WalkContinue, nil
	})
}

// addHeading gives a heading its anchor.
func (t transformer) addHeading(in *parsing, n *ast.Heading, source []byte) {
	words := plain(n, source)
	id := slug(words)
	for i := 1; in.anchors[id]; i++ {
		id = fmt.Sprintf("%s-%d", slug(words), i)
	}
	in.anchors[id] = true
	n.SetAttributeString("id", []byte(id))
	if n.Level == 1 && in.title == "" {
		in.title = words
		return
	}
	in.headings = append(in.headings, heading{Level: n.Level, ID: id, Text: words})
}

// slug returns the anchor of a heading as GitHub makes it: lower case, without punctuation, with hyphens for spaces.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// resolveLink makes a link relative to a page of the site. A link to a file outside the manual becomes the name of that
// file in the source tree, because a site does not have it.
func (t transformer) resolveLink(in *parsing, n *ast.Link, source []byte) {
	to := string(n.Destination)
	name, anchor, _ := strings.Cut(to, "#")
	if strings.Contains(name, ":") { // another site
		return
	}
	from := in.page.Path
	full := from
	if name != "" {
		full = path.Join(path.Dir(from), name)
	}
	if full == apiPath { // only generated parts link to it
		return
	}
	if page := t.manual.pages[full]; page != nil {
		in.links = append(in.links, target{full, anchor})
		if name == "" {
			return
		}
		n.Destination = []byte(htmlPath(name))
		if anchor != "" {
			n.Destination = []byte(htmlPath(name) + "#" + anchor)
		}
		return
	}
	if _, err := fs.Stat(t.manual.options.Files, full); err == nil && path.Ext(full) == ".svg" {
		return
	}
	inTree := path.Join("docs", full)
	if strings.HasPrefix(inTree, "../") || inTree == "docs/"+full && path.Ext(full) == ".md" {
		in.broken = append(in.broken, fmt.Errorf("%s: the link to %s leads nowhere", from, to))
		return
	}
	parent := n.Parent()
	if words := plain(n, source); strings.Trim(words, "`") != inTree {
		for c := n.FirstChild(); c != nil; c = n.FirstChild() {
			parent.InsertBefore(parent, n, c)
		}
		parent.InsertBefore(parent, n, ast.NewString([]byte(" (in the source: ")))
		parent.InsertBefore(parent, n, &sourceName{name: inTree})
		parent.ReplaceChild(parent, n, ast.NewString([]byte(")")))
		return
	}
	parent.ReplaceChild(parent, n, &sourceName{name: inTree})
}

// shotsFolder is the folder in links to the pictures that tests make.
const shotsFolder = "shots/"

// resolveImage leaves a picture out that is not there, with its paragraph.
func (t transformer) resolveImage(in *parsing, n *ast.Image, source []byte) {
	full := path.Join(path.Dir(in.page.Path), string(n.Destination))
	if shot, ok := strings.CutPrefix(full, shotsFolder); ok {
		if t.manual.options.Shots != nil {
			if _, err := fs.Stat(t.manual.options.Shots, shot); err == nil {
				in.shots = append(in.shots, shot)
				return
			}
		}
		parent := n.Parent()
		if parent.ChildCount() == 1 {
			parent.Parent().RemoveChild(parent.Parent(), parent)
		} else {
			parent.RemoveChild(parent, n)
		}
		return
	}
	if _, err := fs.Stat(t.manual.options.Files, full); err != nil {
		in.broken = append(in.broken, fmt.Errorf("%s: there is no picture %s", in.page.Path, n.Destination))
	}
}

// plain returns the text of a node without markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	walk(n, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *sourceName:
			b.WriteString(n.name)
		case *ast.AutoLink:
			b.Write(n.Label(source))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			b.Write(n.Lines().Value(source))
		case *extast.TableCell, *ast.ListItem, *ast.Paragraph:
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
		}
	})
	return b.String()
}
