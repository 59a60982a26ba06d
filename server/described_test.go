package server_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mailroom/api"
	"mailroom/server"
)

// described is the description of the API as far as these tests compare answers with it.
type described struct {
	routes *http.ServeMux
	codes  map[string]map[int][]string // codes of refusals by route and status
	ids    map[string]string           // of operations, by route
	lists  map[string]bool             // fields of responses that are lists and never null
}

// describeAPI reads the description once for all tests.
var describeAPI = sync.OnceValue(func() described {
	w := httptest.NewRecorder()
	server.New(server.Options{Access: server.Access{Token: token}}).ServeHTTP(w,
		httptest.NewRequest("GET", "http://localhost/openapi.json", nil))
	type answer struct {
		Ref   string   `json:"$ref"`
		Codes []string `json:"x-codes"`
	}
	var d struct {
		Paths map[string]map[string]struct {
			ID        string            `json:"operationId"`
			Responses map[string]answer `json:"responses"`
		} `json:"paths"`
		Components struct {
			Responses map[string]answer `json:"responses"`
			Schemas   map[string]struct {
				Properties map[string]struct{ Type any }
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		panic(err)
	}
	out := described{routes: http.NewServeMux(), codes: map[string]map[int][]string{}, ids: map[string]string{},
		lists: map[string]bool{}}
	for path, operations := range d.Paths {
		for method, op := range operations {
			route := strings.ToUpper(method) + " " + path
			out.routes.HandleFunc(route, func(http.ResponseWriter, *http.Request) {})
			out.codes[route], out.ids[route] = map[int][]string{}, op.ID
			for status, a := range op.Responses {
				if n, err := strconv.Atoi(status); err == nil {
					out.codes[route][n] = d.Components.Responses[strings.TrimPrefix(a.Ref, "#/components/responses/")].Codes
				}
			}
		}
	}
	other := map[string]bool{}
	for _, s := range d.Components.Schemas {
		for name, p := range s.Properties {
			if p.Type == "array" {
				out.lists[name] = true
			} else {
				other[name] = true
			}
		}
	}
	maps.DeleteFunc(out.lists, func(name string, _ bool) bool { return other[name] })
	return out
})

// fakeRefusal is the detail of a refusal with a code that the operation does not have, which a test makes.
const fakeRefusal = "because of"

// checkDescribed compares an answer with the description: its refusals are named, and its lists are never null.
func (f *fixture) checkDescribed(r *http.Request, a response) {
	f.t.Helper()
	d := describeAPI()
	_, route := d.routes.Handler(r)
	if codes, ok := d.codes[route]; ok && a.status >= 400 && a.status < 500 {
		var p api.Problem
		known := json.Unmarshal([]byte(a.body), &p) != nil || slices.Contains(codes[a.status], string(p.Code)) ||
			strings.HasPrefix(p.Detail, "no route") || // a path that the mux of this test would redirect
			p.Detail == fakeRefusal
		if !known {
			f.t.Errorf("%s is refused with %d %s (%s), which its description does not name",
				route, a.status, p.Code, p.Detail)
		}
	}
	if route == "" || a.status > 299 {
		return
	}
	for rest := a.body; ; { // once over the body, which may have megabytes, and not once for each name
		before, after, found := strings.Cut(rest, `":null`)
		if !found {
			return
		}
		if name := before[strings.LastIndexByte(before, '"')+1:]; d.lists[name] {
			f.t.Errorf("%s answers with null for the list %s", route, name)
		}
		rest = after
	}
}
