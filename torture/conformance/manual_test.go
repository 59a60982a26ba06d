package conformance

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
)

var update = flag.Bool("update", false, "write docs/workers.md")

// TestManual renders a page from the template workers.tmpl, the scenarios and the recorded requests of a worker by
// hand, and compares docs/workers.md with it. With -update it writes the file.
func TestManual(t *testing.T) {
	all, err := loadScenarios()
	if err != nil {
		t.Fatal(err)
	}
	h := workByHand(t)
	page, err := template.New("workers.tmpl").Funcs(template.FuncMap{
		"exchange": h.show,
		"reach":    func(s scenario) string { return s.reach() },
	}).ParseFiles("workers.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := page.Execute(&text, all); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "docs", "workers.md")
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(now), text.String()); diff != "" {
		t.Errorf("docs/workers.md is stale: run go test ./torture/conformance -run Manual -update\n%s", diff)
	}
	if n := strings.Count(text.String(), "\n"); n > 500 {
		t.Errorf("docs/workers.md has %d lines, more than 500", n)
	}
}

// reach says where a scenario is not played: by make test, or by the worker in a language.
func (s scenario) reach() string {
	var notes []string
	if s.Full {
		notes = append(notes, "`make conformance` only")
	}
	for _, column := range slices.Sorted(maps.Keys(s.Skip)) {
		if column != inside {
			notes = append(notes, fmt.Sprintf("not %s: %s", column, s.Skip[column]))
		}
	}
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

// byHand is a worker of plain requests, whose exchanges become the examples of the manual.
type byHand struct {
	t      testing.TB
	proxy  *proxy
	token  string
	named  map[string]string // words of the manual, by the id of this server that they replace
	worker string
	claim  string
}

// workByHand makes one request of each kind.
func workByHand(t testing.TB) *byHand {
	s := newServer(t, binary(t), &scenario{})
	p, err := newProxy(s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	h := &byHand{t: t, proxy: p, token: s.token, named: map[string]string{}}
	registered := h.post("/v1/claims", `{"agents": ["clerk"], "max": 0, "host": "build-7", "pid": 4711}`)
	h.worker = registered["worker"].(string)
	h.named[h.worker] = "WORKER"
	sent, err := s.client().Submit(t.Context(), api.Submit{Thread: "orders", Agent: "clerk", Text: "Ship order 7"})
	if err != nil {
		t.Fatal(err)
	}
	h.named[sent.Run] = "RUN"
	h.work(s, sent.Run)
	return h
}

// work makes the requests of one run.
func (h *byHand) work(s *server, run string) {
	next := func(round int) {
		answer := h.post("/v1/claims", fmt.Sprintf(
			`{"worker": %q, "round": %d, "max": 1, "wait": "50s", "parts_only": true}`, h.worker, round))
		h.claim = answer["claims"].([]any)[0].(map[string]any)["claim"].(string)
	}
	next(1)
	h.post("/v1/workers/"+h.worker+"/renew", `{}`)
	h.get("input")
	h.get("transcript?limit=10")
	h.get("log?kind=tool.finished&limit=10")
	h.post(h.under("deltas"), `{"offset": 0, "text": "Größe", "live": true}`)
	h.post(h.under("deltas"), `{"offset": 0, "text": "Größe: "}`)
	h.post(h.under("deltas"), `{"offset": 9, "text": "XL"}`)
	h.post(h.under("entries"), `{"number": 1, "message": {"text": "Größe: XL"}, "step": {"name": "looked up",
		"checkpoint": {"size": "XL"}, "entries": [{"kind": "x.clerk.note", "body": {"shelf": 4}}]}}`)
	h.post(h.under("entries"), `{"number": 2, "step": {"record": true}, "effects": [{"kind": "effect.intended",
		"body": {"name": "ship", "input": "9f86d081884c7d65"}}]}`)
	h.post(h.under("entries"), `{"number": 3, "effects": [{"kind": "effect.settled",
		"body": {"name": "ship", "input": "9f86d081884c7d65", "result": {"parcel": 12}}}]}`)
	h.get("effects")
	up := h.post(h.under("uploads"), shelves)["upload"].(string)
	h.named[up[strings.LastIndexByte(up, ':')+1:]] = "7HS3…"
	h.post(h.under("entries"), fmt.Sprintf(`{"number": 4, "step": {"record": true, "blobs": [{"name": "shelves.bin",
		"upload": %q}]}}`, up))
	h.get("blobs?prefix=shelves")
	h.post(h.under("settle"), `{"number": 5, "outcome": "wait", "wait": {"names": ["insure"]}, "tickets": [
		{"name": "insure", "kind": "approval", "prompt": "Insure the parcel?", "action": "insure",
		"arguments": {"cents": 250}}]}`)
	p := &play{stage: &stage{t: h.t, server: s}, runs: []string{run}}
	if err := p.decideOne(run, operation{nil, json.RawMessage(`"insure"`), json.RawMessage(`"approve"`)}); err != nil {
		h.t.Fatal(err)
	}
	next(2)
	steer := api.Submit{Thread: "orders", Text: "By noon, please", Mode: mailroom.ModeSteer}
	_, err := s.client().Submit(h.t.Context(), steer)
	if err != nil {
		h.t.Fatal(err)
	}
	h.post(h.under("deltas"), `{"offset": 0, "text": "Shipped."}`)
	h.post(h.under("steered"), `{"after": 0}`)
	h.post(h.under("settle"), `{"number": 5, "outcome": "complete", "text": "Shipped."}`)
	h.post(h.under("entries"), `{"number": 6, "step": {"name": "too late"}}`)
	h.post("/v1/workers/"+h.worker+"/renew", `{"round": 2, "held": []}`)
	h.post("/v1/workers/"+h.worker+"/leave", `{"entered": []}`)
}

// shelves stands in the manual for the content of a blob.
const shelves = "(the bytes of the content)"

// under returns a path under the claim.
func (h *byHand) under(what string) string { return "/v1/claims/" + h.claim + "/" + what }

func (h *byHand) get(what string) { h.request(http.MethodGet, h.under(what), "") }

func (h *byHand) post(path, body string) map[string]any {
	return h.request(http.MethodPost, path, body)
}

func (h *byHand) request(method, path, body string) (answer map[string]any) {
	h.t.Helper()
	q, err := http.NewRequestWithContext(h.t.Context(), method, h.proxy.url()+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+h.token)
	switch body {
	case "":
	case shelves:
		q.Header.Set("Content-Type", "application/octet-stream")
	default:
		q.Header.Set("Content-Type", "application/json")
	}
	got, err := http.DefaultClient.Do(q)
	if err != nil {
		h.t.Fatal(err)
	}
	defer got.Body.Close()
	if err := json.NewDecoder(got.Body).Decode(&answer); err != nil && got.StatusCode != http.StatusNoContent {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

// show returns the n-th exchange of a kind as text of the manual.
func (h *byHand) show(kind string, n int) (string, error) {
	seen, _ := h.proxy.history()
	of := slices.DeleteFunc(seen, func(x exchange) bool { return x.kind != kind })
	if n > len(of) {
		return "", fmt.Errorf("there is no request %d of the kind %s", n, kind)
	}
	x := of[n-1]
	var out strings.Builder
	fmt.Fprintf(&out, "```\n%s %s\n", x.method, h.tidy(x.path))
	switch {
	case string(x.request) == shelves:
		fmt.Fprintf(&out, "Content-Type: application/octet-stream\n\n%s\n", shelves)
	case len(x.request) > 0:
		fmt.Fprintln(&out, layout(h.brief(x.request), 0))
	}
	fmt.Fprintf(&out, "→ %d\n", x.status)
	if len(x.answer) > 0 {
		fmt.Fprintln(&out, layout(h.brief(x.answer), 0))
	}
	out.WriteString("```")
	return out.String(), nil
}

var (
	uuid   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	hash   = regexp.MustCompile(`"[0-9a-f]{64}"`)
)

// tidy replaces values that differ from recording to recording.
func (h *byHand) tidy(text string) string {
	for _, id := range slices.Sorted(maps.Keys(h.named)) {
		text = strings.ReplaceAll(text, id, h.named[id])
	}
	text = moment.ReplaceAllString(uuid.ReplaceAllString(text, "ID"), "2026-11-28T12:00:00Z")
	return hash.ReplaceAllString(text, `"3b0c…"`)
}

// shown are the fields of a run that workers need. Others are left out of the examples.
var shown = []string{"id", "thread", "agent", "status", "attempt", "crashes", "max_crashes", "steps", "reply"}

// brief tidies JSON and leaves out fields of runs and tickets that workers do not need.
func (h *byHand) brief(raw []byte) []field {
	fields, _ := split(json.RawMessage(h.tidy(string(raw))))
	return shorten(fields)
}

// field is a field of an object, or with an empty name an item of a list.
type field struct {
	name  string
	value json.RawMessage
	in    []field // of an object or a list
	open  byte    // { or [, or 0
}

// split takes JSON apart and keeps the order of fields.
func split(raw json.RawMessage) (in []field, open byte) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return nil, 0
	}
	open = raw[0]
	d := json.NewDecoder(bytes.NewReader(raw))
	_, _ = d.Token() // the bracket
	for d.More() {
		f := field{}
		if open == '{' {
			name, _ := d.Token() // it was valid JSON of the server
			f.name = fmt.Sprint(name)
		}
		if d.Decode(&f.value) != nil {
			return in, open
		}
		f.in, f.open = split(f.value)
		in = append(in, f)
	}
	return in, open
}

// shorten leaves out fields.
func shorten(in []field) (out []field) {
	has := func(name string) bool {
		return slices.ContainsFunc(in, func(f field) bool { return f.name == name })
	}
	isRun, isTicket, isMessage := has("max_attempts"), has("digest") && has("opened_at"), has("visibility")
	left := false
	for _, f := range in {
		value := string(f.value)
		switch {
		case isRun && !slices.Contains(shown, f.name),
			isTicket && !slices.Contains([]string{"id", "name", "kind", "state", "decision", "answer"}, f.name),
			isMessage && !slices.Contains([]string{"id", "seq", "role", "sender", "parts"}, f.name):
			left = true
			continue
		case f.name == "version":
			f.value = json.RawMessage(`"1.0.0"`)
		case f.name == "deadline_ms" && value != "0":
			f.value = json.RawMessage("3600000")
		}
		f.in = shorten(f.in)
		out = append(out, f)
	}
	if left {
		out = append(out, field{name: "…"})
	}
	return out
}

// layout prints fields: an object or a list on one line if it fits.
func layout(in []field, indent int) string {
	open := byte('{')
	if len(in) > 0 && in[0].name == "" {
		open = '['
	}
	return layoutIn(in, open, indent)
}

func layoutIn(in []field, open byte, indent int) string {
	closing := map[byte]string{'{': "}", '[': "]"}[open]
	var parts []string
	for _, f := range in {
		text := string(f.value)
		if f.open != 0 {
			text = layoutIn(f.in, f.open, indent+2)
		}
		switch {
		case f.name == "…":
			text = "…"
		case f.name != "":
			text = fmt.Sprintf("%q: %s", f.name, text)
		}
		parts = append(parts, text)
	}
	line := string(open) + strings.Join(parts, ", ") + closing
	if len(line)+indent <= 110 && !strings.Contains(line, "\n") {
		return line
	}
	// Short fields share lines.
	pad := strings.Repeat(" ", indent+2)
	var lines []string
	for i, part := range parts {
		if i < len(parts)-1 {
			part += ","
		}
		last := len(lines) - 1
		if last >= 0 && !strings.Contains(lines[last]+part, "\n") && len(lines[last])+len(part) < 100-indent {
			lines[last] += " " + part
			continue
		}
		lines = append(lines, part)
	}
	return string(open) + "\n" + pad + strings.Join(lines, "\n"+pad) + "\n" + strings.Repeat(" ", indent) + closing
}
