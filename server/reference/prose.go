package reference

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// prose is a paragraph as the template writes it. Texts are Markdown with code in backticks and nothing else, so they
// become words here, which the template escapes.
type prose []word

// word is a piece of text, in code if Code is set, and a link if Href is.
type word struct {
	Text string
	Code bool
	Href string
}

// words makes links of the names of operations in texts.
type words struct {
	linked map[string]bool // ids of operations that no field is named like
}

func newWords(d *huma.OpenAPI) words {
	w := words{linked: map[string]bool{}}
	for _, op := range operationsOf(d) {
		w.linked[op.OperationID] = true
	}
	for _, s := range d.Components.Schemas.Map() {
		for name := range s.Properties {
			delete(w.linked, name)
		}
	}
	return w
}

// prose reads a paragraph. A backtick without a second one stays text.
func (w words) prose(text string) (out prose) {
	for text = strings.TrimSpace(text); text != ""; {
		before, rest, opened := strings.Cut(text, "`")
		code, after, closed := strings.Cut(rest, "`")
		if !opened || !closed {
			return append(out, word{Text: text})
		}
		if before != "" {
			out = append(out, word{Text: before})
		}
		one := word{Text: code, Code: true}
		if w.linked[code] {
			one.Href = "#" + code
		}
		out, text = append(out, one), after
	}
	return out
}

// paragraphs reads a text of several paragraphs.
func (w words) paragraphs(text string) (out []prose) {
	for part := range strings.SplitSeq(text, "\n\n") {
		if p := w.prose(part); len(p) > 0 {
			out = append(out, p)
		}
	}
	return out
}
