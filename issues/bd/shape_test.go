package bd

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/issues/tracker"
)

// FuzzIndented checks that valid JSON is formatted as by encoding/json.
func FuzzIndented(f *testing.F) {
	for _, text := range []string{
		`{}`, `[]`, `{"a":{},"b":[],"c":[{}]}`, ` { "a" : [ 1 , 2.5e-3 , { "b" : null } ] , "c" : "x\"y\\" } `,
		`{"a":[ ],"b":{
}}`, `"text"`, `-1.5`, `"\\"`, `["\\\"","]"]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var compact, want bytes.Buffer
		if json.Compact(&compact, text) != nil {
			return // printed JSON was parsed before
		}
		if err := json.Indent(&want, compact.Bytes(), "", "  "); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(appendIndented(nil, text, 0))); diff != "" {
			t.Errorf("%q is laid out as (-want +got):\n%s", text, diff)
		}
	})
}

func TestColumnsAreAlignedDespiteColours(t *testing.T) {
	var out bytes.Buffer
	o := &output{stdout: &out}
	err := o.printRows([][]safeText{{"x-1", "\x1b[31mP0\x1b[0m", "café", "end"}, {"x-100", "P2", "", "end"}, {"x-2"}})
	want := "x-1    \x1b[31mP0\x1b[0m  café  end\nx-100  P2        end\nx-2\n"
	if diff := cmp.Diff(want, out.String()); diff != "" || err != nil {
		t.Errorf("%v, rows (-want +got):\n%s", err, diff)
	}
}

func TestATreeIsDrawn(t *testing.T) {
	var out bytes.Buffer
	o := &output{stdout: &out}
	var nodes []tracker.Node
	for _, n := range []struct {
		id    string
		depth int
	}{{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}, {"e", 2}, {"f", 1}, {"g", 2}} {
		nodes = append(nodes, tracker.Node{Issue: &tracker.Issue{ID: n.id, Status: tracker.StatusOpen, Title: "t"},
			Depth: n.depth})
	}
	want := "a P0 open t\n├─ b P0 open t\n│  ├─ c P0 open t\n│  │  └─ d P0 open t\n│  └─ e P0 open t\n└─ f P0 open t\n   └─ g P0 open t\n"
	err := o.printTree(nodes)
	if diff := cmp.Diff(want, out.String()); diff != "" || err != nil {
		t.Errorf("%v, tree (-want +got):\n%s", err, diff)
	}
}

func TestIssueJSONToleratesTrailingSpace(t *testing.T) {
	issues, invalid := tracker.Parse("{\"id\":\"x-1\"} \t\n")
	if len(invalid) > 0 {
		t.Fatalf("invalid: %v", invalid)
	}
	got := string(issueJSON(issues, issues.All()[0], extra{"depth", 1}))
	if want := `{"id":"x-1","depth":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
