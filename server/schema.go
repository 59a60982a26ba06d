package server

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// refineSchemas refines all schemas of a description.
func refineSchemas(description *huma.OpenAPI) {
	schemas := description.Components.Schemas
	requested := requestSchemas(description)
	for name, schema := range schemas.Map() {
		refineSchema(schema, schemas.TypeFromRef(refTo+name), requested[name])
	}
}

// refineSchema adds what huma does not derive from a Go type: nullable objects and enums, and that responses may get
// more fields. requested says that the type occurs in requests.
func refineSchema(schema *huma.Schema, goType reflect.Type, requested bool) {
	if closed, ok := schema.AdditionalProperties.(bool); ok && !closed && !requested {
		schema.AdditionalProperties = nil
	}
	for field, property := range schema.Properties {
		switch {
		case property.Ref != "" && isPointer(goType, field) && !requested: // huma would accept anything as null
			schema.Properties[field] = &huma.Schema{
				Description: property.Description,
				AnyOf:       []*huma.Schema{{Ref: property.Ref}, {Type: "null"}},
			}
		case property.Type == huma.TypeArray && !requested:
			property.Nullable = false // the handlers answer with an empty list
		case property.Nullable && property.Enum != nil:
			property.Enum = append(property.Enum, nil)
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

// requestSchemas returns the names of the schemas of all request bodies. They refuse unknown fields.
func requestSchemas(description *huma.OpenAPI) map[string]bool {
	var bodies []*huma.Schema
	for _, path := range description.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Patch, path.Delete} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for _, media := range op.RequestBody.Content {
				bodies = append(bodies, media.Schema)
			}
		}
	}
	return reachable(description.Components.Schemas.Map(), bodies...)
}

// reachable returns the names of the schemas that from refers to, directly or through others.
func reachable(schemas map[string]*huma.Schema, from ...*huma.Schema) map[string]bool {
	names := map[string]bool{}
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
	for _, s := range from {
		visit(s)
	}
	return names
}
