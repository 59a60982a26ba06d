package poll

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/channel"
	"mailroom/thread"
)

// FuzzRow checks that every row is skipped with a reason or yields a valid submit.
func FuzzRow(f *testing.F) {
	for _, seed := range []string{
		`{"activity_id":"a","seq":1,"kind":"canvas_user","text":"hello","arrival_workspace_id":"w"}`,
		`{"activity_id":7,"seq":"12","kind":"peer_agent","peer_id":"p","parts":[{"kind":"text","text":"a"},{"type":"file","file":{"uri":"u","name":"n"}}]}`,
		`{"activity_id":"a","kind":"canvas_user","attachments":[{"kind":"image","url":"u"},{"name":"no place"},3]}`,
		`{"activity_id":"a\u0000","kind":null,"text":"\ud800 \u0000","peer_id":{}}`, `{"timeout":true}`, `null`, `[]`,
		`{`, `"x"`,
		`{"activity_id":"` + strings.Repeat("x", 300) + `","kind":"delegation_result","peer_id":"self","source_id":"self"}`,
		`{"activity_id":"` + strings.Repeat("x", 2000) + `","text":"t"}`, `{"activity_id":"a","method":"notify"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, what, why := parseRow(raw, "self")
		if what == rowInvalid || what == rowOwn {
			if why == "" {
				t.Error("skipped without a reason")
			}
			return
		}
		if r.id == "" || r.seq < 0 || r.workspace == "" || len(r.metadata()[labelActivity]) > maxID {
			t.Errorf("accepted row %+v lacks an id or a workspace, or its label is too long", r)
		}
		threadID := channel.ThreadID("b", r.chat()...)
		in := thread.Submit{
			Thread: threadID, Run: "r", Key: r.key(), Messages: []thread.NewMessage{{Parts: r.parts}}, Sender: r.sender(),
			Agent: "a", Metadata: r.metadata(), NoRetry: true, DeliverTo: channel.DeliveryThreadID(threadID), DeliverAgent: "c",
		}
		if err := in.Check(); err != nil {
			t.Errorf("submit of %q is refused: %v", raw, err)
		}
	})
}

// TestOneRowDoesNotReverseAPage has pages with one row whose time is missing or wrong.
func TestOneRowDoesNotReverseAPage(t *testing.T) {
	const a, b, c = `{"id":"a","created_at":"2026-01-01T00:00:01Z","seq":1}`, `{"id":"b","created_at":"2026-01-01T00:00:02Z","seq":2}`, `{"id":"c","created_at":"2026-01-01T00:00:03Z","seq":3}`
	for name, x := range map[string]struct {
		rows []string
		want string
	}{
		"ascending":                   {[]string{a, b, c}, "abc"},
		"newest first":                {[]string{c, b, a}, "abc"},
		"no time at the end":          {[]string{a, b, c, `{"id":"x"}`}, "abcx"},
		"no time at the beginning":    {[]string{`{"id":"x"}`, a, b, c}, "xabc"},
		"no time, newest first":       {[]string{`{"id":"x"}`, c, b, a}, "abcx"},
		"a null time":                 {[]string{a, b, `{"id":"x","created_at":null}`}, "abx"},
		"an invalid time":             {[]string{a, b, `{"id":"x","created_at":"soon"}`}, "abx"},
		"a wrong time at the end":     {[]string{a, b, c, `{"id":"x","created_at":"1999-01-01T00:00:00Z"}`}, "abcx"},
		"a seq alone at the end":      {[]string{a, b, `{"id":"x","seq":3}`}, "abx"},
		"numbers alone":               {[]string{`{"id":"a","seq":1}`, `{"id":"b","seq":2}`}, "ab"},
		"numbers alone, newest first": {[]string{`{"id":"b","seq":2}`, `{"id":"a","seq":1}`}, "ab"},
		"one moment, newest first": {[]string{`{"id":"b","created_at":"2026-01-01T00:00:01Z","seq":2}`,
			`{"id":"a","created_at":"2026-01-01T00:00:01Z","seq":1}`}, "ab"},
		"unknown order":        {[]string{`{"id":"a"}`, `{"id":"b"}`}, "ab"},
		"no object among them": {[]string{a, `7`, b, `"x"`}, "a-b-"},
	} {
		rows, err := parsePage([]byte("[" + strings.Join(x.rows, ",") + "]"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, raw := range rows {
			var row struct {
				ID string `json:"id"`
			}
			if json.Unmarshal(raw, &row) != nil {
				row.ID = "-"
			}
			got += row.ID
		}
		if got != x.want {
			t.Errorf("%s: read as %s, want %s", name, got, x.want)
		}
	}
}

// FuzzPage checks that a parsed page has all its rows.
func FuzzPage(f *testing.F) {
	for _, seed := range []string{
		`[]`, `null`, `[1,{"seq":2}]`, `{"activities":[{}]}`, `{"timeout":true}`, `{}`, `<html>`,
		`[{"created_at":"2026-01-02T00:00:00Z"},{"created_at":"2026-01-01T00:00:00Z"}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		rows, err := parsePage(raw)
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && (err != nil || len(rows) != len(list)) {
			t.Errorf("parsed %d rows of %d, %v", len(rows), len(list), err)
		}
	})
}

func TestOversizedContentIsTruncated(t *testing.T) {
	long := strings.Repeat("é", mailroom.MaxText)
	raw, err := json.Marshal(map[string]any{"activity_id": strings.Repeat("i", 500), "kind": "canvas_user", "text": long})
	if err != nil {
		t.Fatal(err)
	}
	r, what, _ := parseRow(raw, "self")
	if text := thread.JoinText(r.parts); what != rowRun || len(text) > mailroom.MaxText || !utf8.ValidString(text) ||
		!strings.HasSuffix(text, "was cut)") {
		t.Errorf("text of %d bytes", len(text))
	}
	if r.key() == r.id || len(r.key()) > mailroom.MaxSubmitKey {
		t.Errorf("key %q", r.key())
	}
}

// TestThePositionMatchesAFullHistory compares the position with a model that keeps every row.
func TestThePositionMatchesAFullHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p position
		var seqs []int64
		done := map[int64]bool{}
		late := false // a row arrived after a higher one: less may be acknowledged then, never more
		for range rapid.IntRange(1, 40).Draw(t, "moves") {
			if rapid.Bool().Draw(t, "add") {
				seq := rapid.Int64Range(1, 30).Draw(t, "seq")
				if slices.Contains(seqs, seq) {
					continue
				}
				late = late || len(seqs) > 0 && seq < slices.Max(seqs)
				seqs = append(seqs, seq)
				p = p.add(pending{Seq: seq, Thread: "t", Key: "k"})
			} else if len(seqs) > 0 {
				done[rapid.SampledFrom(seqs).Draw(t, "done")] = true
				p = p.removeHandled(func(r pending) bool { return done[r.Seq] })
			}
			raw, err := p.encode()
			if err != nil {
				t.Fatal(err)
			}
			if p, err = parsePosition(raw); err != nil {
				t.Fatal(err)
			}
			slices.Sort(seqs)
			want := int64(0)
			for _, s := range seqs {
				if !done[s] {
					break
				}
				want = s
			}
			if p.Done != want && (!late || p.Done > want && !acknowledgedBefore(seqs, done, p.Done)) {
				t.Fatalf("acknowledges %d of %v, done %v, want %d", p.Done, seqs, done, want)
			}
			open := 0
			for _, s := range seqs {
				if !done[s] {
					open++
				}
			}
			if len(p.Rows) != open && !pendingDone(p, done) {
				t.Fatalf("%d rows in the position, want the %d unhandled ones", len(p.Rows), open)
			}
		}
	})
}

// acknowledgedBefore reports whether upTo was acknowledged before a lower row arrived.
func acknowledgedBefore(seqs []int64, done map[int64]bool, upTo int64) bool {
	return slices.Contains(seqs, upTo) && done[upTo]
}

// pendingDone reports whether a handled row is listed because it was added again.
func pendingDone(p position, done map[int64]bool) bool {
	return slices.ContainsFunc(p.Rows, func(r pending) bool { return done[r.Seq] })
}
