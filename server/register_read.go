package server

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mailroom/api"
)

// read reads the parameter of a request into its field, and adds what is wrong with it to found.
func (p *parameter) read(hc huma.Context, schemas huma.Registry, in reflect.Value, at *huma.PathBuffer,
	found *huma.ValidateResult,
) {
	place(at, p.in, p.name)
	text := p.text(hc)
	if text == "" {
		text = p.value
	}
	if text == "" {
		if p.required {
			found.Add(at, "", "required "+p.in+" parameter is missing")
		}
		return
	}
	value, err := p.set(hc, in.FieldByIndex(p.index), text)
	if err != nil {
		found.Add(at, text, err.Error())
		return
	}
	huma.Validate(schemas, p.schema, at, huma.ModeWriteToServer, value, found)
}

// text returns the parameter of a request, or "".
func (p *parameter) text(hc huma.Context) string {
	switch p.in {
	case "path":
		return hc.Param(p.name)
	case "query":
		return hc.Query(p.name)
	default:
		return hc.Header(p.name)
	}
}

// set sets a field to the value of the parameter. It returns what huma validates.
func (p *parameter) set(hc huma.Context, field reflect.Value, text string) (any, error) {
	switch field.Interface().(type) {
	case string:
		field.SetString(text)
		return text, nil
	case int, int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("invalid integer")
		}
		field.SetInt(n)
		return n, nil
	case bool:
		yes, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("invalid boolean")
		}
		field.SetBool(yes)
		return yes, nil
	case time.Time:
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, errors.New("invalid date/time for format " + time.RFC3339Nano)
		}
		field.Set(reflect.ValueOf(at))
		return text, nil
	default: // []string, as describeParameters has checked
		address := hc.URL()
		all := address.Query()[p.name]
		field.Set(reflect.ValueOf(all))
		return all, nil
	}
}

// readable reports whether a parameter can have the type.
func (p *parameter) readable(t reflect.Type) bool {
	switch reflect.Zero(t).Interface().(type) {
	case string, int, int64, bool, time.Time:
		return !p.each
	case []string:
		return p.each && p.in == "query"
	}
	return false
}

// readBody reads the JSON body of a request into its field, and adds what is wrong with it to found. It returns the
// status of a refusal. It returns 0 if there is no reason for one, or if the usual status fits what was found.
func (o *operation) readBody(hc huma.Context, in reflect.Value, at *huma.PathBuffer, found *huma.ValidateResult) int {
	raw, err := takeBody(hc.BodyReader())
	switch {
	case err != nil:
		found.Errors = append(found.Errors, err)
		return http.StatusInternalServerError
	case len(raw) == 0 && o.required:
		return http.StatusBadRequest
	case len(raw) == 0:
		return 0
	}
	body := in.FieldByIndex(o.body).Addr().Interface()
	if submit, ok := body.(*api.Submit); ok {
		if *submit, ok = decodePlainSubmit(raw); ok {
			return 0
		}
	}
	// huma validates a tree of maps, because the struct does not show which fields were there.
	var parsed any
	if err := o.api.Unmarshal("application/json", raw, &parsed); err != nil {
		found.Add(place(at, "body"), string(raw), err.Error())
		return http.StatusBadRequest
	}
	before := len(found.Errors)
	huma.Validate(o.schemas, o.schema, place(at, "body"), huma.ModeWriteToServer, parsed, found)
	if len(found.Errors) > before {
		return 0
	}
	if err := o.api.Unmarshal("application/json", raw, body); err != nil {
		found.Add(place(at, "body"), string(raw), err.Error())
	}
	return 0
}

// takeBody returns the body of a request, which drops its memory.
func takeBody(body io.Reader) ([]byte, error) {
	if b, ok := body.(*bodyReader); ok {
		return b.take(), nil
	}
	return io.ReadAll(body)
}
