package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"mailroom"
)

// field is one place of a request body with a bound of its own.
type field struct {
	name   string
	schema *schema
	with   func(any) any // returns a whole body with this value in the field
}

// fields returns the fields of a body, each within an example body. A schema in several places is
// returned once.
func (d *description) fields(name string, s *schema, with func(any) any, seen map[*schema]bool) (all []field) {
	s = d.resolve(s)
	if seen[s] {
		return nil
	}
	seen[s] = true
	all = append(all, field{name, s, with})
	kinds := s.kinds()
	if slices.Contains(kinds, "array") {
		all = append(all, d.fields(name+"[]", s.Items, func(v any) any { return with([]any{v}) }, seen)...)
	}
	for _, p := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, d.fields(name+"."+p, s.Properties[p], func(v any) any {
			whole := map[string]any{}
			if base, ok := d.value(s).(map[string]any); ok {
				whole = maps.Clone(base)
			}
			whole[p] = v
			for _, alone := range [][2]string{{"text", "parts"}, {"text", "messages"}, {"parts", "messages"},
				{"text", "message"}} {
				for i, one := range alone { // exclusive fields
					if p == one {
						delete(whole, alone[1-i])
					}
				}
			}
			return with(whole)
		}, seen)...)
	}
	return all
}

// unbounded names the bound that a schema lacks, or "".
func (s *schema) unbounded() (what string) {
	for _, kind := range s.kinds() {
		switch {
		case kind == "string" && s.MaxLength == nil && len(s.Enum) == 0:
			return "maxLength"
		case kind == "array" && s.MaxItems == nil:
			return "maxItems"
		case (kind == "integer" || kind == "number") && (s.Minimum == nil || s.Maximum == nil):
			return "minimum and maximum"
		case kind == "object" && s.Additional != false && s.Additional != nil && s.MaxMembers == nil && s.MaxBytes == nil &&
			len(s.Properties) == 0:
			return "maxProperties"
		}
	}
	if len(s.kinds()) == 0 && s.MaxBytes == nil && s.MaxItems == nil {
		return "bound in bytes"
	}
	return ""
}

// TestEveryPartOfARequestHasABound checks every parameter and every field of every body.
func TestEveryPartOfARequestHasABound(t *testing.T) {
	d := start(t).describe()
	for _, op := range d.operations() {
		for _, p := range op.Parameters {
			s := d.resolve(p.Schema)
			if lacks := s.unbounded(); lacks != "" {
				t.Errorf("%s: %s.%s has no %s", op.ID, p.In, p.Name, lacks)
			}
			if s.Items != nil && d.resolve(s.Items).unbounded() != "" {
				t.Errorf("%s: the elements of %s.%s have no bound", op.ID, p.In, p.Name)
			}
		}
		if op.RequestBody == nil {
			continue
		}
		if op.RequestBody.MaxBytes == 0 {
			t.Errorf("%s: the body has no bound", op.ID)
		}
		_, whole := op.RequestBody.only()
		for _, f := range d.fields("body", whole.Schema, func(v any) any {
			return v
		}, map[*schema]bool{}) {
			if lacks := f.schema.unbounded(); lacks != "" && f.name != "body" {
				t.Errorf("%s: %s has no %s", op.ID, f.name, lacks)
			}
		}
	}
	for name, s := range d.Components.Schemas {
		if strings.HasPrefix(name, "Page") && !strings.Contains(string(mustJSON(t, d.whole)),
			fmt.Sprintf("at most %d bytes of JSON", mailroom.MaxPage)) {
			t.Errorf("the description of %s has no bound: %+v", name, s)
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// highest is the schema's maximum.
func (s *schema) highest() float64 {
	n, _ := s.Maximum.(float64) // another test checks that it exists
	return n
}

// largest makes the largest value that a schema allows within about room bytes of JSON.
func (d *description) largest(s *schema, room int) any {
	s = d.resolve(s)
	kinds := s.kinds()
	if s.MaxBytes != nil {
		room = min(room, *s.MaxBytes)
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Format == "date-time":
		return "9999-12-31T23:59:59.999999Z"
	case slices.Contains(kinds, "object") && len(s.Properties) == 0, slices.Contains(kinds, "object") &&
		s.Additional != false && s.Additional != nil:
		return map[string]any{"k": strings.Repeat("x", max(room-8, 0))}
	case slices.Contains(kinds, "object"):
		out := map[string]any{}
		left := len(s.Properties)
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			share := room / left
			left--
			if share < 16 {
				break
			}
			out[name] = d.largest(s.Properties[name], share-len(name)-4)
			raw, _ := json.Marshal(out[name]) // cannot fail: the value has strings, numbers and lists only
			room -= len(raw) + len(name) + 4
		}
		return out
	case slices.Contains(kinds, "array"):
		n := min(*s.MaxItems, room/200+1)
		out := []any{}
		for range n {
			out = append(out, d.largest(s.Items, room/n-1))
		}
		return out
	case slices.Contains(kinds, "integer"), slices.Contains(kinds, "number"):
		return s.highest()
	case slices.Contains(kinds, "boolean"):
		return true
	case slices.Contains(kinds, "string"):
		return strings.Repeat("x", max(0, min(*s.MaxLength, room-2)))
	}
	return strings.Repeat("x", max(0, room-2))
}

// beyond makes a value just above a schema's bound; ok is false without a bound.
func (d *description) beyond(s *schema) (v any, ok bool) {
	kinds := s.kinds()
	switch {
	case len(s.Enum) > 0:
		return strings.Repeat("x", 21), true
	case slices.Contains(kinds, "string"):
		return strings.Repeat("x", *s.MaxLength+1), true
	case slices.Contains(kinds, "array"):
		return slices.Repeat([]any{d.value(s.Items)}, *s.MaxItems+1), true
	case slices.Contains(kinds, "integer"), slices.Contains(kinds, "number"):
		return 2*s.highest() + 1, true
	case s.MaxBytes != nil:
		return map[string]any{"k": strings.Repeat("x", *s.MaxBytes)}, true
	}
	return nil, false
}

// sized sends an operation's request with this body, or if p is set with this parameter value.
func (f *fixture) sized(
	ctx context.Context, d *description, op operation, ids map[string]string, body any, p *parameter, value string,
) (int, []byte) {
	f.t.Helper()
	req := f.request(ctx, d, op, ids)
	if p != nil {
		switch p.In {
		case "path":
			changed := maps.Clone(ids)
			changed[p.Name] = value
			body := req.Body
			req = f.request(ctx, d, op, changed)
			req.Body = body
		case "query":
			q := req.URL.Query()
			q.Set(p.Name, value)
			req.URL.RawQuery = q.Encode()
		case "header":
			req.Header.Set(p.Name, value)
		}
	} else {
		raw, err := json.Marshal(body)
		if err != nil {
			f.t.Fatal(err)
		}
		req.Body, req.ContentLength, req.GetBody = io.NopCloser(bytes.NewReader(raw)), int64(len(raw)), nil
	}
	if q := req.URL.Query(); op.ID == "wait-run" && !q.Has("timeout") {
		req.URL.RawQuery = url.Values{"timeout": {"0s"}}.Encode()
	}
	resp, raw := f.exchange(req)
	return resp.StatusCode, raw
}

// TestTheLargestInputsAreAnswered sends the largest body and parameters that the description
// allows, and values just above each bound. No request may fail the server, values above a bound
// are refused, and no response exceeds a page.
func TestTheLargestInputsAreAnswered(t *testing.T) {
	f := start(t, scheduling)
	f.runSchedules()
	d := f.describe()
	sent := 0
	for n, op := range d.operations() {
		if strings.HasPrefix(op.ID, "stream") || op.ID == "socket" {
			continue // streams do not end
		}
		ids := f.makeObjects(op.ID, n)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		try := func(what string, body any, p *parameter, value string, over bool) {
			sent++
			status, raw := f.sized(ctx, d, op, ids, body, p, value)
			switch {
			case status >= 500 && status != http.StatusServiceUnavailable:
				t.Errorf("%s with %s: %d %.300s", op.ID, what, status, raw)
			case over && status < 400 && op.ID != "post-hook": // a fake here; webhook.TestAnInboundKeepsItsBounds checks it
				t.Errorf("%s with more than the bound of %s: %d %.300s, want a refusal", op.ID, what, status, raw)
			case len(raw) > mailroom.MaxPage+mailroom.MaxText:
				t.Errorf("%s with %s is answered with %d bytes", op.ID, what, len(raw))
			}
		}
		for _, p := range op.Parameters {
			s := d.resolve(p.Schema)
			if slices.Contains(s.kinds(), "array") {
				s = d.resolve(s.Items)
			}
			try(p.In+"."+p.Name, nil, &p, inText(d.largest(s, 1<<20)), false)
			if v, ok := d.beyond(s); ok {
				try(p.In+"."+p.Name, nil, &p, inText(v), true)
			}
		}
		if op.RequestBody != nil {
			_, media := op.RequestBody.only()
			whole := media.Schema
			try("the whole body", d.largest(whole, op.RequestBody.MaxBytes-1000), nil, "", false)
			try("the whole body", strings.Repeat("x", op.RequestBody.MaxBytes), nil, "", true)
			for _, one := range d.fields("body", whole, func(v any) any { return v }, map[*schema]bool{}) {
				if one.name == "body" {
					continue
				}
				try(one.name, one.with(d.largest(one.schema, op.RequestBody.MaxBytes/2)), nil, "", false)
				if v, ok := d.beyond(one.schema); ok {
					try(one.name, one.with(v), nil, "", true)
				}
			}
		}
		cancel()
	}
	if sent < 300 {
		t.Errorf("only %d requests were made", sent)
	}
}

// inText formats a value as a parameter.
func inText(v any) string {
	if number, ok := v.(float64); ok {
		return fmt.Sprintf("%.0f", number)
	}
	return fmt.Sprint(v)
}
