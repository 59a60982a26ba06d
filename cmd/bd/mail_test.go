package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"mailroom/internal/machinetest"
	"mailroom/issues/bd"
	"mailroom/issues/tracker"
)

// mailServer implements agent mail; become makes it fail.
type mailServer struct {
	*httptest.Server
	addr string // of each server

	// Guarded by mu.
	mu      sync.Mutex
	fail    http.HandlerFunc  // nil for a healthy server
	calls   []string          // method and path of all requests
	holders map[string]string // agents, by reserved path
	notices []notice          // in order of arrival
}

type notice struct {
	From    string            `json:"from_agent"`
	Type    string            `json:"event_type"`
	Payload map[string]string `json:"payload"`

	Key, Project string
}

func newMailServer(t *testing.T) *mailServer {
	s := &mailServer{addr: machinetest.Reserve(t), holders: map[string]string{}}
	s.up(t)
	return s
}

// up starts the server, also after Close.
func (s *mailServer) up(t *testing.T) {
	t.Helper()
	s.Server = &httptest.Server{Listener: machinetest.Listen(t, s.addr), Config: &http.Server{Handler: s}}
	s.Start()
	t.Cleanup(s.Close)
}

func (s *mailServer) become(fail http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// seen returns the requests since its last call.
func (s *mailServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *mailServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	r.Body = io.NopCloser(strings.NewReader(string(raw)))
	s.mu.Lock()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	fail := s.fail
	s.mu.Unlock()
	if fail != nil {
		fail(w, r)
		return
	}
	s.well(w, r, raw)
}

func (s *mailServer) well(w http.ResponseWriter, r *http.Request, raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); {
	case r.URL.Path == "/api/health":
		answer(w, http.StatusOK, `{"status":"ok"}`)
	case r.Method == http.MethodDelete && len(parts) == 4:
		path := ".beads/issues/" + parts[3]
		if s.holders[path] == parts[2] {
			delete(s.holders, path)
		}
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == "/api/reservations":
		var ask struct {
			Path  string `json:"file_path"`
			Agent string `json:"agent_name"`
			TTL   int    `json:"ttl"`
		}
		if err := json.Unmarshal(raw, &ask); err != nil || ask.TTL != 3600 {
			answer(w, http.StatusBadRequest, `{"error":"bad body"}`)
			return
		}
		if by := s.holders[ask.Path]; by != "" && by != ask.Agent {
			answer(w, http.StatusConflict,
				fmt.Sprintf(`{"error":"%s is reserved by %[2]s","holder":%[2]q,"expires_at":"2031-02-03T04:05:06Z"}`, ask.Path, by))
			return
		}
		s.holders[ask.Path] = ask.Agent
		answer(w, http.StatusCreated, "{}")
	case r.URL.Path == "/api/notifications":
		n := notice{Key: r.Header.Get("Idempotency-Key"), Project: r.Header.Get("X-Project")}
		if err := json.Unmarshal(raw, &n); err != nil || n.Key == "" {
			answer(w, http.StatusBadRequest, `{"error":"bad body"}`)
			return
		}
		s.notices = append(s.notices, n)
		answer(w, http.StatusCreated, "{}")
	default:
		http.NotFound(w, r)
	}
}

// answer writes a response. It ignores errors, because the client may disconnect.
func answer(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

func answers(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, code, body) }
}

// refuses returns a handler that refuses reservations with this body and handles other requests.
func (s *mailServer) refuses(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/reservations" {
			answer(w, http.StatusConflict, body)
			return
		}
		s.again(w, r)
	}
}

// again handles a request like a healthy server.
func (s *mailServer) again(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body) // the body is in memory
	s.well(w, r, raw)
}

func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func hangsInTheBody(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusCreated, `{"id":`)
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// drops returns a handler that closes the connection without a response, with a reset if hard is set.
func drops(hard bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		if hard {
			_ = conn.(*net.TCPConn).SetLinger(0) // close with a reset
		}
		_ = conn.Close() // the client gets no response
	}
}

func redirects(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/api/elsewhere", http.StatusTemporaryRedirect)
}

// failure is a failure of a server and the expected output.
type failure struct {
	name    string
	fail    http.HandlerFunc
	closed  bool   // the server is closed
	timeout string // of a command, in seconds; "" means a long one
	warning string // regexp of the text after the server's address
	refused string // regexp of the error of the claim; "" if it succeeds
}

const secret = "s3cr3t-token"

// failures returns all failures except a server that was never started.
func failures(s *mailServer) []failure {
	cannot := func(why string) string { return `cannot be used \(it answered ` + why + `.*\); going on without it` }
	return []failure{
		{name: "hangs before headers", fail: hangs, timeout: "0.2", warning: `does not answer within 200ms; going on without it`},
		{name: "hangs in the body", fail: hangsInTheBody, timeout: "0.2", warning: `does not answer within 200ms; going on without it`},
		{name: "500", fail: answers(500, `{"error":"`+secret+`"}`), warning: cannot("500 Internal Server Error")},
		{name: "503 without a body", fail: answers(503, ""), warning: cannot("503 Service Unavailable")},
		{name: "401", fail: answers(401, `{"error":"no"}`), warning: cannot("401 Unauthorized: check AGENT_MAIL_TOKEN")},
		{name: "403", fail: answers(403, "go away"), warning: cannot("403 Forbidden: check AGENT_MAIL_TOKEN")},
		{name: "404", fail: answers(404, "404 page not found"), warning: cannot("404 Not Found: check AGENT_MAIL_URL")},
		{name: "429", fail: answers(429, "{}"), warning: cannot("429 Too Many Requests")},
		{name: "malformed JSON", fail: answers(201, `{"id": 1,`), warning: cannot("201 Created with a body that is not JSON")},
		{name: "a page instead of JSON", fail: answers(200, "<html>Please log in</html>"),
			warning: cannot("200 OK with a body that is not JSON")},
		{name: "empty body", fail: answers(201, ""), warning: cannot("201 Created with an empty body")},
		{name: "resets", fail: drops(true), warning: `cannot be reached \(connection reset\); going on without it`},
		{name: "closes", fail: drops(false), warning: `cannot be reached \(it closed the connection\); going on without it`},
		{name: "redirects", fail: redirects, warning: cannot("307 Temporary Redirect")},
		{name: "409", fail: s.refuses(`{"error":"it is reserved by bob","holder":"bob","expires_at":"2031-02-03T04:05:06Z"}`),
			refused: `is reserved by bob until 2031-02-03T04:05:06Z`},
		{name: "409 with an error alone", fail: s.refuses(`{"error":"x already reserved by bob"}`), refused: `is reserved by bob \(`},
		{name: "409 with a list", fail: s.refuses(`["bob"]`), refused: `is reserved by another agent`},
		{name: "409 without JSON", fail: s.refuses("Conflict\x1b[31m"), refused: `is reserved by another agent`},
		{name: "dies after the health check", closed: true, warning: `cannot be reached \(connection refused\); going on without it`},
	}
}

// agent runs bd with a server.
type agent struct {
	*place
	url     string
	timeout string            // in seconds; "" means a long one
	env     map[string]string // overrides variable
	kept    bool              // calls are queued
	home    string            // home folder of the user; created on demand
}

// result is the result of one command.
type result struct {
	code     int
	out      string
	warnings []string
	errors   string
	took     time.Duration
}

func newAgent(t *testing.T, url string) *agent {
	t.Helper()
	a := &agent{place: &place{t, t.TempDir()}, url: url}
	if err := tracker.FolderAt(filepath.Join(a.dir, ".beads")).Init(); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *agent) bd(name string, args ...string) (s result) {
	a.t.Helper()
	cmd := a.command(name, append([]string{"--no-daemon", "--json"}, args...)...)
	for _, variable := range []string{"AGENT_MAIL_URL", "AGENT_MAIL_TOKEN", "AGENT_MAIL_TIMEOUT", "BEADS_AGENT_NAME"} {
		cmd.Env = append(cmd.Env, variable+"="+a.variable(name, variable))
	}
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &stderr
	begin := time.Now()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		a.t.Fatal(err)
	}
	s.took, s.code = time.Since(begin), cmd.ProcessState.ExitCode()
	a.parseOutput(&s, args, out.String(), stderr.String())
	return s
}

// do runs bd in this process.
func (a *agent) do(name string, args ...string) (s result) {
	a.t.Helper()
	var out, stderr strings.Builder
	m := bd.Main{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &stderr, Dir: a.dir,
		Env: func(variable string) string {
			return a.variable(name, variable)
		}}
	s.code = m.Run(a.t.Context(), append([]string{"--json"}, args...))
	a.parseOutput(&s, args, out.String(), stderr.String())
	return s
}

// variable returns an environment variable of the agent's commands.
func (a *agent) variable(name, variable string) string {
	if value, ok := a.env[variable]; ok {
		return value
	}
	switch variable {
	case "AGENT_MAIL_URL":
		return a.url
	case "AGENT_MAIL_TOKEN":
		return secret
	case "AGENT_MAIL_TIMEOUT":
		return cmp.Or(a.timeout, "60")
	case "BEADS_AGENT_NAME", "BD_ACTOR":
		return name
	case "HOME":
		if a.home == "" {
			a.home = a.t.TempDir()
		}
		return a.home
	}
	return ""
}

// parseOutput sets the output fields of a result.
func (a *agent) parseOutput(s *result, args []string, out, stderr string) {
	a.t.Helper()
	s.out = out
	if !json.Valid([]byte(s.out)) {
		a.t.Errorf("bd %v prints %q, want JSON", args, s.out)
	}
	if strings.Contains(stderr+out, secret) {
		a.t.Errorf("bd %v prints the token: %s", args, stderr)
	}
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "Warning: ") {
			s.warnings = append(s.warnings, line)
		} else {
			s.errors += line
		}
	}
}

// rewind ends the backoff after a failure of the server.
func (a *agent) rewind() {
	a.t.Helper()
	name := filepath.Join(a.dir, ".beads", "mail.json")
	raw, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		a.t.Fatal(err)
	}
	until := regexp.MustCompile(`("silence": \{\s*"until": )"[^"]*"`)
	if err := os.WriteFile(name, until.ReplaceAll(raw, []byte(`$1"2001-01-01T00:00:00Z"`)), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// work creates, claims and closes an issue while the server fails, and checks the output of each
// command. It returns a table row with the results.
func (a *agent) work(f failure, id string, calls func() []string) []string {
	a.t.Helper()
	a.timeout = f.timeout
	row := []string{f.name}
	atCreate := "" // the first change sends the queue
	if a.kept {
		atCreate = f.warning
	}
	a.kept = f.warning != ""
	steps := []struct {
		name, warning string
		args          []string
		status        string
	}{
		{"create", atCreate, []string{"create", "Work during: " + f.name, "--id", id}, "open"},
		{"claim", f.warning, []string{"update", id, "--claim"}, "in_progress"},
		{"close", f.warning, []string{"close", id, "--reason", "done"}, "closed"},
	}
	asked := 0
	for _, step := range steps {
		got := a.bd("ann", step.args...)
		want, status := 0, step.status
		if step.name == "claim" && f.refused != "" {
			want, status = 1, "open"
			if !regexp.MustCompile(`^Error: ` + id + " " + f.refused).MatchString(got.errors) {
				a.t.Errorf("%s: error of the claim: %q, want %q", f.name, got.errors, f.refused)
			}
		}
		if got.code != want {
			a.t.Errorf("%s: exit code of %s is %d, want %d: %s", f.name, step.name, got.code, want, got.errors)
		}
		a.warned(f.name+", "+step.name, got, step.warning)
		lines := a.lines()
		if now := lines[id]["status"]; now != status {
			a.t.Errorf("%s: after %s the issue is %v, want %s", f.name, step.name, now, status)
		}
		seen := calls()
		row = append(row, fmt.Sprintf("%s: exit %d, %s, %s, %3d ms", step.name, got.code, times(len(got.warnings), "warning"),
			times(len(seen), "call"), got.took.Milliseconds()))
		if got.took >= time.Minute { // the timeout of a command
			a.t.Errorf("%s: %s took %s", f.name, step.name, got.took)
		}
		asked += len(seen)
	}
	if f.warning != "" && asked > 1 {
		a.t.Errorf("%s: %d requests to a failing server, want at most 1", f.name, asked)
	}
	return row
}

// warned checks that a command printed exactly the expected warning, or none.
func (a *agent) warned(what string, got result, want string) {
	a.t.Helper()
	if want == "" {
		if len(got.warnings) > 0 {
			a.t.Errorf("%s: warnings %q, want none", what, got.warnings)
		}
		return
	}
	pattern := regexp.MustCompile("^Warning: agent mail at " + regexp.QuoteMeta(a.url) + " " + want)
	if len(got.warnings) != 1 || !pattern.MatchString(got.warnings[0]) {
		a.t.Errorf("%s: warnings %q, want one that matches %q", what, got.warnings, pattern)
	}
}

func times(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

func TestFailingServerStopsNoCommand(t *testing.T) {
	var mu sync.Mutex
	var rows [][]string
	add := func(row []string) {
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, row)
	}
	t.Run("each", func(t *testing.T) {
		t.Run("never started", func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, "http://"+machinetest.Reserve(t))
			add(a.work(failure{name: "never started", warning: `cannot be reached \(connection refused\); going on without it`},
				"x-1", func() []string {
					return nil
				}))
		})
		for i := range failures(&mailServer{}) {
			s := newMailServer(t)
			f := failures(s)[i]
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				a := newAgent(t, s.URL)
				s.become(f.fail)
				if f.closed {
					if res, err := http.Get(s.URL + "/api/health"); err != nil || res.StatusCode != http.StatusOK {
						t.Fatalf("health: %v, %v", res, err)
					} else if err := res.Body.Close(); err != nil {
						t.Fatal(err)
					}
					s.seen()
					s.Close()
				}
				add(a.work(f, "x-1", s.seen))
			})
		}
	})
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	logRows(t, rows)
}

func logRows(t *testing.T, rows [][]string) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
}

func TestRecoveredServerReceivesEveryCallOnce(t *testing.T) {
	s := newMailServer(t)
	a := newAgent(t, s.URL)
	var rows [][]string
	all := failures(s)
	// refused ones first, because they queue nothing
	slices.SortStableFunc(all, func(a, b failure) int { return strings.Compare(b.refused, a.refused) })
	for i, f := range all {
		s.become(f.fail)
		if f.closed {
			s.Close()
		}
		a.rewind()
		rows = append(rows, a.work(f, fmt.Sprintf("x-%d", i), s.seen))
	}
	logRows(t, rows)
	if got := len(a.lines()); got != len(all) {
		t.Errorf("the file has %d issues, want %d", got, len(all))
	}
	s.become(nil)
	s.up(t)
	a.rewind()
	a.timeout = ""
	if got := a.bd("ann", "create", "the server is back", "--id", "x-back"); got.code != 0 || len(got.warnings) > 0 {
		t.Errorf("create after the restart: exit %d, warnings %q, %s", got.code, got.warnings, got.errors)
	}
	var got, want []string
	keys := map[string]bool{}
	for _, n := range s.notices {
		got = append(got, n.Type+" "+n.Payload["id"])
		keys[n.Key] = true
	}
	kept := 0
	for i, f := range all {
		id := fmt.Sprintf("x-%d", i)
		if f.refused == "" {
			want = append(want, "issue.claimed "+id)
			kept += 3 // including the release
		}
		want = append(want, "issue.closed "+id)
	}
	if d := diff.Diff(want, got); d != "" || len(keys) != len(want) {
		t.Errorf("notices with %d keys (-want +got):\n%s", len(keys), d)
	}
	if calls := s.seen(); len(calls) != kept {
		t.Errorf("%d requests, want the %d queued ones", len(calls), kept)
	}
	if a.bd("ann", "create", "one more"); len(s.seen()) > 0 {
		t.Error("queued requests were sent twice")
	}
}
