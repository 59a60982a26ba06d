package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"mailroom/project"
)

// A server makes the schemas of an operation at its first request. So a type that has no schema fails here, and not at
// the start of a server.
func TestRequestsAreValidatedAgainstTheirDescription(t *testing.T) {
	s := New(Options{Access: Access{Token: "secret"}})
	var all []*operation
	register := s.groups()
	register(router{mux: newRouteTable(), bounds: allBounds, add: func(o *operation) { all = append(all, o) }})
	described := s.describe(register, allBounds)
	bodies := 0
	for _, o := range all {
		o.ready()
		item := described.Paths[o.op.Path]
		op := map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post,
			http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		}[o.op.Method]
		if op == nil || op.OperationID != o.op.OperationID {
			t.Errorf("%s is not described", o.op.OperationID)
			continue
		}
		if !reflect.DeepEqual(o.op.Parameters, op.Parameters) {
			t.Errorf("%s: parameters are validated against %+v, and described as %+v", op.OperationID, o.op.Parameters,
				op.Parameters)
		}
		if o.schema == nil {
			continue
		}
		bodies++
		if got := op.RequestBody.Content["application/json"].Schema; !reflect.DeepEqual(o.schema, got) {
			t.Errorf("%s: bodies are validated against %+v, and described as %+v", op.OperationID, o.schema, got)
		}
		for name, schema := range o.schemas.Map() {
			if got := described.Components.Schemas.Map()[name]; !reflect.DeepEqual(schema, got) {
				t.Errorf("%s: a %s is validated against %+v, and described as %+v", op.OperationID, name, schema, got)
			}
		}
	}
	if len(all) < 90 || bodies < 30 {
		t.Errorf("%d operations, %d of them with a body; the server has more", len(all), bodies)
	}
}

// A request of an operation that could not be prepared is never handled, the first no more than later ones.
func TestAnOperationWithoutSchemasHandlesNoRequest(t *testing.T) {
	type input struct {
		Unnamed string // no part of a request
	}
	mux := newRouteTable()
	rt := router{mux: mux, bounds: allBounds, api: humago.New(mux, New(Options{}).apiConfig())}
	rt.add = func(o *operation) {
		rt.mux.require("POST /wrong", accessPublic)
		rt.api.Adapter().Handle(o.op, o.serve)
	}
	handle(rt, huma.Operation{OperationID: "wrong", Method: "POST", Path: "/wrong"},
		func(context.Context, *input) (*empty, error) {
			t.Error("a request was handled")
			return nil, nil
		})
	for range 3 {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "the field Unnamed is no parameter") {
					t.Errorf("the request ended with %q, want a panic that names the field", text)
				}
			}()
			rt.mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/wrong", nil))
		}()
	}
}

// First requests that come at the same time find the schemas complete, and the description is the same for all.
func TestFirstRequestsAtTheSameTimeAgree(t *testing.T) {
	long := strings.Repeat("a", project.MaxName+1)
	for range 5 {
		s := New(Options{Access: Access{Token: "secret"}})
		var described sync.Map
		var ended sync.WaitGroup
		for range 8 {
			ended.Go(func() {
				r := httptest.NewRequest("GET", "http://localhost/v1/budgets?unknown=1", nil)
				r.Header.Set("Authorization", "Bearer secret")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code != http.StatusUnprocessableEntity {
					t.Errorf("an unknown parameter: %d, %s", w.Code, w.Body)
				}
			})
			ended.Go(func() {
				body := strings.NewReader(`{"agent":"` + long + `"}`)
				r := httptest.NewRequest("POST", "http://localhost/v1/messages", body)
				r.Header.Set("Authorization", "Bearer secret")
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), `"body.agent"`) {
					t.Errorf("a long name of an agent: %d, %s", w.Code, w.Body)
				}
			})
			ended.Go(func() {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/openapi.json", nil))
				described.Store(w.Body.String(), w.Code)
			})
		}
		ended.Wait()
		different := 0
		described.Range(func(text, code any) bool {
			different++
			if code != http.StatusOK || !strings.Contains(text.(string), `"Submit"`) {
				t.Errorf("the description: %v, %.100s", code, text)
			}
			return true
		})
		if different != 1 {
			t.Errorf("%d different descriptions", different)
		}
	}
}
