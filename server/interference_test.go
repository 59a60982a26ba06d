package server_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
)

// groupThreads is how many threads of a namespace one list merges.
const groupThreads = 1000

// eachStore runs a test on the stores. open opens an empty store; the test may call it several times.
func eachStore(t *testing.T, test func(t *testing.T, open func(t *testing.T) store.Store)) {
	t.Run("memory", func(t *testing.T) {
		test(t, func(*testing.T) store.Store { return memory.New() })
	})
	closing := func(t *testing.T, s store.Store, err error) store.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	t.Run("SQLite", func(t *testing.T) {
		test(t, func(t *testing.T) store.Store {
			s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "mail.db"), sqlite.Options{})
			return closing(t, s, err)
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		cluster := pgtest.Own(t)
		test(t, func(t *testing.T) store.Store {
			s, err := postgres.Open(t.Context(), postgres.Options{
				URL: cluster.URL(), Schema: cluster.Schema(t), AllowUnsafe: true,
				// On a busy machine a transaction is silent for seconds.
				IdleInTransaction: 5 * time.Minute, LockTimeout: 5 * time.Minute, ConnectTimeout: time.Minute,
			})
			return closing(t, s, err)
		})
	})
}

// world writes rows with the same ids and times in each world.
type world struct {
	*fixture
	at time.Time
}

// add writes a thread.
func (w *world) add(id, owner, agent, text string, n int) {
	w.t.Helper()
	c := w.thread(id, owner, agent, text, n)
	if err := w.store.Update(w.t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		w.t.Fatal(err)
	}
}

// thread returns a thread with n runs, each with a ticket and a message. Every third run has failed, with the error
// group g.
func (w *world) thread(id, owner, agent, text string, n int) *store.Changes {
	w.t.Helper()
	row := &mailroom.Thread{ID: id, Agent: agent, Owner: owner, FirstSeq: 1, LastSeq: int64(n), NextPlace: 1,
		CreatedAt: w.at, UpdatedAt: w.at}
	c := &store.Changes{Threads: []*mailroom.Thread{row}}
	var log []mailroom.Entry
	for i := range n {
		w.at = w.at.Add(time.Second)
		run := fmt.Sprintf("%s.%d", id, i)
		r := &mailroom.Run{ID: run, Thread: id, Agent: agent, Status: mailroom.StatusCompleted, FirstSeq: int64(i + 1),
			CreatedAt: w.at, StartedAt: w.at, FinishedAt: w.at}
		state := mailroom.TicketOpen
		switch i % 3 {
		case 0:
			r.Status, r.ErrorGroup, r.Error = mailroom.StatusFailed, "g",
				&mailroom.RunError{Class: mailroom.ClassPermanent, Message: "refused"}
		case 1:
			state = mailroom.TicketDecided
		}
		c.Runs = append(c.Runs, r)
		c.Tickets = append(c.Tickets, &mailroom.Ticket{
			ID: run + "/k", Thread: id, Run: run, Name: "k", Kind: mailroom.TicketApproval, State: state, OpenedAt: w.at,
		})
		e, err := entry.New(id, int64(i+1), entry.KindMessage, "", 0, w.at, mailroom.Message{
			ID: fmt.Sprintf("%s.%d", id, i+1), Thread: id, Role: mailroom.RoleUser, Text: text, Parts: mailroom.Text(text),
			CreatedAt: w.at,
		})
		if err != nil {
			w.t.Fatal(err)
		}
		log = append(log, e)
	}
	c.Entries = [][]mailroom.Entry{log}
	return c
}

// fill writes the rows that carol and dan see, and with others those of ann, who has more of everything: before,
// between and behind them.
func (w *world) fill(others bool) {
	w.t.Helper()
	w.at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	noise := func(id string, n int) {
		at := w.at
		if others {
			w.add(id, "ann", "inbox", "zebrafinch apple "+id, n)
		}
		w.at = at.Add(time.Minute)
	}
	noise("a1", 2*maxScanned+100)
	w.add("c-own", "carol", "echo", "apple pie", 3) // with the others no more messages than a search reads at a time
	noise("team", 5)
	w.add("team-of-bob", "bob", "echo", "apple tree", 3)
	w.add("d-own", "dan", "codex", "apple cider", 3)
	noise("tean", 300)
	w.add("team-own", "carol", "codex", "apple juice", 2)
	noise("z", 300)
	w.index()
}

// timesOfRows matches what differs between two servers that got the same requests.
var timesOfRows = regexp.MustCompile(`"(started_at|created_at|used_at|oldest_due_ms)":[^,}]*`)

// whole returns the answers to a request and to those with its next cursors.
func (f *fixture) whole(route, body string) (answers []string) {
	f.t.Helper()
	cursor := ""
	for range 30 {
		r, b := route, body
		if cursor != "" && body == "" {
			r += map[bool]string{true: "&", false: "?"}[strings.Contains(r, "?")] + "cursor=" + url.QueryEscape(cursor)
		}
		if cursor != "" && body != "" {
			b = strings.TrimSuffix(b, "}") + fmt.Sprintf(`,"cursor":%q}`, cursor)
		}
		a := f.call(r, b)
		var page struct{ Next *string }
		_ = json.Unmarshal([]byte(a.body), &page) // not every answer has one
		if cursor = ""; page.Next != nil {
			cursor = *page.Next
			a.body = strings.Replace(a.body, cursor, fmt.Sprintf("CURSOR of %d", len(cursor)), 1)
		}
		for _, name := range []string{"Date", "X-Request-Id"} {
			a.header.Del(name)
		}
		if strings.Contains(route, "/v1/stats") || strings.Contains(route, "/v1/tokens") {
			a.body = timesOfRows.ReplaceAllStringFunc(a.body, func(s string) string {
				s, _, _ = strings.Cut(s, ":")
				return s
			})
			a.header.Del("Content-Length")
		}
		answers = append(answers, fmt.Sprint(a.status, " ", a.header, " ", a.body))
		if cursor == "" {
			return answers
		}
	}
	return append(answers, "and more")
}

// filters are terms of lists of runs, threads and tickets. Many match rows of others only.
func filters() map[string][]string {
	return map[string][]string{
		"runs": {
			"", "agent:inbox", "agent:echo", "agent:e*", "status:failed", "status:completed", "status:failed agent:inbox",
			"group:g", "group:none", "owner:ann",
			"owner:bob", "owner:carol", "thread:a1", "thread:c-own", "thread:none", "parent:a1.7", "parent:none", "key:none",
			"id:a1.3", "error:refused", "class:permanent",
			"created:2026-01-02", "created:<2026-01-02T03:10:00Z", "created:>2026-01-02T03:06:00Z", "created:>2027-01-01",
			"-agent:echo", "status:queued",
			"status:failed owner:ann", "group:g agent:inbox", "finished:2026-01-02T03:04:06Z", "thread:a1 agent:inbox",
			"delivery:yes",
		},
		"threads": {"", "agent:inbox", "agent:echo", "owner:ann", "owner:carol", "id:a1", "id:c-own", "id:none",
			"status:idle", "updated:2026-01-02", "agent:i*", "id:c-own*"},
		"tickets": {"", "id:a1*",
			"state:open", "state:decided", "kind:approval", "kind:input", "thread:a1", "thread:c-own", "run:a1.7",
			"run:c-own.1", "run:none", "state:open kind:approval", "thread:a1 state:open", "-state:open"},
	}
}

// requests are those whose answers must not depend on rows of others.
func requests() map[string]string {
	all := map[string]string{}
	for list, terms := range filters() {
		for _, q := range terms {
			q := url.QueryEscape(q)
			for _, limit := range []int{1, 2, 500} {
				all[fmt.Sprintf("GET /v1/%s?limit=%d&q=%s", list, limit, q)] = ""
			}
			if list == "runs" {
				all["GET /v1/runs/count?q="+q] = ""
				all["GET /v1/failures?q="+q] = ""
				all["GET /v1/waits?q="+q] = ""
				all["GET /v1/audit"] = ""
				all["GET /v1/report?since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z"] = ""
				all["GET /v1/report?since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z&agent=inbox"] = ""
			}
		}
	}
	for _, q := range filters()["runs"][1:] {
		for _, what := range []string{"retry", "cancel"} {
			all["POST /v1/runs/"+what+" "+q] = fmt.Sprintf(`{"dry_run":true,"q":%q}`, q)
		}
	}
	for _, q := range []string{"zebrafinch", "apple", "apple zebrafinch", "nowhere", "pie", "tree apple",
		"cider", "juice"} {
		for _, limit := range []int{1, 2, 3, 100} {
			all[fmt.Sprintf("GET /v1/search?limit=%d&q=%s", limit, url.QueryEscape(q))] = ""
		}
		all["GET /v1/search?thread=a1&q="+url.QueryEscape(q)] = ""
		all["GET /v1/search?thread=c-own&limit=1&q="+url.QueryEscape(q)] = ""
	}
	for _, path := range []string{
		"stats", "agents", "workers", "tokens", "channels", "alerts", "schedules", "schedules?limit=1", "budgets",
		"reservations", "reservations?project=theirs",
		"notifications?agent=x&project=theirs", "notifications?agent=y&project=none",
		"threads/a1/entries", "threads/a1/messages", "threads/c-own/entries?limit=1", "threads/c-own/messages?limit=1",
		"threads/c-own/entries?run=a1.3",
	} {
		all["GET /v1/"+path] = ""
	}
	return all
}

// TestAnAnswerDoesNotDependOnRowsOfOthers compares the answers of two servers. One of them has thousands of threads,
// runs, tickets, messages, tokens and reservations more. The caller may see none of them.
func TestAnAnswerDoesNotDependOnRowsOfOthers(t *testing.T) {
	eachStore(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		var worlds [2]*world
		callers := [2]map[string]*fixture{}
		for i := range worlds {
			w := &world{fixture: startStore(t, open(t), func(ln net.Listener) net.Listener { return ln })}
			scopes := []auth.Permission{auth.PermissionRead, auth.PermissionSubmit}
			callers[i] = map[string]*fixture{
				"carol": w.withToken(w.createToken("carol", "team-", scopes...)),
				"dan":   w.withToken(w.createToken("dan", "", scopes...)),
				"erin":  w.withToken(w.createToken("erin", "empty-", scopes...)),
			}
			w.createToken("bob", "", scopes...)
			if i == 1 {
				ann := w.withToken(w.createToken("ann", "", scopes...))
				mustCall[map[string]any](ann, "POST /v1/reservations", `{"project":"theirs","names":["a"],"holder":"x"}`)
				mustCall[map[string]any](ann, "POST /v1/notifications", `{"project":"theirs","from":"x","to":["y"],"event":"e"}`)
			}
			w.fill(i == 1)
			worlds[i] = w
		}
		for _, name := range slices.Sorted(maps.Keys(callers[0])) {
			for route, body := range requests() {
				method, rest, _ := strings.Cut(route, " ")
				path, _, _ := strings.Cut(rest, " ")
				few, many := callers[0][name].whole(method+" "+path, body), callers[1][name].whole(method+" "+path, body)
				if !slices.Equal(few, many) {
					t.Errorf("%s of %s (-alone +among rows of others):\n%s", route, name, gocmp.Diff(few, many))
				}
				if slices.Contains(many, "and more") {
					t.Errorf("%s of %s has no end", route, name)
				}
			}
		}
	})
}

// TestEachListIsComparedAmongRowsOfOthers: a list or search that a later change adds is compared too.
func TestEachListIsComparedAmongRowsOfOthers(t *testing.T) {
	f := start(t)
	var d openAPI
	if err := json.Unmarshal([]byte(f.call("GET /openapi.json", "").body), &d); err != nil {
		t.Fatal(err)
	}
	compared := map[string]bool{}
	for route := range requests() {
		method, rest, _ := strings.Cut(route, " ")
		path, _, _ := strings.Cut(rest, " ")
		path, _, _ = strings.Cut(path, "?")
		path = regexp.MustCompile(`/threads/[^/]+`).ReplaceAllString(path, "/threads/{thread}")
		compared[method+" "+path] = true
	}
	for path, methods := range d.Paths {
		for method, o := range methods {
			pages := false
			for _, p := range o.Parameters {
				pages = pages || slices.Contains([]string{"q", "cursor", "limit"}, p.Name)
			}
			if route := strings.ToUpper(method) + " " + path; pages && !compared[route] &&
				!strings.HasPrefix(path, "/v1/claims/") {
				t.Errorf("%s has pages, but its answers are not compared among rows of others", route)
			}
		}
	}
}

// TestALargeNamespaceIsListedWhole: lists and searches of a token with a namespace read its threads in groups.
func TestALargeNamespaceIsListedWhole(t *testing.T) {
	const threads = 2*groupThreads + 3
	eachStore(t, func(t *testing.T, open func(t *testing.T) store.Store) {
		w := &world{fixture: startStore(t, open(t), func(ln net.Listener) net.Listener { return ln })}
		carol := w.withToken(w.createToken("carol", "team-", auth.PermissionRead, auth.PermissionSubmit))
		w.at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		var want []string
		c := &store.Changes{}
		for i := range threads {
			owner := "bob"
			if i%10 == 0 {
				owner = "carol"
			}
			id := fmt.Sprintf("team-%04d", (i*7)%threads)
			want = append(want, id)
			add := w.thread(id, owner, "echo", "apple", 1)
			c.Threads, c.Runs, c.Tickets = append(c.Threads, add.Threads...), append(c.Runs, add.Runs...),
				append(c.Tickets, add.Tickets...)
			c.Entries = append(c.Entries, add.Entries...)
		}
		if err := w.store.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
			t.Fatal(err)
		}
		w.index()
		slices.Sort(want)
		for _, list := range []string{"threads", "runs", "tickets", "tickets?q=state:open", "runs?q=agent:echo",
			"search?q=apple"} {
			path, query, _ := strings.Cut(list, "?")
			limit := map[bool]int{true: 100, false: 500}[path == "search"]
			var got []string
			for cursor := ""; ; {
				page := mustCall[api.Page[struct{ ID, Thread string }]](carol,
					fmt.Sprintf("GET /v1/%s?limit=%d&cursor=%s&%s", path, limit, cursor, query), "")
				for _, row := range page.Items {
					got = append(got, cmp.Or(row.Thread, row.ID))
				}
				if page.Next == nil {
					break
				}
				cursor = *page.Next
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %d rows, want the %d threads once each", list, len(got), len(want))
			}
		}
		count := 0
		for cursor := ""; ; {
			page := mustCall[api.RunCount](carol, "GET /v1/runs/count?q=agent:echo&cursor="+cursor, "")
			if count += page.Count; page.Next == nil {
				break
			}
			cursor = *page.Next
		}
		if count != threads {
			t.Errorf("counted %d runs, want %d", count, threads)
		}
	})
}
