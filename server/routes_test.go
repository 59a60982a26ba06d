package server

import (
	"net/http"
	"strings"
	"testing"

	"mailroom"
)

func TestARouteThatNamesNoScopeKeepsTheServerFromStarting(t *testing.T) {
	serve := func(http.ResponseWriter, *http.Request) {}
	m := newRouteTable()
	m.require("GET /named", mailroom.PermissionRead)
	m.HandleFunc("GET /named", serve)
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "GET /forgotten declares no permission") {
			t.Errorf("a route without a scope: %q, want a panic that names it", p)
		}
	}()
	m.HandleFunc("GET /forgotten", serve)
}
