package manual

import (
	"html"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"

	"mailroom/internal/lazyregexp"
)

// Kinds of nodes that pages have beside the kinds of Markdown.
//
// archtest: numbers that goldmark gives, never written.
var (
	kindSourceName = ast.NewNodeKind("SourceName")
	kindScrolling  = ast.NewNodeKind("Scrolling")
	kindTabs       = ast.NewNodeKind("Tabs")
)

// sourceName is the name of a file in the source tree, which a site does not have.
type sourceName struct {
	ast.BaseInline
	name string
}

// Kind implements [ast.Node].
func (n *sourceName) Kind() ast.NodeKind { return kindSourceName }

// Dump implements [ast.Node].
func (n *sourceName) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

// scrolling is a block around a wide table or a drawing.
type scrolling struct{ ast.BaseBlock }

// Kind implements [ast.Node].
func (n *scrolling) Kind() ast.NodeKind { return kindScrolling }

// Dump implements [ast.Node].
func (n *scrolling) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

// tabs has blocks of code that say the same in several languages. Without scripts they stand one below the other.
type tabs struct{ ast.BaseBlock }

// Kind implements [ast.Node].
func (n *tabs) Kind() ast.NodeKind { return kindTabs }

// Dump implements [ast.Node].
func (n *tabs) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

// titleIn is the title in the info string of a block of code: ```python title="Python".
var titleIn = lazyregexp.New(`(?:^|\s)title="([^"]+)"`)

// titleOf returns the title of a block of code, "" if it has none.
func titleOf(n *ast.FencedCodeBlock, source []byte) string {
	if n.Info == nil {
		return ""
	}
	if found := titleIn().FindStringSubmatch(string(n.Info.Segment.Value(source))); found != nil {
		return found[1]
	}
	return ""
}

// groupTabs puts two or more consecutive blocks of code with titles into tabs.
func groupTabs(doc ast.Node, source []byte) {
	var groups [][]ast.Node
	var at ast.Node
	walk(doc, func(n ast.Node) {
		code, ok := n.(*ast.FencedCodeBlock)
		if !ok || titleOf(code, source) == "" {
			return
		}
		if at != nil && n.PreviousSibling() == at {
			groups[len(groups)-1] = append(groups[len(groups)-1], n)
		} else {
			groups = append(groups, []ast.Node{n})
		}
		at = n
	})
	for _, g := range groups {
		if len(g) < 2 {
			continue
		}
		parent, t := g[0].Parent(), &tabs{}
		parent.InsertBefore(parent, g[0], t)
		for _, n := range g {
			t.AppendChild(t, n)
		}
	}
}

// blocks renders the blocks that differ from goldmark's own.
type blocks struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (b blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(kindScrolling, wrap(`<div class="scroll">`, "</div>\n"))
	r.Register(kindSourceName, b.sourceName)
	r.Register(kindTabs, wrap(`<div class="tabs">`+"\n", "</div>\n"))
	r.Register(ast.KindFencedCodeBlock, b.code)
	r.Register(ast.KindHeading, b.heading)
	r.Register(extast.KindTableCell, b.cell)
}

func wrap(before, after string) renderer.NodeRendererFunc {
	return func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString(before) // a buffer in memory
		} else {
			_, _ = w.WriteString(after)
		}
		return ast.WalkContinue, nil
	}
}

func (blocks) sourceName(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<code>" + html.EscapeString(n.(*sourceName).name) + "</code>")
	}
	return ast.WalkContinue, nil
}

// cell renders a cell of a table: without an inline style, and as no heading if it is the empty corner of a table.
func (blocks) cell(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*extast.TableCell)
	tag := "td"
	if n.Parent().Kind() == extast.KindTableHeader && n.HasChildren() {
		tag = "th"
	}
	switch {
	case !entering:
		_, _ = w.WriteString("</" + tag + ">\n")
	case n.Alignment == extast.AlignNone:
		_, _ = w.WriteString("<" + tag + ">")
	default:
		_, _ = w.WriteString("<" + tag + ` align="` + n.Alignment.String() + `">`)
	}
	return ast.WalkContinue, nil
}

func (blocks) code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*ast.FencedCodeBlock)
	out := `<div class="code">`
	if title := titleOf(n, source); title != "" {
		out += `<p class="name">` + html.EscapeString(title) + "</p>"
	}
	language := string(n.Language(source))
	if strings.Contains(language, "=") {
		language = "" // a block without a language, whose info string begins with a title
	}
	out += "<pre><code"
	if language != "" {
		out += ` class="language-` + html.EscapeString(language) + `"`
	}
	_, _ = w.WriteString(out + ">" + highlight(language, string(n.Lines().Value(source))) + "</code></pre></div>\n")
	return ast.WalkSkipChildren, nil
}

// heading renders a heading that is a link to itself, so that a reader can copy its address.
func (blocks) heading(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.Heading)
	level := string(rune('0' + n.Level))
	id, _ := n.AttributeString("id")
	linked := n.Level > 1
	walk(n, func(inner ast.Node) {
		if _, is := inner.(*ast.Link); is {
			linked = false // links do not nest
		}
	})
	if entering {
		name := html.EscapeString(string(id.([]byte)))
		_, _ = w.WriteString("<h" + level + ` id="` + name + `">`)
		if linked {
			_, _ = w.WriteString(`<a href="#` + name + `">`)
		}
		return ast.WalkContinue, nil
	}
	if linked {
		_, _ = w.WriteString("</a>")
	}
	_, _ = w.WriteString("</h" + level + ">\n")
	return ast.WalkContinue, nil
}

// comments are the signs that begin a comment to the end of a line, by language. A block without a language is one of
// commands.
func comments(language string) string {
	switch language {
	case "", "sh", "bash", "console", "python", "toml", "yaml", "dockerfile", "caddy", "nginx", "ini":
		return "#"
	case "go", "js", "ts", "javascript", "typescript":
		return "//"
	}
	return ""
}

// highlight returns code as HTML in which comments are marked. It knows only how a comment begins.
func highlight(language, code string) string {
	sign := comments(language)
	var b strings.Builder
	for line := range strings.Lines(code) {
		at := commentAt(line, sign)
		if at < 0 {
			b.WriteString(html.EscapeString(line))
			continue
		}
		text := strings.TrimRight(line[at:], "\n")
		b.WriteString(html.EscapeString(line[:at]) + "<i>" + html.EscapeString(text) + "</i>" + line[at+len(text):])
	}
	return b.String()
}

// commentAt returns where the comment of a line begins, -1 if it has none. A sign inside quotes, or after a character
// that is no space, begins no comment.
func commentAt(line, sign string) int {
	if sign == "" {
		return -1
	}
	var quote byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"', c == '\'', c == '`':
			quote = c
		case strings.HasPrefix(line[i:], sign) && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			return i
		}
	}
	return -1
}
