package server

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// refineSchemas adds what huma does not derive from Go types: nullable objects and enums, and that
// responses may get more fields.
func (rt router) refineSchemas() {
	schemas := rt.api.OpenAPI().Components.Schemas
	requested := rt.requestSchemas()
	for name, schema := range schemas.Map() {
		if closed, ok := schema.AdditionalProperties.(bool); ok && !closed && !requested[name] {
			schema.AdditionalProperties = nil
		}
		goType := schemas.TypeFromRef(refTo + name)
		for field, property := range schema.Properties {
			switch {
			case property.Ref != "" && isPointer(goType, field) && !requested[name]: // huma would accept anything as null
				schema.Properties[field] = &huma.Schema{
					Description: property.Description,
					AnyOf:       []*huma.Schema{{Ref: property.Ref}, {Type: "null"}},
				}
			case property.Type == huma.TypeArray && !requested[name]:
				property.Nullable = false // the handlers answer with an empty list
			case property.Nullable && property.Enum != nil:
				property.Enum = append(property.Enum, nil)
			}
		}
	}
}

const refTo = "#/components/schemas/"

func isPointer(t reflect.Type, field string) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == field {
			return f.Type.Kind() == reflect.Pointer
		}
	}
	return false
}

// requestSchemas returns the names of the schemas of request bodies. They refuse unknown fields.
func (rt router) requestSchemas() map[string]bool {
	names := map[string]bool{}
	schemas := rt.api.OpenAPI().Components.Schemas.Map()
	var visit func(*huma.Schema)
	visit = func(s *huma.Schema) {
		if s == nil {
			return
		}
		if name, ok := strings.CutPrefix(s.Ref, refTo); ok && !names[name] {
			names[name] = true
			visit(schemas[name])
		}
		visit(s.Items)
		for _, p := range s.Properties {
			visit(p)
		}
	}
	for _, path := range rt.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Patch, path.Delete} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for _, media := range op.RequestBody.Content {
				visit(media.Schema)
			}
		}
	}
	return names
}
