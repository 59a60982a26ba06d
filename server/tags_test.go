package server_test

import (
	"slices"
	"strings"
	"testing"
)

func TestEachOperationHasADescribedGroupAndSaysWhoMayUseIt(t *testing.T) {
	f := start(t)
	doc := mustCall[struct {
		Tags  []struct{ Name, Description string }
		Paths map[string]map[string]struct {
			Tags        []string
			Description string
		}
	}](f, "GET /openapi.json", "")
	var groups []string
	for _, g := range doc.Tags {
		if groups = append(groups, g.Name); g.Description == "" {
			t.Errorf("the group %q has no description", g.Name)
		}
	}
	used := map[string]bool{}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			if len(op.Tags) != 1 || !slices.Contains(groups, op.Tags[0]) || op.Description == "" {
				t.Errorf("%s %s has groups %q and description %q", method, path, op.Tags, op.Description)
				continue
			}
			used[op.Tags[0]] = true
		}
	}
	for path, want := range map[string]string{
		"/v1/threads/{thread}/entries": "threads", "/v1/threads/{thread}/messages": "messages",
		"/v1/runs/{run}/stream":      "streams",
		"/v1/workers/{worker}/renew": "remote workers", "/v1/pairings": "channels", "/healthz": "server",
	} {
		for method, op := range doc.Paths[path] {
			if op.Tags[0] != want {
				t.Errorf("%s %s is in group %s, want %s", method, path, op.Tags[0], want)
			}
		}
		if len(doc.Paths[path]) == 0 {
			t.Errorf("no operation of %s", path)
		}
	}
	got := doc.Paths["/v1/runs/{run}/cancel"]["post"].Description
	if !strings.HasSuffix(got, "\n\nNeeds the scope submit.") {
		t.Errorf("cancel-run says %q", got)
	}
	for _, g := range groups {
		if !used[g] && g != "protocols" { // this server has none
			t.Errorf("no operation is in the group %q", g)
		}
	}
}
