package server

import (
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mailroom/server/internal/request"
)

// Bounds of fields that occur in requests only.
const (
	maxID           = 200 // characters of an id, or of a claim RUN:ATTEMPT
	maxSender       = 500 // characters of a sender or user id
	maxKeyword      = 20  // characters of a value from a short list
	maxDuration     = 40  // characters, also of a time
	maxTime         = 64  // characters
	maxDigest       = 64  // characters
	maxStreamCursor = 64  // characters of a stream cursor
	maxPageCursor   = 1000
	maxKinds        = 50
	maxDecisions    = 100
	maxInteger      = 1<<53 - 1 // largest integer that a float64 client reads exactly

	// maxBytes is the extension field for a bound in bytes, of JSON or UTF-8 text.
	maxBytes = "x-max-bytes"
)

// bound is the limit of one field of a request. The same constant goes into the description and
// into the check.
type bound struct {
	chars int // most characters of a string
	items int // most elements of a list, or members of an object
	bytes int // most bytes of JSON or UTF-8 text; more is too_large
	// byRule is set if a rule of the root package enforces the bound. Otherwise huma validates the
	// request against the description.
	byRule bool
}

func maxChars(chars int) bound { return bound{chars: chars} }
func byRule(chars int) bound   { return bound{chars: chars, byRule: true} }
func maxJSON(bytes int) bound  { return bound{bytes: bytes, chars: bytes, byRule: true} }
func maxItems(items int) bound { return bound{items: items} }

// boundsOf returns the bounds of all operations, protocols included.
func boundsOf(protocols map[string]Protocol) boundTable {
	table := allBounds()
	for _, p := range protocols {
		for field, limit := range p.Bounds {
			table[field] = bound{chars: limit, items: limit, byRule: true}
		}
	}
	return table
}

// describe writes the bounds into the description.
func (t boundTable) describe(description *huma.OpenAPI, o *Options) {
	schemas := description.Components.Schemas.Map()
	for name := range requestSchemas(description) {
		t.applyFields(name, schemas[name])
	}
	for name, s := range schemas {
		if strings.HasPrefix(name, "Page") {
			s.Description = fmt.Sprintf("A page of a list: at most %d bytes of JSON, unless the first item alone is larger.",
				o.Limits.MaxPage)
		}
	}
	for _, path := range description.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Patch, path.Delete} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				t.applyParameter(p.In, p.Name, p.Schema)
			}
			boundBody(op, o)
		}
	}
}

// boundBody documents the size limit of an operation's body.
func boundBody(op *huma.Operation, o *Options) {
	if op.RequestBody == nil {
		return
	}
	if op.Method+" "+op.Path == uploadRoute {
		describeUpload(op)
		return
	}
	limit := bodyLimit(op.Path, o.Limits.MaxBody)
	for route, p := range o.Parts.Protocols {
		if route == op.Method+" "+op.Path && p.MaxBody > 0 {
			limit = min(limit, p.MaxBody)
		}
	}
	op.RequestBody.Description = fmt.Sprintf("At most %d bytes, %d values and %d levels; more is refused.", limit,
		request.MaxValues, request.MaxDepth)
	op.RequestBody.Extensions = map[string]any{maxBytes: limit}
}

// applyFields sets the bounds of the fields of a schema with this name, and prepares it for huma's validation.
func (t boundTable) applyFields(name string, s *huma.Schema) {
	for field, property := range s.Properties {
		t.apply(name+"."+field, property)
	}
	s.PrecomputeMessages()
}

// applyParameter is applyFields for the schema of a parameter.
func (t boundTable) applyParameter(in, name string, s *huma.Schema) {
	t.apply(in+"."+name, s)
	s.PrecomputeMessages()
}

// apply sets the bound of a schema by its place in the table. Integers, times and lists of requests
// also get default bounds.
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
			values.PrecomputeMessages() // huma does not, for the values of a map
			bound{chars: b.bytes, byRule: true}.limitText(values)
			b.limitItems(s, "maxProperties")
		}
	default:
		b.limitItems(s, "maxItems", "maxProperties")
	}
	if b.bytes > 0 {
		setExtension(s, maxBytes, b.bytes)
		s.Description = strings.TrimSpace(fmt.Sprintf("%s At most %s%s; more is too_large.", s.Description,
			formatBytes(b.bytes), boundUnit(s)))
	}
}

// boundUnit names what a schema's byte bound counts.
func boundUnit(s *huma.Schema) string {
	if s.Type == huma.TypeString {
		return " of UTF-8"
	}
	return " of JSON"
}

// formatBytes formats a number of bytes for people.
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

// setExtension adds a field to a schema that documents a bound without validating it.
func setExtension(s *huma.Schema, name string, value any) {
	if s.Extensions == nil {
		s.Extensions = map[string]any{}
	}
	s.Extensions[name] = value
}
