package manual

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// indexPath is the path of the index of the search.
const indexPath = "search.json"

// found is a section of a page as the search knows it: the text below one heading.
type found struct {
	Page    string `json:"page"`             // path of the HTML, from the root of the manual
	Title   string `json:"title"`            // title of the page
	Short   string `json:"short,omitempty"`  // title in the contents
	Group   string `json:"group"`            // section of the contents that has the page
	Heading string `json:"heading,omitzero"` // "" for the text before the first heading
	Anchor  string `json:"anchor,omitzero"`
	Text    string `json:"text"` // words of the section without markup
}

// collect returns the sections of a page.
func collect(p *page, title string, doc ast.Node, source []byte) (all []found) {
	at := found{Page: htmlPath(p.Path), Title: title, Short: p.Title, Group: p.section}
	var words []string
	end := func() {
		if at.Text = strings.Join(strings.Fields(strings.Join(words, " ")), " "); at.Text != "" || at.Heading != "" {
			all = append(all, at)
		}
		words = nil
	}
	if p.About != "" {
		words = append(words, p.About)
	}
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if ok && h.Level > 1 && h.Level < 5 {
			end()
			id, _ := h.AttributeString("id")
			at.Heading, at.Anchor = plain(h, source), string(id.([]byte))
		} else if !ok {
			words = append(words, searched(n, source)...)
		}
	}
	end()
	return all
}

// searched returns the words of a block that the search finds. Names of tests are not among them: they would be a tenth
// of the index, and repeat the words of the promises beside them.
func searched(block ast.Node, source []byte) (words []string) {
	if box, ok := block.(*scrolling); ok {
		block = box.FirstChild()
	}
	table, ok := block.(*extast.Table)
	if !ok {
		return []string{plain(block, source)}
	}
	tests := -1
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		column := 0
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			text := plain(cell, source)
			if row == table.FirstChild() && text == "tests" {
				tests = column
			}
			if column != tests {
				words = append(words, text)
			}
			column++
		}
	}
	return words
}

// makeIndex renders all pages and returns their sections as JSON.
func (m *Manual) makeIndex() ([]byte, error) {
	var all []found
	for _, p := range m.order {
		s, err := p.shown()
		if err != nil {
			return nil, err
		}
		all = append(all, s.sections...)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("encode the index of the search: %w", err)
	}
	return raw, nil
}
