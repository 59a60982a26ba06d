package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"mailroom/api"
)

// operation is what the server does with the requests of an operation. huma describes and validates them. Its Register
// is not used, because the compiler would compile its 500 lines once for each pair of an input and an output.
type operation struct {
	api           huma.API
	op            *huma.Operation
	input, output reflect.Type
	handle        func(ctx context.Context, in any) (any, error) // takes a pointer to input, returns one to output
	bounds        func() boundTable
	ready         func() // prepare, once; it panics again if that did

	// Set by prepare, which the first request calls.
	schemas  huma.Registry // of the request
	params   []parameter
	query    []string     // names of the query parameters
	body     []int        // index of the field Body of the input; nil: no body is read
	required bool         // a request must have a body
	schema   *huma.Schema // of the body
	status   int          // usual status
	content  []int        // index of the field Body of the output; nil: no body
	chosen   []int        // index of the field Status of the output; nil: the usual one
	headers  []header     // of the answer
}

// parameter is a field of an input with a part of the request outside of the body.
type parameter struct {
	index    []int
	in, name string // such as "query", "limit"
	value    string // of a request without the parameter
	required bool
	each     bool // the parameter may be repeated
	schema   *huma.Schema
}

// header is a field of an output with the value of a header: a string, or a value with the method String.
type header struct {
	index []int
	name  string
}

// register adds an operation whose handler takes an *input and returns an *output, both structs.
//
// Fields of the input are parameters, with the tags path, query or header, except Body, which is the JSON body, and
// optional if it is a pointer. Fields of the output are headers of the answer, with the tag header, except Body and
// Status.
func (rt router) register(
	op *huma.Operation, input, output reflect.Type, handle func(context.Context, any) (any, error),
) {
	o := &operation{api: rt.api, op: op, input: input, output: output, handle: handle, bounds: rt.bounds}
	o.ready = sync.OnceFunc(o.prepare)
	rt.add(o)
}

// prepare finds how requests are read and answered, and makes the schemas that requests are validated against, as the
// description has them, but of this operation only. A start would spend a fifth of its processor time on the schemas of
// all operations, and most programs call few.
func (o *operation) prepare() {
	o.schemas = huma.NewMapRegistry(refTo, huma.DefaultSchemaNamer)
	o.describeParameters(o.schemas)
	o.describeBody(o.schemas)
	o.findOutput()
	table, schemas := o.bounds(), o.schemas.Map()
	for name := range reachable(schemas, o.schema) {
		refineSchema(schemas[name], o.schemas.TypeFromRef(refTo+name), true)
		table.applyFields(name, schemas[name])
	}
	for _, p := range o.params {
		table.applyParameter(p.in, p.name, p.schema)
	}
}

// describe adds the operation to a description.
func (o *operation) describe(description *huma.OpenAPI) {
	schemas := description.Components.Schemas
	o.describeParameters(schemas)
	o.describeBody(schemas)
	o.findOutput()
	o.describeOutput(schemas)
	schemas.Schema(reflect.TypeFor[huma.ErrorModel](), true, "ErrorModel")
	description.AddOperation(o.op)
}

// fieldsOf returns the fields of a struct and of the structs that it embeds, without the fields of the given names.
func fieldsOf(t reflect.Type, except ...string) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		return f.Anonymous || !f.IsExported() || slices.Contains(except, f.Name)
	})
}

func (o *operation) describeParameters(schemas huma.Registry) {
	for _, f := range fieldsOf(o.input, "Body") {
		p := parameter{index: f.Index, value: f.Tag.Get("default")}
		for _, in := range []string{"path", "query", "header"} {
			if name := f.Tag.Get(in); name != "" {
				p.in, p.name = in, name
			}
		}
		if p.in == "" {
			panic(fmt.Sprintf("%s: the field %s is no parameter", o.op.OperationID, f.Name))
		}
		if p.name, p.each = strings.CutSuffix(p.name, ",explode"); !p.readable(f.Type) {
			panic(fmt.Sprintf("%s: a parameter cannot be a %s", o.op.OperationID, f.Type))
		}
		p.required = p.in == "path" || f.Tag.Get("required") == "true"
		p.schema = huma.SchemaFromField(schemas, f, "")
		o.params = append(o.params, p)
		described := &huma.Param{
			Name: p.name, In: p.in, Description: p.schema.Description, Required: p.required, Schema: p.schema,
		}
		if p.in == "query" {
			o.query = append(o.query, p.name)
			described.Explode = &p.each
		}
		if !slices.ContainsFunc(o.op.Parameters, func(q *huma.Param) bool { return q.Name == p.name && q.In == p.in }) {
			o.op.Parameters = append(o.op.Parameters, described)
		}
	}
}

func (o *operation) describeBody(schemas huma.Registry) {
	f, ok := o.input.FieldByName("Body")
	if !ok {
		return
	}
	o.body, o.required = f.Index, f.Type.Kind() != reflect.Pointer
	o.schema = huma.SchemaFromField(schemas, f, nameOf(o.input, "Body", o.op.OperationID+"Request"))
	o.schema.PrecomputeMessages()
	o.op.RequestBody = &huma.RequestBody{
		Required: o.required,
		Content:  map[string]*huma.MediaType{"application/json": {Schema: o.schema}},
	}
}

// nameOf returns the name of the schema of a field of t, or other if t has no name.
func nameOf(t reflect.Type, field, other string) string {
	if t.Name() == "" {
		return other
	}
	return t.Name() + field
}

// findOutput finds the parts of an answer in the output.
func (o *operation) findOutput() {
	body, hasBody := o.output.FieldByName("Body")
	o.status = o.op.DefaultStatus
	switch {
	case o.status != 0:
	case hasBody:
		o.status = http.StatusOK
	default:
		o.status = http.StatusNoContent
	}
	if hasBody {
		o.content = body.Index
	}
	if f, ok := o.output.FieldByName("Status"); ok {
		o.chosen = f.Index
	}
	for _, f := range fieldsOf(o.output, "Body", "Status") {
		o.headers = append(o.headers, header{index: f.Index, name: f.Tag.Get("header")})
	}
}

func (o *operation) describeOutput(schemas huma.Registry) {
	o.op.DefaultStatus = o.status
	status := strconv.Itoa(o.status)
	r := o.op.Responses[status]
	if r == nil {
		r = &huma.Response{Description: http.StatusText(o.status)}
		o.op.Responses[status] = r
	}
	if body, ok := o.output.FieldByName("Body"); ok && body.Type.Kind() != reflect.Func {
		schema := huma.SchemaFromField(schemas, body, nameOf(o.output, "Body", o.op.OperationID+"Response"))
		if r.Content == nil {
			r.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
		}
	}
	for _, h := range o.headers {
		f := o.output.FieldByIndex(h.index)
		f.Type = reflect.TypeFor[string]()
		if r.Headers == nil {
			r.Headers = map[string]*huma.Header{}
		}
		r.Headers[h.name] = &huma.Header{Schema: huma.SchemaFromField(schemas, f, "")}
	}
}

// serve answers a request.
func (o *operation) serve(hc huma.Context) {
	o.ready()
	in := reflect.New(o.input)
	if !o.read(hc, in.Elem()) {
		return
	}
	ctx := hc.Context()
	requestOf(ctx).parsing.release()
	out, err := o.handle(ctx, in.Interface())
	if err != nil {
		p := problemFor(ctx, err)
		for name, values := range p.GetHeaders() {
			hc.SetHeader(name, values[0])
		}
		o.write(hc, p.Status, api.ProblemType, p.Problem)
		return
	}
	answer := reflect.ValueOf(out).Elem()
	if !answer.IsValid() { // the handler returned nil
		hc.SetStatus(o.status)
		return
	}
	for _, h := range o.headers {
		setHeader(hc, h.name, answer.FieldByIndex(h.index))
	}
	status := o.status
	if o.chosen != nil {
		status = int(answer.FieldByIndex(o.chosen).Int())
	}
	if o.content == nil {
		hc.SetStatus(status)
		return
	}
	value := answer.FieldByIndex(o.content).Interface()
	if f, ok := value.(func(huma.Context)); ok {
		f(hc)
		return
	}
	kind, err := o.api.Negotiate(hc.Header("Accept"))
	if err != nil {
		panic(err) // the server has a default
	}
	o.write(hc, status, kind, value)
}

func setHeader(hc huma.Context, name string, v reflect.Value) {
	text, ok := v.Interface().(string)
	if s, is := v.Addr().Interface().(fmt.Stringer); !ok && is {
		text = s.String()
	}
	if text != "" {
		hc.SetHeader(name, text)
	}
}

// write writes an answer.
func (o *operation) write(hc huma.Context, status int, kind string, value any) {
	hc.SetHeader("Content-Type", kind)
	hc.SetStatus(status)
	err := o.api.Marshal(hc.BodyWriter(), kind, value)
	if err != nil && !errors.Is(hc.Context().Err(), context.Canceled) {
		panic(fmt.Errorf("answer %s: %w", o.op.OperationID, err))
	}
}

// read reads a request into an input. It refuses what the description does not allow, and reports whether it did not.
func (o *operation) read(hc huma.Context, in reflect.Value) bool {
	found := &huma.ValidateResult{}
	at := huma.NewPathBuffer(make([]byte, 0, 128), 0)
	address := hc.URL()
	for name := range address.Query() {
		if !slices.Contains(o.query, name) {
			found.Add(place(at, "query", name), "", "unknown query parameter")
		}
	}
	status := 0
	if len(found.Errors) == 0 {
		for i := range o.params {
			o.params[i].read(hc, o.schemas, in, at, found)
		}
		if o.body != nil {
			status = o.readBody(hc, in, at, found)
		}
	}
	if status == 0 && len(found.Errors) == 0 {
		return true
	}
	status = cmp.Or(status, http.StatusUnprocessableEntity)
	// transformProblem writes another text, and response keeps the error for the log line.
	_ = huma.WriteErr(o.api, hc, status, "validation failed", found.Errors...)
	return false
}

// place sets a path to a part of a request.
func place(at *huma.PathBuffer, names ...string) *huma.PathBuffer {
	at.Reset()
	for _, name := range names {
		at.Push(name)
	}
	return at
}
