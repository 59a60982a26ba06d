package server

import (
	"net/http"
	"strings"
	"testing"

	"mailroom/auth"
)

func TestARouteWithoutAPermissionPanicsAtStart(t *testing.T) {
	serve := func(http.ResponseWriter, *http.Request) {}
	m := newRouteTable()
	m.require("GET /named", auth.PermissionRead)
	m.HandleFunc("GET /named", serve)
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "GET /forgotten declares no permission") {
			t.Errorf("a route without a permission: %q, want a panic with its name", p)
		}
	}()
	m.HandleFunc("GET /forgotten", serve)
}
