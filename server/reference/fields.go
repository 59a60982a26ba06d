package reference

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

const refTo = "#/components/schemas/"

// row is a field or a parameter.
type row struct {
	Name  string // with the names of the objects that it is in, as in the location of a refusal
	Depth int    // 0 for a field of the body itself
	Kind  []word
	Has   presence
	Does  prose
}

// presence says of a field whether a request needs it, or an answer may lack it; "" if there is nothing to say.
type presence string

const (
	presenceRequired presence = "required"
	presenceOptional presence = "may be missing"
)

// fields describes the fields of schemas. A schema that one other place refers to is shown in that place, as rows
// that are indented. One with more references has a section of its own.
type fields struct {
	words    words
	api      *huma.OpenAPI
	schemas  map[string]*huma.Schema
	uses     map[string]int  // fields that refer to a schema, by its name
	answered map[string]int  // answers that are the schema
	sent     map[string]bool // schemas of requests, and what these refer to
}

func newFields(d *huma.OpenAPI) fields {
	f := fields{
		words: newWords(d), api: d, schemas: d.Components.Schemas.Map(), uses: map[string]int{}, answered: map[string]int{},
		sent: map[string]bool{},
	}
	for _, s := range f.schemas {
		f.refer(s, func(name string) { f.uses[name]++ })
	}
	var send func(string)
	send = func(name string) {
		if !f.sent[name] {
			f.sent[name] = true
			f.refer(f.schemas[name], send)
		}
	}
	for _, op := range operationsOf(d) {
		if op.RequestBody != nil {
			for _, media := range op.RequestBody.Content {
				f.refer(media.Schema, send)
			}
		}
		for status, r := range op.Responses {
			for _, media := range r.Content {
				if name := nameOf(media.Schema); name != "" && status != "default" {
					f.answered[name]++
				}
			}
		}
	}
	return f
}

// nameOf returns the name of the schema that s refers to, or "".
func nameOf(s *huma.Schema) string {
	if s == nil {
		return ""
	}
	if name, ok := strings.CutPrefix(s.Ref, refTo); ok {
		return name
	}
	for _, one := range s.AnyOf { // an object or null
		if name := nameOf(one); name != "" {
			return name
		}
	}
	return ""
}

// refer calls to with the name of each schema that s refers to.
func (f *fields) refer(s *huma.Schema, to func(name string)) {
	if s == nil {
		return
	}
	if name := nameOf(s); name != "" {
		to(name)
		return
	}
	f.refer(s.Items, to)
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
		f.refer(values, to)
	}
	for _, p := range s.Properties {
		f.refer(p, to)
	}
}

// inline reports whether the fields of a schema are shown where a field refers to it.
func (f *fields) inline(name string) bool { return f.uses[name] == 1 && f.answered[name] == 0 }

// whole reports whether an answer that is a schema shows its fields, and does not link to them.
func (f *fields) whole(name string) bool {
	return f.uses[name] == 0 && f.answered[name] == 1 || strings.HasPrefix(name, "Page")
}

// shared returns the names of the schemas with a section of their own: what a row or an answer links to.
func (f *fields) shared() []string {
	names := map[string]bool{"Problem": true}
	for name := range f.uses {
		names[name] = names[name] || !f.inline(name)
	}
	for name := range f.answered {
		names[name] = names[name] || !f.whole(name)
	}
	maps.DeleteFunc(names, func(_ string, has bool) bool { return !has })
	return slices.Sorted(maps.Keys(names))
}

// order returns the names of the fields of a schema as its Go type declares them, which is how a reader needs them.
func (f *fields) order(name string) []string {
	s := f.schemas[name]
	rest := maps.Clone(s.Properties)
	var out []string
	if t := f.api.Components.Schemas.TypeFromRef(refTo + name); t != nil {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for _, field := range reflect.VisibleFields(t) {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if _, ok := rest[key]; ok {
				delete(rest, key)
				out = append(out, key)
			}
		}
	}
	return append(out, slices.Sorted(maps.Keys(rest))...)
}

// rows returns the fields of a schema, each with those of the objects in it.
func (f *fields) rows(name string) []row { return f.rowsOf(name, "", 0) }

func (f *fields) rowsOf(name, before string, depth int) (all []row) {
	s := f.schemas[name]
	for _, key := range f.order(name) {
		p := s.Properties[key]
		one := row{
			Name: before + key, Depth: depth, Kind: f.kind(p), Does: f.words.prose(describe(p, p.Description)),
		}
		switch has := slices.Contains(s.Required, key); {
		case has && f.sent[name]:
			one.Has = presenceRequired
		case !has && !f.sent[name]:
			one.Has = presenceOptional
		}
		all = append(all, one)
		inner, suffix := p, "."
		for inner.Items != nil {
			inner, suffix = inner.Items, "[]"+suffix
		}
		if values, ok := inner.AdditionalProperties.(*huma.Schema); ok {
			inner, suffix = values, ".NAME"+suffix
		}
		if of := nameOf(inner); of != "" && f.inline(of) {
			all = append(all, f.rowsOf(of, one.Name+suffix, depth+1)...)
		}
	}
	return all
}

// body returns the fields of a request or an answer. A request always shows its own: they are what a caller writes.
func (f *fields) body(s *huma.Schema, request bool) []row {
	name := nameOf(s)
	if name == "" || !request && !f.whole(name) {
		return nil
	}
	return f.rows(name)
}

// parameters returns the parameters in one part of a request.
func (f *fields) parameters(all []*huma.Param, in string) (rows []row) {
	for _, p := range all {
		if p.In != in {
			continue
		}
		text := p.Description
		if text == "" {
			text = p.Schema.Description
		}
		if p.Schema.Type == huma.TypeArray && (p.Explode == nil || *p.Explode) {
			text = strings.TrimSpace(text + " May be repeated.")
		}
		one := row{Name: p.Name, Kind: f.kind(p.Schema), Does: f.words.prose(describe(p.Schema, text))}
		if p.Required && in != "path" { // a path always has all
			one.Has = presenceRequired
		}
		rows = append(rows, one)
	}
	return rows
}

// kind says what values a schema allows. Names of objects are links.
func (f *fields) kind(s *huma.Schema) []word {
	if name := nameOf(s); name != "" {
		out := []word{{Text: "object"}}
		if !f.inline(name) && !f.wholeOnly(name) {
			out = []word{{Text: name, Href: "#object-" + name}}
		}
		if len(s.AnyOf) > 0 {
			out = append(out, word{Text: " or null"})
		}
		return out
	}
	var out []word
	switch {
	case s.Type == huma.TypeArray:
		out = append([]word{{Text: "list of "}}, f.kind(s.Items)...)
	case s.Type == huma.TypeObject:
		out = []word{{Text: "object"}}
		if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
			out = append([]word{{Text: "names with values: "}}, f.kind(values)...)
		}
	case s.Type == "":
		out = []word{{Text: "any JSON"}}
	case s.Format == "date-time":
		out = []word{{Text: "time (RFC 3339)"}}
	default:
		out = []word{{Text: s.Type}}
	}
	if s.Nullable {
		out = append(out, word{Text: " or null"})
	}
	return out
}

// wholeOnly reports whether a schema is the body of one answer and nothing else, so it has no section to link to.
func (f *fields) wholeOnly(name string) bool { return f.whole(name) && f.uses[name] == 0 }

// describe adds to a text what a schema says about values: bounds, default and choices.
func describe(s *huma.Schema, text string) string {
	for s.Type == huma.TypeArray && s.Items != nil {
		text = add(text, bounds(s))
		s = s.Items
	}
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
		text = add(text, bounds(s))
		s = values
	}
	text = add(text, bounds(s))
	if len(s.Enum) > 0 {
		var all []string
		for _, v := range s.Enum {
			if v != nil {
				all = append(all, fmt.Sprintf("`%v`", v))
			}
		}
		text = add(text, "One of "+strings.Join(all, ", ")+".")
	}
	if s.Default != nil {
		text = add(text, fmt.Sprintf("Default: `%v`.", s.Default))
	}
	return text
}

func add(text, more string) string { return strings.TrimSpace(text + " " + more) }

// exact is the largest integer that a client which reads numbers as float64 gets exactly. A bound of that size is said
// of no field.
const exact = 1<<53 - 1

// bounds says how large a value may be.
func bounds(s *huma.Schema) string {
	var all []string
	limit := func(name string, own *int, unit string) {
		n, ok := s.Extensions[name].(int)
		if own != nil {
			n, ok = *own, true
		}
		if ok {
			all = append(all, fmt.Sprintf("At most %d %s.", n, unit))
		}
	}
	low, high := s.Minimum, s.Maximum
	switch {
	case high != nil && *high < exact && low != nil:
		all = append(all, fmt.Sprintf("From %.0f to %.0f.", *low, *high))
	case low != nil && *low != 0:
		all = append(all, fmt.Sprintf("At least %.0f.", *low))
	}
	if s.MinItems != nil && *s.MinItems > 0 {
		all = append(all, fmt.Sprintf("At least %d.", *s.MinItems))
	}
	if s.Extensions["x-max-bytes"] == nil { // the description of such a field has the number already
		limit("maxLength", s.MaxLength, "characters")
	}
	limit("maxItems", s.MaxItems, "items")
	limit("maxProperties", s.MaxProperties, "members")
	return strings.Join(all, " ")
}
