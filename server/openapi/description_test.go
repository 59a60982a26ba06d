package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pb33f/libopenapi/datamodel"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	here     = "http://mailroom.invalid/openapi.json"                // the document's URL in the validator
	official = "https://spec.openapis.org/oas/3.1/schema/2022-10-07" // schema of OpenAPI documents
)

// description is the OpenAPI document as far as a client needs it.
type description struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"`
	Security   []map[string][]string           `json:"security"`
	Components struct {
		Schemas   map[string]*schema  `json:"schemas"`
		Responses map[string]response `json:"responses"`
	} `json:"components"`

	compiler *jsonschema.Compiler
	whole    any // the document, decoded
}

type operation struct {
	ID          string                 `json:"operationId"`
	Summary     string                 `json:"summary"`
	Description string                 `json:"description"`
	Parameters  []parameter            `json:"parameters"`
	RequestBody *body                  `json:"requestBody"`
	Responses   map[string]response    `json:"responses"`
	Security    *[]map[string][]string `json:"security"` // nil: the document's
	Path        string                 `json:"-"`
	Method      string                 `json:"-"`
}

type parameter struct {
	Name     string  `json:"name"`
	In       string  `json:"in"`
	Required bool    `json:"required"`
	Explode  *bool   `json:"explode"`
	Schema   *schema `json:"schema"`

	Description string `json:"description"`
}

type body struct {
	MaxBytes int              `json:"x-max-bytes"`
	Required bool             `json:"required"`
	Content  map[string]media `json:"content"`
}

// binary is the type of a body that is no JSON.
const binary = "application/octet-stream"

// only returns the type that a body has: each operation takes one.
func (b *body) only() (kind string, m media) {
	if b != nil {
		for kind, m = range b.Content {
			return kind, m
		}
	}
	return "", m
}

type media struct {
	Schema  *schema `json:"schema"`
	Example any     `json:"example"`
}

type response struct {
	Ref     string               `json:"$ref"` // to one of the document's
	Headers map[string]parameter `json:"headers"`
	Content map[string]media     `json:"content"`
	Codes   []string             `json:"x-codes"` // of a refusal

	place []string // keys in the document
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"` // a string or a list
	Examples   []any              `json:"examples"`
	Enum       []any              `json:"enum"`
	Required   []string           `json:"required"`
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
	AnyOf      []*schema          `json:"anyOf"`
	MinItems   int                `json:"minItems"`
	MaxItems   *int               `json:"maxItems"`
	MaxLength  *int               `json:"maxLength"`
	MaxMembers *int               `json:"maxProperties"`
	MaxBytes   *int               `json:"x-max-bytes"`
	Minimum    any                `json:"minimum"`
	Maximum    any                `json:"maximum"`
	Format     string             `json:"format"`
	Additional any                `json:"additionalProperties"` // false, or a schema

	Description string `json:"description"`
}

// describe parses a description.
func describe(raw []byte) (*description, error) {
	d := &description{compiler: jsonschema.NewCompiler()}
	d.compiler.AssertFormat()
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, err
	}
	var err error
	if d.whole, err = jsonschema.UnmarshalJSON(bytes.NewReader(raw)); err != nil {
		return nil, err
	}
	rules, err := jsonschema.UnmarshalJSON(strings.NewReader(datamodel.OpenAPI31SchemaData))
	if err != nil {
		return nil, err
	}
	return d, errors.Join(d.compiler.AddResource(here, d.whole), d.compiler.AddResource(official, rules))
}

// operations returns all operations in a stable order.
func (d *description) operations() (all []operation) {
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			op := d.Paths[path][method]
			op.Path, op.Method = path, method
			op.Responses = maps.Clone(op.Responses)
			for status, r := range op.Responses {
				if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
					r = d.Components.Responses[name]
					r.place = []string{"components", "responses", name}
				} else {
					r.place = []string{"paths", path, method, "responses", status}
				}
				op.Responses[status] = r
			}
			all = append(all, op)
		}
	}
	return all
}

// at returns the URL of a place in the document.
func at(keys ...string) string {
	place := strings.NewReplacer("~", "~0", "/", "~1")
	var out strings.Builder
	for _, key := range keys {
		out.WriteString("/" + place.Replace(key))
	}
	return here + "#" + (&url.URL{Path: out.String()}).EscapedPath()
}

func (op operation) at(keys ...string) string {
	return at(append([]string{"paths", op.Path, op.Method}, keys...)...)
}

// resolve follows references. It returns an empty schema for a missing one.
func (d *description) resolve(s *schema) *schema {
	for s != nil && s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	if s == nil {
		return &schema{}
	}
	return s
}

// kinds are the types that a schema allows.
func (s *schema) kinds() (kinds []string) {
	switch t := s.Type.(type) {
	case string:
		return []string{t}
	case []any:
		for _, one := range t {
			if word, ok := one.(string); ok {
				kinds = append(kinds, word)
			}
		}
	}
	return kinds
}

// value makes a value that fits a schema.
func (d *description) value(s *schema) any {
	s = d.resolve(s)
	kinds := s.kinds()
	switch {
	case len(s.Examples) > 0:
		return s.Examples[0]
	case len(s.Enum) > 0:
		return s.Enum[0]
	case slices.Contains(kinds, "object"):
		out := map[string]any{}
		for name, p := range s.Properties {
			if slices.Contains(s.Required, name) || len(d.resolve(p).Examples) > 0 {
				out[name] = d.value(p)
			}
		}
		return out
	case slices.Contains(kinds, "array") && s.MinItems > 0:
		return []any{d.value(s.Items)}
	case slices.Contains(kinds, "array"):
		return []any{}
	case slices.Contains(kinds, "integer"), slices.Contains(kinds, "number"):
		return 1
	case slices.Contains(kinds, "boolean"):
		return false
	}
	if s.Format == "date-time" {
		return time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	}
	return "text"
}
