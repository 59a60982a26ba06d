package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestEveryBoundNamesAFieldOfTheDescription fails when a type or parameter is renamed and its bound is not. Such a
// bound limits nothing.
func TestEveryBoundNamesAFieldOfTheDescription(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", nil)
	w := httptest.NewRecorder()
	New(Options{}).ServeHTTP(w, r)
	var description struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ In, Name string }
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &description); err != nil {
		t.Fatalf("status %d: %v in %.200s", w.Code, err, w.Body.String())
	}
	described := map[string]bool{}
	for _, operations := range description.Paths {
		for _, op := range operations {
			for _, p := range op.Parameters {
				described[p.In+"."+p.Name] = true
			}
		}
	}
	for name, schema := range description.Components.Schemas {
		for field := range schema.Properties {
			described[name+"."+field] = true
		}
	}
	for _, place := range slices.Sorted(maps.Keys(allBounds())) {
		if !described[strings.TrimSuffix(place, "[]")] {
			t.Errorf("a bound for %s, which the description does not have", place)
		}
	}
}
