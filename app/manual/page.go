package manual

import (
	"bytes"
	_ "embed" // page.html
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// layout is the template of a page.
//
// archtest: embedded, never written.
//
//go:embed page.html
var layout string

// shown is a rendered page.
type shown struct {
	parsing
	html     []byte
	sections []found
}

// view is what the template shows of a page.
type view struct {
	Title, Section string
	Root           string // path from the page to the root of the manual: "", "../" or more
	Markdown       string // link to the Markdown of the page
	Canonical      string // address of the page; "" without a base
	Version        string
	Body           template.HTML
	Sections       []navSection
	Headings       []heading // of the second and third level
	Before, After  *navPage
	Served         bool
}

type navSection struct {
	Name  string
	Pages []navPage
	Here  bool // the page is in this section
}

type navPage struct {
	Href, Title string
	Here        bool // it is the page itself
}

// render makes the HTML of a page, and what the search finds in it.
func (m *Manual) render(p *page) (*shown, error) {
	source, err := p.source()
	if err != nil {
		return nil, err
	}
	out := &shown{parsing: parsing{page: p, anchors: map[string]bool{}}}
	pc := parser.NewContext()
	pc.Set(pageKey, &out.parsing)
	raw := []byte(source)
	doc := m.markdown.Parser().Parse(text.NewReader(raw), parser.WithContext(pc))
	if err := errors.Join(out.broken...); err != nil {
		return nil, err
	}
	if out.title == "" {
		return nil, fmt.Errorf("%s has no heading of the first level", p.Path)
	}
	var body bytes.Buffer
	if err := m.markdown.Renderer().Render(&body, raw, doc); err != nil {
		return nil, fmt.Errorf("render %s: %w", p.Path, err)
	}
	out.sections = collect(p, out.title, doc, raw)
	parsed, err := template.New("page").Parse(layout)
	if err != nil {
		return nil, fmt.Errorf("read the layout of the manual: %w", err)
	}
	var page bytes.Buffer
	err = parsed.Execute(&page, m.view(p, out, template.HTML(body.String()))) // goldmark has escaped all text in it
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", p.Path, err)
	}
	out.html = page.Bytes()
	return out, nil
}

func (m *Manual) view(p *page, s *shown, body template.HTML) view {
	v := view{
		Title: s.title, Section: p.section, Root: relative(p.Path, ""), Version: m.options.Version, Body: body,
		Markdown: p.Path[strings.LastIndex(p.Path, "/")+1:], Served: m.options.Served,
	}
	if m.options.Base != "" {
		v.Canonical = m.options.Base + "/" + htmlPath(p.Path)
	}
	for _, section := range m.sections {
		n := navSection{Name: section.Name, Here: section.Name == p.section}
		for _, page := range section.Pages {
			n.Pages = append(n.Pages, *m.nav(p, page))
		}
		v.Sections = append(v.Sections, n)
	}
	for _, h := range s.headings {
		if h.Level == 2 || h.Level == 3 {
			v.Headings = append(v.Headings, h)
		}
	}
	if at := slices.Index(m.order, p); at >= 0 {
		if at > 0 {
			v.Before = m.nav(p, m.order[at-1])
		}
		if at+1 < len(m.order) {
			v.After = m.nav(p, m.order[at+1])
		}
	}
	return v
}

// nav returns the link from a page to another one.
func (m *Manual) nav(from, to *page) *navPage {
	return &navPage{Href: relative(from.Path, htmlPath(to.Path)), Title: to.Title, Here: from == to}
}
