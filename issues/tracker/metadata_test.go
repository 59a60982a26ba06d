package tracker

import (
	"testing"

	"mailroom"
)

func TestMetadataOfOthersIsPreserved(t *testing.T) {
	const line = `{"id":"x-a","title":"one","updated_at":"2026-01-02T03:04:05.000000006Z","metadata":{"theirs": [1 , 2.50]},"later":{"b":1}}`
	tr, invalid := Parse(line + "\n")
	if len(invalid) > 0 {
		t.Fatal(invalid)
	}
	set := func(raw string) error {
		_, err := tr.Update("x-a", ann(), func(it *Issue) error { return it.SetMetadata("ours", raw) })
		return err
	}
	for _, raw := range []string{`{"key":"first"}`, `{"key":"second"}`} {
		if err := set(raw); err != nil {
			t.Fatal(err)
		}
		again, _ := Parse(tr.Text())
		it := must(again.Find("x-a"))(t)
		if got := it.Metadata("ours"); got != raw {
			t.Errorf("metadata %q, want %q", got, raw)
		}
		if got := it.Metadata("theirs"); got != "[1 , 2.50]" || it.Metadata("missing") != "" {
			t.Errorf("unknown metadata is now %q", got)
		}
	}
	want := `{"id":"x-a","title":"one","updated_at":"2026-01-02T03:04:05.000000006Z","metadata":{"theirs":[1 , 2.50],"ours":{"key":"second"}},"later":{"b":1}}`
	if got := tr.Text(); got != want+"\n" {
		t.Errorf("line %s", got)
	}
}

func TestMetadataThatIsNoObjectIsLeftUnchanged(t *testing.T) {
	tr, _ := Parse(`{"id":"x-a","title":"one","metadata":"theirs"}` + "\n" + `{"id":"x-b","title":"two","metadata":null}` +
		"\n")
	for id, code := range map[string]mailroom.Code{"x-a": mailroom.CodeConflict, "x-b": ""} {
		_, err := tr.Update(id, ann(), func(it *Issue) error { return it.SetMetadata("ours", "1") })
		wantCode(t, id, err, code)
	}
	if got := must(tr.Find("x-a"))(t).Metadata("ours"); got != "" {
		t.Errorf("metadata %q", got)
	}
	if got := must(tr.Find("x-b"))(t).Metadata("ours"); got != "1" {
		t.Errorf("metadata %q", got)
	}
}

func TestANewIssueCanHaveMetadata(t *testing.T) {
	tr := made(t, "one")
	if _, err := tr.Update("x-a", ann(), func(it *Issue) error { it.Notes = "n"; return it.SetMetadata("ours", "1") }); err != nil {
		t.Fatal(err)
	}
	again, invalid := Parse(tr.Text())
	it := must(again.Find("x-a"))(t)
	if len(invalid) > 0 || it.Metadata("ours") != "1" || it.Title != "one" || it.Notes != "n" || it.Status != StatusOpen {
		t.Errorf("issue %+v (%v)", it, invalid)
	}
}
