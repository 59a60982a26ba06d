package server

import (
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Bounds of texts that only requests have.
const (
	maxID           = 200 // characters of an id, also of a claim, RUN:ATTEMPT
	maxSender       = 500 // characters of a sender or a user, as a platform names them
	maxKeyword      = 20  // characters of a word from a short list
	maxDuration     = 40  // characters
	maxTime         = 64  // characters
	maxDigest       = 64  // characters
	maxStreamCursor = 40  // characters of SEQ:N, a place in a stream
	maxPageCursor   = 1000
	maxKinds        = 50
	maxDecisions    = 100
	maxInteger      = 1<<53 - 1 // of a number, so that every client reads it as it is

	// maxBytes is the name of a bound in bytes, of JSON or of a text in UTF-8.
	maxBytes = "x-max-bytes"
)

// bound is the most that one field of a request may have. The one constant is what
// the description tells and what refuses a request.
type bound struct {
	chars int // of a text
	items int // of a list, or members of an object
	bytes int // of JSON, or of a text in UTF-8; more is too_large
	// byRule says that a rule refuses more. Else the form of the request is held against
	// the description before a handler sees it.
	byRule bool
}

func maxChars(chars int) bound { return bound{chars: chars} }
func byRule(chars int) bound   { return bound{chars: chars, byRule: true} }
func maxJSON(bytes int) bound  { return bound{bytes: bytes, chars: bytes, byRule: true} }
func maxItems(items int) bound { return bound{items: items} }

// applyBounds writes the bounds into the description, which is also what requests are held
// against.
func (rt router) applyBounds() {
	table := allBounds()
	for _, one := range rt.server.options.Protocols {
		for field, most := range one.Bounds {
			table[field] = bound{chars: most, items: most, byRule: true}
		}
	}
	schemas := rt.api.OpenAPI().Components.Schemas.Map()
	for name := range rt.requestSchemas() {
		for field, s := range schemas[name].Properties {
			table.apply(name+"."+field, s)
		}
		schemas[name].PrecomputeMessages()
	}
	for name, s := range schemas {
		if strings.HasPrefix(name, "Page") {
			s.Description = fmt.Sprintf("A part of a list: at most %d bytes of JSON, unless the first item alone is larger.", rt.server.options.MaxPage)
		}
	}
	for _, path := range rt.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Patch, path.Delete} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				table.apply(p.In+"."+p.Name, p.Schema)
				p.Schema.PrecomputeMessages()
			}
			rt.boundBody(op)
		}
	}
}

// boundBody says how large the body of an operation may be.
func (rt router) boundBody(op *huma.Operation) {
	if op.RequestBody == nil {
		return
	}
	most := rt.server.bodyLimit(op.Path)
	for route, one := range rt.server.options.Protocols {
		if route == op.Method+" "+op.Path && one.MaxBody > 0 {
			most = min(most, one.MaxBody)
		}
	}
	op.RequestBody.Description = fmt.Sprintf("At most %d bytes, %d values and %d levels; more is refused.", most, maxValues, maxDepth)
	op.RequestBody.Extensions = map[string]any{maxBytes: most}
}

// apply gives a schema the bound of its place, and to numbers, times and lists of any
// request the bounds that all of them have.
func (t boundTable) apply(place string, s *huma.Schema) {
	if s == nil || s.Ref != "" || len(s.Enum) > 0 {
		return
	}
	b := t[place]
	switch s.Type {
	case huma.TypeString:
		if s.Format == "date-time" {
			b = maxChars(maxTime)
		}
		b.limitText(s)
	case huma.TypeInteger, huma.TypeNumber:
		limitNumber(s)
	case huma.TypeArray:
		if s.MaxItems == nil {
			b.limitItems(s, "maxItems")
		}
		t.apply(place+"[]", s.Items)
	case huma.TypeObject:
		if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
			limitNumber(values)
			bound{chars: b.bytes, byRule: true}.limitText(values)
			b.limitItems(s, "maxProperties")
		}
	default:
		b.limitItems(s, "maxItems", "maxProperties")
	}
	if b.bytes > 0 {
		setExtension(s, maxBytes, b.bytes)
		s.Description = strings.TrimSpace(fmt.Sprintf("%s At most %s%s; more is too_large.", s.Description, formatBytes(b.bytes), boundUnit(s)))
	}
}

// boundUnit says what the bytes of a schema's bound are.
func boundUnit(s *huma.Schema) string {
	if s.Type == huma.TypeString {
		return " of UTF-8"
	}
	return " of JSON"
}

// formatBytes is a number of bytes as people write it.
func formatBytes(bytes int) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", bytes>>10)
}

func (b bound) limitText(s *huma.Schema) {
	switch {
	case s.Type != huma.TypeString || b.chars == 0 || s.MaxLength != nil:
	case b.byRule:
		setExtension(s, "maxLength", b.chars)
	default:
		s.MaxLength = &b.chars
	}
}

func (b bound) limitItems(s *huma.Schema, names ...string) {
	switch {
	case b.items == 0:
	case b.byRule || s.Type != huma.TypeArray:
		for _, name := range names {
			setExtension(s, name, b.items)
		}
	default:
		s.MaxItems = &b.items
	}
}

func limitNumber(s *huma.Schema) {
	if s.Type != huma.TypeInteger && s.Type != huma.TypeNumber {
		return
	}
	low, high := 0.0, float64(maxInteger)
	if s.Minimum == nil {
		s.Minimum = &low
	}
	if s.Maximum == nil {
		s.Maximum = &high
	}
}

// setExtension adds a field to a schema that says something without being checked: a rule does.
func setExtension(s *huma.Schema, name string, value any) {
	if s.Extensions == nil {
		s.Extensions = map[string]any{}
	}
	s.Extensions[name] = value
}
