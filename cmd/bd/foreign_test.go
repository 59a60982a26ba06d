package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// written are lines of another implementation: all of its fields in its own order, and unknown
// fields of later versions.
const written = `{"id":"x-1","content_hash":"9f2c","title":"Fix the caf\u00e9's roof","description":"It \u003cleaks\u003e.\nBadly.","design":"tiles","acceptance_criteria":"dry","notes":"n","status":"in_progress","priority":0,"issue_type":"spike","assignee":"ann","estimated_minutes":90,"created_at":"2025-11-02T03:04:05.123456789-08:00","created_by":"ann","updated_at":"2025-11-03T03:04:05.000000001Z","external_ref":"gh-9","compaction_level":1,"compacted_at":"2025-11-03T01:00:00Z","compacted_at_commit":"abc","original_size":2048,"sender":"bob","ephemeral":true,"replies_to":"x-2","relates_to":["x-2","x-3"],"duplicate_of":"x-3","superseded_by":"x-2","due_at":"2026-01-01T00:00:00Z","defer_until":null,"pinned":true,"is_template":false,"metadata":{"b":1.50,"a":[1e3,{"deep":null}],"big":123456789012345678901234567890},"bonded_from":[{"id":"x-3","kind":"seq"}],"labels":["roof","a/b","urgent"],"dependencies":[{"issue_id":"x-1","depends_on_id":"x-2","type":"blocks","created_at":"2025-11-02T03:04:05Z","created_by":"ann","metadata":"{}","thread_id":"t"},{"issue_id":"x-1","depends_on_id":"x-3","type":"custom-kind","created_at":"2025-11-02T03:04:05.5+01:00","created_by":"bob"}],"comments":[{"id":1,"issue_id":"x-1","author":"ann","text":"first\tline","created_at":"2025-11-02T05:00:00Z"},{"id":7,"issue_id":"x-1","author":"bob","text":"\ud83d\ude00","created_at":"2025-11-02T06:00:00.25Z","mood":"good"}]}
{"id":"x-2","title":"Closed","description":"","status":"closed","priority":2,"issue_type":"bug","created_at":"2025-11-01T00:00:00Z","updated_at":"2025-11-02T00:00:00Z","closed_at":"2025-11-02T00:00:00Z","close_reason":"done","closed_by_session":"s-1"}
{"id":"x-3","title":"Gone","description":"","status":"tombstone","priority":2,"issue_type":"task","created_at":"2025-11-01T00:00:00Z","updated_at":"2025-11-02T00:00:00Z","deleted_at":"2025-11-02T00:00:00Z","deleted_by":"ann","delete_reason":"double","original_type":"feature"}
{"id":"x-4","title":"Deferred","description":"","status":"hooked","priority":4,"issue_type":"molecule","created_at":"2025-11-01T00:00:00Z","updated_at":"2025-11-02T00:00:00Z","event_kind":"x","wisp":{"a":true}}
`

func TestAChangeOfOneFieldLeavesAForeignFileUnchangedElsewhere(t *testing.T) {
	p := &place{t, t.TempDir()}
	if err := os.Mkdir(filepath.Join(p.dir, ".beads"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct {
		args []string
		want []string // fields of x-1 that change
	}{
		{[]string{"sync"}, nil},
		{[]string{"update", "x-1", "--priority", "3"}, []string{"priority", "updated_at"}},
		{[]string{"update", "x-1", "--title", "Mend it"}, []string{"title", "updated_at"}},
		{[]string{"comments", "add", "x-1", "third"}, []string{"comments", "updated_at"}},
		{[]string{"label", "add", "x-1", "new"}, []string{"labels", "updated_at"}},
		{[]string{"dep", "add", "x-1", "x-4", "-t", "related"}, []string{"dependencies", "updated_at"}},
		{[]string{"close", "x-1", "-r", "dry"}, []string{"close_reason", "closed_at", "status", "updated_at"}},
	} {
		if err := os.WriteFile(p.file(), []byte(written), 0o644); err != nil {
			t.Fatal(err)
		}
		before := p.lines()
		p.must("bob", change.args...)
		after := p.lines()
		raw, err := os.ReadFile(p.file())
		if err != nil {
			t.Fatal(err)
		}
		_, others, _ := strings.Cut(written, "\n")
		if first, rest, _ := strings.Cut(string(raw), "\n"); rest != others {
			t.Errorf("bd %v changed other lines:\n%s", change.args, cmp.Diff(others, rest))
		} else if change.want == nil && first+"\n"+rest != written {
			t.Errorf("bd %v changed the line:\n%s", change.args, cmp.Diff(written, string(raw)))
		}
		shown := ""
		var differ []string
		names := slices.Sorted(maps.Keys(before["x-1"]))
		for _, name := range slices.Compact(
			slices.Sorted(slices.Values(append(names, slices.Collect(maps.Keys(after["x-1"]))...)))) {
			was, is := before["x-1"][name], after["x-1"][name]
			if !cmp.Equal(was, is) {
				differ = append(differ, name)
				shown += fmt.Sprintf("\n  %-14s %s", name, cut(was))
				shown += fmt.Sprintf("\n  %-14s → %s", "", cut(is))
			}
		}
		t.Logf("bd %s: %d fields unchanged, changed:%s", strings.Join(change.args, " "), len(names)-len(differ), shown)
		if diff := cmp.Diff(change.want, differ); diff != "" {
			t.Errorf("bd %v, fields that differ (-want +got):\n%s", change.args, diff)
		}
		for name, text := range map[string]string{
			"numbers":     `"metadata":{"b":1.50,"a":[1e3,{"deep":null}],"big":123456789012345678901234567890}`,
			"a tie":       `{"issue_id":"x-1","depends_on_id":"x-2","type":"blocks","created_at":"2025-11-02T03:04:05Z","created_by":"ann","metadata":"{}","thread_id":"t"}`,
			"a comment":   `"text":"\ud83d\ude00","created_at":"2025-11-02T06:00:00.25Z","mood":"good"}`,
			"escapes":     `"description":"It \u003cleaks\u003e.\nBadly."`,
			"a time zone": `"created_at":"2025-11-02T03:04:05.123456789-08:00"`,
		} {
			if !strings.Contains(string(raw), text) {
				t.Errorf("bd %v changed %s: the file lacks %s", change.args, name, text)
			}
		}
	}
}

// cut shortens a value for a log line.
func cut(v any) string {
	const most = 100
	text := fmt.Sprint(v)
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}
