package openapi

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestEveryOperationIsExplained checks that a reader of the description learns of each operation what it does, when it
// is refused and what a request and its answer look like.
func TestEveryOperationIsExplained(t *testing.T) {
	d := start(t, otherProtocols).describe()
	var ids []string
	for _, op := range d.operations() {
		ids = append(ids, op.ID)
		if does, access, ok := strings.Cut(op.Description, "\n\n"); !ok || does == "" || access == "" {
			t.Errorf("%s: the description %q does not say what it does and who may: add a section to operations.md",
				op.ID, op.Description)
		}
		refused, answered := 0, op.ID == "socket" // a handshake has no body
		for status, r := range op.Responses {
			if status[0] == '4' {
				refused++
				if len(r.Codes) == 0 {
					t.Errorf("%s: the refusal %s names no code", op.ID, status)
				}
				continue
			}
			if status[0] == '2' && len(r.Content) == 0 {
				answered = true
			}
			for _, m := range r.Content {
				answered = answered || m.Example != nil
			}
		}
		if refused < 3 || !answered {
			t.Errorf("%s: %d refusals, and an example of the answer: %t", op.ID, refused, answered)
		}
		if _, m := op.RequestBody.only(); op.RequestBody != nil && m.Example == nil && op.RequestBody.Required {
			t.Errorf("%s: no example of a request", op.ID)
		}
	}
	raw, err := os.ReadFile("../reference/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "# "); ok && !slices.Contains(ids, id) {
			t.Errorf("operations.md has a section for %q, which is no operation", id)
		}
	}
}

// TestEveryFieldAndParameterIsDescribed checks that a reader learns what each value means. The sentence that names the
// bound of a field in bytes says nothing about its meaning.
func TestEveryFieldAndParameterIsDescribed(t *testing.T) {
	d := start(t, otherProtocols).describe()
	says := func(text string) bool {
		return text != "" && !(strings.HasPrefix(text, "At most ") && strings.HasSuffix(text, " more is too_large."))
	}
	for name, s := range d.Components.Schemas {
		for field, p := range s.Properties {
			if !says(p.Description) {
				t.Errorf("%s.%s has no description (%q): add a tag doc to the field", name, field, p.Description)
			}
		}
	}
	for _, op := range d.operations() {
		for _, p := range op.Parameters {
			if !says(cmp.Or(p.Description, p.Schema.Description)) {
				t.Errorf("%s: the parameter %s in %s has no description", op.ID, p.Name, p.In)
			}
		}
	}
}
