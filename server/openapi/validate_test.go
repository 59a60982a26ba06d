package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// holds validates a value against the schema at place and returns what it finds.
func (d *description) holds(what, place string, value any) (found []string) {
	s, err := d.compiler.Compile(place)
	if err == nil {
		err = s.Validate(value)
	}
	if err != nil {
		return []string{fmt.Sprintf("%s: %#v", what, err)}
	}
	return nil
}

// document validates the document against the official schema, and compiles every schema in it,
// which also finds broken references.
func (d *description) document() (found []string) {
	found = d.holds("the document", official, d.whole)
	places := map[string]bool{}
	for name := range d.Components.Schemas {
		places[at("components", "schemas", name)] = true
	}
	for _, op := range d.operations() {
		for i := range op.Parameters {
			places[op.at("parameters", strconv.Itoa(i), "schema")] = true
		}
		if op.RequestBody != nil {
			for kind := range op.RequestBody.Content {
				places[op.at("requestBody", "content", kind, "schema")] = true
			}
		}
		for _, r := range op.Responses {
			for kind, m := range r.Content {
				if m.Schema != nil {
					places[at(slices.Concat(r.place, []string{"content", kind, "schema"})...)] = true
				}
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(places)) {
		if _, err := d.compiler.Compile(place); err != nil {
			found = append(found, fmt.Sprintf("%s: %v", place, err))
		}
	}
	return found
}

// request checks a request against the description of op.
func (d *description) request(op operation, req *http.Request) (found []string) {
	if asked := d.security(op); len(asked) > 0 && !strings.HasPrefix(req.Header.Get("Authorization"), "Bearer ") &&
		req.Header.Get("Cookie") == "" {
		found = append(found, "the request carries no token and no session")
	}
	path := strings.Split(req.URL.EscapedPath(), "/")
	pattern := strings.Split(op.Path, "/")
	if len(path) != len(pattern) || !strings.EqualFold(req.Method, op.Method) {
		return append(found, fmt.Sprintf("%s %s is not %s %s", req.Method, req.URL.Path, op.Method, op.Path))
	}
	query := req.URL.Query()
	for i, p := range op.Parameters {
		var sent []string
		switch p.In {
		case "path":
			if n := slices.Index(pattern, "{"+p.Name+"}"); n >= 0 {
				text, err := url.PathUnescape(path[n])
				if err != nil {
					return append(found, err.Error())
				}
				sent = []string{text}
			}
		case "query":
			sent = query[p.Name]
			delete(query, p.Name)
		case "header":
			sent = req.Header.Values(p.Name)
		default:
			found = append(found, fmt.Sprintf("parameter %s is in %q", p.Name, p.In))
		}
		found = append(found, d.sent(p, op.at("parameters", strconv.Itoa(i), "schema"), sent)...)
	}
	for name := range query {
		found = append(found, fmt.Sprintf("query.%s is not described", name))
	}
	if req.Body == nil {
		if op.RequestBody != nil && op.RequestBody.Required {
			found = append(found, "the body is missing")
		}
		return found
	}
	if op.RequestBody == nil {
		return append(found, "no body is described")
	}
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return append(found, err.Error())
	}
	return append(found, d.content(op.RequestBody.Content, req.Header, raw,
		"paths", op.Path, op.Method, "requestBody")...)
}

// security returns the security requirements of an operation.
func (d *description) security(op operation) []map[string][]string {
	if op.Security != nil {
		return *op.Security
	}
	return d.Security
}

// sent checks the values of a parameter or header against its description.
func (d *description) sent(p parameter, place string, texts []string) []string {
	switch {
	case len(texts) == 0 && p.Required:
		return []string{p.Name + " is missing"}
	case len(texts) == 0:
		return nil
	}
	kinds := d.resolve(p.Schema).kinds()
	if !slices.Contains(kinds, "array") {
		return d.holds(p.Name, place, read(texts[0], kinds))
	}
	if len(texts) == 1 && p.Explode != nil && !*p.Explode {
		texts = strings.Split(texts[0], ",")
	}
	list := []any{}
	for _, text := range texts {
		list = append(list, read(text, d.resolve(d.resolve(p.Schema).Items).kinds()))
	}
	return d.holds(p.Name, place, list)
}

// read parses a text as a number or boolean if the schema expects one.
func read(text string, kinds []string) any {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	for _, kind := range kinds {
		switch v.(type) {
		case json.Number:
			if err == nil && (kind == "integer" || kind == "number") {
				return v
			}
		case bool:
			if err == nil && kind == "boolean" {
				return v
			}
		}
	}
	return text
}

// response checks a response against the description of op.
func (d *description) response(op operation, status int, header http.Header, raw []byte) (found []string) {
	code := strconv.Itoa(status)
	r, ok := op.Responses[code]
	if !ok {
		code = code[:1] + "XX"
		r, ok = op.Responses[code]
	}
	if !ok {
		code = "default"
		r, ok = op.Responses[code]
	}
	if !ok {
		return []string{fmt.Sprintf("status %d is not described", status)}
	}
	for name, h := range r.Headers {
		found = append(found, d.sent(parameter{Name: name, Required: h.Required, Schema: h.Schema},
			at(slices.Concat(r.place, []string{"headers", name, "schema"})...), header.Values(name))...)
	}
	if len(r.Content) == 0 {
		if len(raw) > 0 {
			found = append(found, fmt.Sprintf("an answer of %d bytes where none is described", len(raw)))
		}
		return found
	}
	return append(found, d.content(r.Content, header, raw, r.place...)...)
}

// content checks a body against the description of its media type. place are the keys of the
// element that has content.
func (d *description) content(
	described map[string]media, header http.Header, raw []byte, place ...string,
) []string {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return []string{fmt.Sprintf("Content-Type %q: %v", header.Get("Content-Type"), err)}
	}
	m, ok := described[kind]
	if !ok {
		return []string{fmt.Sprintf("Content-Type %s is not described", kind)}
	}
	if m.Schema == nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return []string{fmt.Sprintf("not JSON: %v", err)}
	}
	return d.holds("the body", at(slices.Concat(place, []string{"content", kind, "schema"})...), value)
}

// report reports everything that was found.
func report(t *testing.T, what string, found []string) {
	t.Helper()
	for _, f := range found {
		t.Errorf("%s: %s", what, f)
	}
}
