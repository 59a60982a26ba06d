package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom/alert"
	"mailroom/bus"
	"mailroom/internal/pgtest"
	"mailroom/server"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
	"mailroom/stream"
)

// hostileTexts are values that some database, index, number or calendar cannot hold.
func hostileTexts() []string {
	dice := rand.New(rand.NewPCG(1, 2))
	long := make([]rune, 1200) // 4,800 bytes that do not compress
	for i := range long {
		long[i] = 0x10000 + rune(dice.IntN(0xf0000))
	}
	return []string{
		".", "..", "a/../b", "%2e%2e", "\x00", "a\x00b", "\xff", "\xed\xa0\x80", "\ufffe", string(long),
		"9223372036854775808", "-9223372036854775809", "1e400", "NaN",
		"0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "294277-01-01T00:00:00Z", "2026-02-30T00:00:00Z",
		"thread:\x00", "status:\x00",
	}
}

// hostileValues are the same as JSON, and values of other types.
func hostileValues() (values []string) {
	for _, text := range hostileTexts() {
		raw, err := json.Marshal(text)
		if err != nil {
			panic(err) // a text
		}
		values = append(values, string(raw))
	}
	return append(values, `"\ud800"`, `"a\udfffb"`, "9223372036854775808", "-9223372036854775809", "1e400", "-1e-400",
		"0.5", "null", "[]", "{}",
		`["\u0000"]`, `{"\u0000":1}`, `{"a":"\u0000"}`)
}

// openAPI is the part of the document that a request needs.
type openAPI struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`

	names int // that were made
}

type operation struct {
	Parameters []struct {
		Name     string  `json:"name"`
		In       string  `json:"in"`
		Required bool    `json:"required"`
		Schema   *schema `json:"schema"`
	} `json:"parameters"`
	RequestBody *struct {
		Content map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"`
	Format     string             `json:"format"`
	Enum       []any              `json:"enum"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
}

// sample returns JSON that a schema accepts, probably. change replaces the fields that it has.
func (d *openAPI) sample(s *schema, change map[string]string, depth int) string {
	s = d.schemaOf(s)
	kind := fmt.Sprint(s.Type)
	switch {
	case len(s.Enum) > 0:
		raw, _ := json.Marshal(s.Enum[0]) // it was JSON
		return string(raw)
	case strings.Contains(kind, "string") && s.Format == "date-time":
		return `"2030-01-02T03:04:05Z"`
	case strings.Contains(kind, "string"):
		return `"x"`
	case strings.Contains(kind, "integer"), strings.Contains(kind, "number"):
		return "1"
	case strings.Contains(kind, "boolean"):
		return "false"
	case strings.Contains(kind, "array") && s.Items != nil && depth > 0:
		return "[" + d.sample(s.Items, nil, depth-1) + "]"
	case strings.Contains(kind, "array"):
		return "[]"
	}
	var fields []string
	names := slices.Clone(s.Required)
	for name := range change {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		value, changed := change[name]
		if !changed && name == "name" { // a new one, so that nothing exists already
			d.names++
			value = fmt.Sprintf("%q", fmt.Sprint("x", d.names))
		} else if !changed && s.Properties[name] != nil && depth > 0 {
			value = d.sample(s.Properties[name], nil, depth-1)
		} else if !changed {
			value = "null"
		}
		fields = append(fields, fmt.Sprintf("%q:%s", name, value))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// attempt is one request with a hostile value.
type attempt struct {
	what, method, target, body string
}

// attempts returns a request for each parameter and each field of a body of an operation, with each value.
func (d *openAPI) attempts(method, path string, o operation) (all []attempt) {
	target := func(name, value string) string {
		out, query := path, url.Values{}
		for _, p := range o.Parameters {
			v := map[string]string{"thread": "idle", "agent": "echo", "name": "x", "step": "hour"}[p.Name]
			if v == "" {
				v = "x"
			}
			if p.Name == name {
				v = value
			}
			switch {
			case p.In == "path":
				out = strings.ReplaceAll(out, "{"+p.Name+"}", url.PathEscape(v))
			case p.In == "query" && (p.Name == name || p.Required):
				query.Set(p.Name, v)
			}
		}
		if len(query) > 0 {
			out += "?" + query.Encode()
		}
		return out
	}
	body := func(change map[string]string) string {
		if o.RequestBody == nil || o.RequestBody.Content["application/json"].Schema == nil {
			return ""
		}
		return d.sample(o.RequestBody.Content["application/json"].Schema, change, 4)
	}
	for _, p := range o.Parameters {
		if p.In != "path" && p.In != "query" {
			continue
		}
		for _, value := range hostileTexts() {
			all = append(all, attempt{fmt.Sprintf("%s %s with %s %q", method, path, p.Name, value[:min(len(value), 30)]), method,
				target(p.Name, value), body(nil)})
		}
	}
	if o.RequestBody == nil {
		return all
	}
	s := d.schemaOf(o.RequestBody.Content["application/json"].Schema)
	if s == nil {
		return all
	}
	for _, field := range d.fields(s, 3) {
		for _, value := range hostileValues() {
			sent := d.sample(s, map[string]string{field[0]: d.within(s.Properties[field[0]], field[1:], value)}, 4)
			all = append(all,
				attempt{fmt.Sprintf("%s %s with %s %s", method, path, strings.Join(field, "."), value[:min(len(value), 30)]),
					method, target("", ""), sent})
		}
	}
	for _, raw := range hostileBodies() {
		all = append(all, attempt{fmt.Sprintf("%s %s with the body %.40q", method, path, raw), method, target("", ""), raw})
	}
	return all
}

// firstAnswer ends a request with the first byte of its answer: that of a stream has no end.
type firstAnswer struct {
	*httptest.ResponseRecorder
	end context.CancelFunc
}

func (w *firstAnswer) WriteHeader(status int) {
	w.ResponseRecorder.WriteHeader(status)
	if status == http.StatusOK && strings.Contains(w.Header().Get("Content-Type"), "event-stream") {
		w.end()
	}
}

// answerOf returns the status and the code of an answer.
func (in inProcess) answerOf(t *testing.T, a attempt) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, a.method, "http://localhost"+a.target, strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if a.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	out := &firstAnswer{httptest.NewRecorder(), cancel}
	in.handler.ServeHTTP(out, r)
	var p struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(out.Body.Bytes(), &p) // a success has no code
	return fmt.Sprint(out.Code, " ", p.Code)
}

// hostileServer is a server with all parts, and what its store has.
type hostileServer struct {
	inProcess
	*fuzzFixture
	rows *countedStore
}

// countedStore counts the transactions of a store.
type countedStore struct {
	store.Store
	updates, views atomic.Int64
}

func (s *countedStore) Update(ctx context.Context, f func(store.Tx) error) error {
	s.updates.Add(1)
	return s.Store.Update(ctx, f)
}

func (s *countedStore) View(ctx context.Context, f func(store.Reader) error) error {
	s.views.Add(1)
	return s.Store.View(ctx, f)
}

// used returns the number of transactions so far.
func (s *countedStore) used() int64 { return s.updates.Load() + s.views.Load() }

// hostileServers returns a server on each of the three stores, and the description of their API.
func hostileServers(t *testing.T) (map[string]*hostileServer, *openAPI) {
	t.Helper()
	database, err := postgres.Open(t.Context(), postgres.Options{
		URL: pgtest.Own(t).URL(), AllowUnsafe: true,
		// On a busy machine a transaction is silent for seconds.
		IdleInTransaction: 5 * time.Minute, LockTimeout: 5 * time.Minute, ConnectTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "mail.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(file.Close(), database.Close()); err != nil {
			t.Error(err)
		}
	})
	servers := map[string]*hostileServer{}
	for name, s := range map[string]store.Store{"memory": memory.New(), "SQLite": file, "PostgreSQL": database} {
		in, rows := newInProcess(), &countedStore{Store: s}
		f := in.newFixtureOn(t, rows)
		in.handler = server.New(server.Options{ // with all parts
			Ledger: server.PartsOf(f.ledger), Streams: stream.New(f.ledger, bus.New()),
			Access: server.Access{Token: token}, Limits: server.Limits{Submits: -1},
			Agents: server.Agents{Names: func() []string { return []string{"echo", "codex"} }},
			Parts:  server.Parts{Alerts: &operate.Alerts{Links: alert.NewLinks(token)}},
		})
		f.http = in
		servers[name] = &hostileServer{in, f, rows}
	}
	out := httptest.NewRecorder()
	servers["memory"].handler.ServeHTTP(out, httptest.NewRequest("GET", "http://localhost/openapi.json", nil))
	d := &openAPI{}
	if err := json.Unmarshal(out.Body.Bytes(), d); err != nil {
		t.Fatal(err)
	}
	return servers, d
}

// wantAlike checks that all servers give the same answer, which is no fault of theirs. A server that refuses a request
// before it uses its store does so on each store, so only the server on the memory store gets such a request.
func wantAlike(t *testing.T, what string, servers map[string]*hostileServer, ask func(*hostileServer) string) {
	t.Helper()
	got := map[string]string{}
	for _, name := range []string{"memory", "SQLite", "PostgreSQL"} {
		in := servers[name]
		used := in.rows.used()
		got[name] = ask(in)
		if strings.HasPrefix(got[name], "5") || strings.Contains(got[name], "internal") {
			t.Errorf("%s on %s: %s", what, name, got[name])
		}
		if name == "memory" && strings.HasPrefix(got[name], "4") && in.rows.used() == used {
			return
		}
	}
	if got["memory"] != got["PostgreSQL"] || got["memory"] != got["SQLite"] {
		t.Errorf("%s: %v, want the same", what, got)
	}
}

// wantSameRows checks that all stores have as many threads, runs and entries of each kind: that of what was refused,
// none has written a part.
func wantSameRows(t *testing.T, servers map[string]*hostileServer) {
	t.Helper()
	wantAlike(t, "the rows", servers, func(s *hostileServer) string {
		counts := map[string]int{}
		err := s.ledger.View(t.Context(), func(r store.Reader) error {
			threads, err := r.Threads(store.ThreadQuery{})
			if err != nil {
				return err
			}
			for _, row := range threads {
				counts["thread"]++
				entries, err := r.Entries(store.EntryQuery{Thread: row.ID})
				if err != nil {
					return err
				}
				for _, e := range entries {
					counts[e.Kind]++
				}
			}
			workers, err := r.Workers()
			counts["worker"] = len(workers)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprint(counts)
	})
}

// TestNoValueOfARequestIsAnInternalError sends each hostile value as each parameter and each field of a body, at any
// depth, of each route of the API, to servers on three stores: none answers with a 5xx, and all answer the same.
func TestNoValueOfARequestIsAnInternalError(t *testing.T) {
	servers, d := hostileServers(t)
	n := 0
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			for _, a := range d.attempts(strings.ToUpper(method), path, d.Paths[path][method]) {
				n++
				wantAlike(t, a.what, servers, func(s *hostileServer) string { return s.answerOf(t, a) })
			}
		}
	}
	if n < 5000 {
		t.Errorf("sent %d requests, want those of all routes", n)
	}
	wantSameRows(t, servers)
}
