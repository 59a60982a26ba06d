package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"mailroom/api"
	"mailroom/project"
	"mailroom/server/internal/request"
)

// submitSchema returns the schema that submits are validated against, with its registry.
func submitSchema() (huma.Registry, *huma.Schema) {
	var submit *operation
	rt := router{mux: newRouteTable(), bounds: allBounds, add: func(o *operation) {
		if o.op.OperationID == "submit" {
			submit = o
		}
	}}
	rt.messages(&messageHandlers{})
	submit.ready()
	return submit.schemas, submit.schema
}

// FuzzPlainSubmits compares the decoder of plain submits with what it replaces: huma's validation and encoding/json,
// for the bodies that the check of every body accepts.
func FuzzPlainSubmits(f *testing.F) {
	for _, body := range []string{
		`{"thread":"t","text":"What is new?","agent":"echo","mode":"queue","key":"k","concurrency_key":"c"}`,
		` { "text" : "a\u00e9\ud83d\ude00\n" , "agent" : "" } `, `{}`, `{"text":"a"} `, "{\"text\":\"\u00e9\"}",
		`{"text":"a","text":"b"}`, `{"Text":"a"}`, `{"text":1}`, `{"text":null}`, `{"text":"a","unknown":1}`,
		`{"text":"a",}`, `{"text":"a"}{`, `{"text":"\ud800"}`, "{\"text\":\"\xff\"}", `{"text":"a","priority":1e2}`,
		`null`, `[]`, ``, `{"text"`, `{"agent":"` + strings.Repeat("a", project.MaxName) + `"}`,
		`{"agent":"` + strings.Repeat("a", project.MaxName+1) + `"}`,
		`{"agent":"` + strings.Repeat("é", project.MaxName) + `"}`, `{"text":"a","metadata":{"a":"b"}}`,
		`{"te\u0078t":"a","mode":"none","thread":" "}`, strings.Repeat("[", 100),
	} {
		f.Add([]byte(body))
	}
	registry, schema := submitSchema()
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, plain := decodePlainSubmit(raw)
		if request.CheckJSON(raw, false) != nil || !plain {
			return // refused before, or left to huma
		}
		var values any
		if err := json.Unmarshal(raw, &values); err != nil {
			t.Fatalf("%q is plain, and encoding/json refuses it: %v", raw, err)
		}
		found := &huma.ValidateResult{}
		huma.Validate(registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, values, found)
		if len(found.Errors) > 0 {
			t.Fatalf("%q is plain, and huma refuses it: %v", raw, found.Errors)
		}
		var want api.Submit
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatalf("%q is plain, and encoding/json refuses it: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-encoding/json +plain):\n%s", raw, diff)
		}
	})
}

func TestUsualSubmitsArePlain(t *testing.T) {
	for body, want := range map[string]bool{
		`{"thread":"t","text":"What is new?"}`: true, `{"text":"a\"b","agent":"echo","mode":"queue","key":"k"}`: true,
		`{}`: true, `{"text":"a","concurrency_key":"c"}`: true, ` {"text" : "é"} `: true,
		`{"text":"a","priority":1}`: false, `{"text":["a"]}`: false, `{"Text":"a"}`: false, `{"text":null}`: false,
		`{"agent":"` + strings.Repeat("a", project.MaxName+1) + `"}`: false, `{"text":"a","parent":"r"}`: false,
	} {
		if _, got := decodePlainSubmit([]byte(body)); got != want {
			t.Errorf("%s is plain: %v, want %v", body, got, want)
		}
	}
}
