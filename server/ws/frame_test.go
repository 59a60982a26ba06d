package ws

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"mailroom/server/internal/request"
)

// FuzzFrame checks that a frame is read as written, or refused with its id, and that its remaining
// members are a valid body.
func FuzzFrame(f *testing.F) {
	for _, frame := range []string{
		`{"op":"auth","id":1,"token":"secret"}`,
		`{"op":"submit","id":"a","thread":"t","text":"hello","options":{"Deep": [1.0,"<é>"]},"metadata":{"Team A":"x"}}`,
		`{"id":-1.5e3,"op":"subscribe","thread":"t","run":"r","after":"12:40"}`,
		`{"op":"resume","id":"\ud83d\ude00","thread":"t","run":"r"}`,
		`{"op":"decide","id":0,"ticket":"k","decision":"answer","answer":{"a":null}}`,
		` {"op":"cancel" , "id":"x", "run":"r", "children":true} `,
		`{"op":"ping","id":"` + strings.Repeat("x", maxFrameID) + `"}`,
		`{"op":"ping","id":null}`, `{"op":null,"id":1}`, `{"op":"ping","id":1,"id":2}`, `{"id":{"op":[]}}`,
		`{"op":"ping","id":"\ud800"}`, "{\"op\":\"ping\",\"id\":\"\xff\"}", `{"OP":"ping","id":1}`,
		strings.Repeat(`{"id":1,"op":`, 100), strings.Repeat("[", 10001), `null`, `[]`, `{`, ``,
	} {
		f.Add([]byte(frame))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := parseFrame(raw)
		if got.id != nil {
			var id any
			if e := json.Unmarshal(got.id, &id); e != nil || len(got.id) > maxFrameID {
				t.Fatalf("id %q: %v", got.id, e)
			}
			switch id.(type) {
			case string, float64:
			default:
				t.Errorf("the id %q is neither a string nor a number", got.id)
			}
		}
		if err != nil {
			return
		}
		var sent map[string]json.RawMessage
		if e := json.Unmarshal(raw, &sent); e != nil || !bytes.Equal(sent["id"], got.id) {
			t.Fatalf("%q was parsed: %v", raw, e)
		}
		var op string
		if e := json.Unmarshal(sent["op"], &op); e != nil || op != got.op {
			t.Errorf("op %q of %q, %v", got.op, raw, e)
		}
		delete(sent, "id")
		delete(sent, "op")
		left := map[string]json.RawMessage{}
		if body := got.body(); body != nil {
			if e := request.CheckJSON(body, false); e != nil {
				t.Errorf("the body %q: %v", body, e)
			}
			if e := json.Unmarshal(body, &left); e != nil {
				t.Fatalf("the body %q: %v", body, e)
			}
		}
		if !reflect.DeepEqual(left, sent) {
			t.Errorf("remaining body %q of %q", left, raw)
		}
	})
}
