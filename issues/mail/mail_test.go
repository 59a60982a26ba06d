package mail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeServer records the requests that it receives.
type fakeServer struct {
	*httptest.Server

	// guarded by mu
	mu    sync.Mutex
	calls []string
	first func(r *http.Request) // called before each response, if not nil
}

func newFakeServer(t *testing.T) *fakeServer {
	d := &fakeServer{}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

func (d *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil { // an unread body would hide that the client has disconnected
		return
	}
	d.mu.Lock()
	d.calls = append(d.calls, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("Authorization")))
	first := d.first
	d.mu.Unlock()
	if first != nil {
		first(r)
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintln(w, "{}")
}

func (d *fakeServer) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff(want, d.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	d.calls = nil
}

func (d *fakeServer) before(first func(*http.Request)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.first = first
}

// open returns a client for a command of ann. Without warn, a warning fails the test.
func (d *fakeServer) open(t *testing.T, folder string, warn func(string)) *Client {
	t.Helper()
	if warn == nil {
		warn = func(message string) { t.Errorf("unexpected warning: %s", message) }
	}
	b, err := Open(folder, Settings{URL: d.URL, Agent: "ann", Timeout: time.Minute}, warn)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// status returns the saved state of the server.
func (b *Client) status(t *testing.T) Status {
	t.Helper()
	s, err := b.Status()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const (
	reserving = "POST /api/reservations"
	telling   = "POST /api/notifications"
)

func releasing(issue string) string { return "DELETE /api/reservations/ann/" + issue }

func TestNewReservationSurvivesAQueuedRelease(t *testing.T) {
	d, folder, ctx := newFakeServer(t), t.TempDir(), t.Context()
	d.open(t, folder, nil).Enqueue(ctx, Release("x-1"), Release("x-2"), Notice("issue.closed", nil))
	b := d.open(t, folder, nil)
	if err := b.Reserve(ctx, "x-1"); err != nil {
		t.Fatal(err)
	}
	d.wantCalls(t, releasing("x-2"), telling, reserving)
	b.Flush(ctx)
	d.wantCalls(t)
}

func TestReserveWaitsForAPendingRelease(t *testing.T) {
	d, folder, ctx := newFakeServer(t), t.TempDir(), t.Context()
	came, gone := make(chan struct{}), make(chan struct{})
	d.before(func(*http.Request) { close(came); <-gone })
	d.open(t, folder, nil).Enqueue(ctx, Release("x-1"))
	var group sync.WaitGroup
	group.Go(func() { d.open(t, folder, nil).Flush(ctx) })
	<-came
	// The client waits until the timeout of its command, and then continues without a reservation.
	var warned string
	late := d.open(t, folder, func(message string) { warned = message })
	late.settings.Timeout = 50 * time.Millisecond
	if err := late.Reserve(ctx, "x-1"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(warned, "is still receiving a release; going on without a reservation") {
		t.Errorf("warnings %q", warned)
	}
	// A release that is not being sent needs no wait, and no lock is held during requests.
	d.before(nil)
	if err := d.open(t, folder, nil).Reserve(ctx, "x-2"); err != nil {
		t.Fatal(err)
	}
	d.wantCalls(t, releasing("x-1"), reserving)
	group.Go(func() {
		if err := d.open(t, folder, nil).Reserve(ctx, "x-1"); err != nil {
			t.Error(err)
		}
	})
	close(gone)
	group.Wait()
	d.wantCalls(t, reserving)
}

func TestOneCommandSendsTheQueue(t *testing.T) {
	d, folder, ctx := newFakeServer(t), t.TempDir(), t.Context()
	came, gone := make(chan struct{}), make(chan struct{})
	d.before(func(*http.Request) { close(came); <-gone })
	a, b := d.open(t, folder, nil), d.open(t, folder, nil)
	a.Enqueue(ctx, Release("x-1"))
	var group sync.WaitGroup
	group.Go(func() { a.Flush(ctx) })
	<-came
	d.before(nil)
	b.Enqueue(ctx, Release("x-2"))
	b.Flush(ctx) // a is sending
	if got := b.status(t).Queued; got != 2 {
		t.Errorf("%d are kept, want 2", got)
	}
	close(gone)
	group.Wait()
	d.wantCalls(t, releasing("x-1"), releasing("x-2"))
	if got := b.status(t).Queued; got != 0 {
		t.Errorf("%d are kept, want none", got)
	}
}

func TestKilledSenderBlocksNoOthers(t *testing.T) {
	d, folder, ctx := newFakeServer(t), t.TempDir(), t.Context()
	b := d.open(t, folder, nil)
	b.Enqueue(ctx, Notice("issue.closed", nil))
	if kept := b.beginFlush(ctx); len(kept) != 1 { // it is killed here
		t.Fatal(kept)
	}
	next := d.open(t, folder, nil)
	next.Flush(ctx)
	d.wantCalls(t)
	b.update(ctx, func(s *server, now time.Time) bool {
		s.Sender.Until = now // after it has expired
		return true
	})
	next.Flush(ctx)
	d.wantCalls(t, telling)
}

func TestCommandsOfOneAgentShareAReservation(t *testing.T) {
	d, folder, ctx := newFakeServer(t), t.TempDir(), t.Context()
	first, second := d.open(t, folder, nil), d.open(t, folder, nil)
	for _, b := range []*Client{first, second} {
		if err := b.Reserve(ctx, "x-1"); err != nil {
			t.Fatal(err)
		}
	}
	d.wantCalls(t, reserving, reserving)
	first.ReleaseAll(ctx)
	first.Flush(ctx)
	d.wantCalls(t)
	second.ReleaseAll(ctx)
	second.Flush(ctx)
	d.wantCalls(t, releasing("x-1"))
}

func TestQueueIsBounded(t *testing.T) {
	d, folder, ctx := newFakeServer(t), t.TempDir(), t.Context()
	all := make([]Call, maxQueued)
	for i := range all {
		all[i] = Release(fmt.Sprint("x-", i))
	}
	d.open(t, folder, nil).Enqueue(ctx, all...)
	var warned string
	b := d.open(t, folder, func(message string) { warned = message })
	b.Enqueue(ctx, Release("x-1"), Release("x-new"), Release("x-newer"))
	if !strings.Contains(warned, "2 oldest queued calls were dropped; 200 remain") {
		t.Errorf("warnings %q", warned)
	}
	b.Flush(ctx)
	want := []string{}
	for i := range maxQueued {
		if i != 0 && i != 1 && i != 2 {
			want = append(want, releasing(fmt.Sprint("x-", i)))
		}
	}
	d.wantCalls(t, append(want, releasing("x-1"), releasing("x-new"), releasing("x-newer"))...)
}

func TestAQueuedReleaseExpiresWithItsReservation(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		call Call
		want bool
	}{
		{Call{Issue: "x-1", At: now.Add(-lease + time.Second)}, false},
		{Call{Issue: "x-1", At: now.Add(-lease - time.Second)}, true},
		{Call{Key: "k", Type: "issue.closed", At: now.Add(-lease - time.Second)}, false},
	} {
		if got := c.call.expired(now); got != c.want {
			t.Errorf("%+v: stale is %v, want %v", c.call, got, c.want)
		}
	}
}

func TestTheStateOfAServerIsKeptPerAddressAndToken(t *testing.T) {
	folder, ctx := t.TempDir(), t.Context()
	d := newFakeServer(t)
	boxes := map[string]*Client{}
	for _, token := range []string{"", "one", " one\n", "two"} {
		b, err := Open(folder, Settings{URL: d.URL + "/", Token: token, Agent: "an/n", Timeout: time.Minute}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		boxes[token] = b
	}
	boxes["one"].onFailure(ctx, result{reason: "is down"})
	for token, silent := range map[string]bool{"": false, "one": true, " one\n": true, "two": false} {
		if got := !boxes[token].status(t).BackoffUntil.IsZero(); got != silent {
			t.Errorf("with token %q the server is left alone: %v, want %v", token, got, silent)
		}
	}
	boxes["two"].Enqueue(ctx, Release("x/1"))
	boxes["two"].Flush(ctx)
	d.wantCalls(t, "DELETE /api/reservations/an%2Fn/x%2F1 Bearer two")
}

func TestCorruptStateFileIsReplaced(t *testing.T) {
	d, ctx := newFakeServer(t), t.Context()
	for _, text := range []string{"", "{", "null", "[]", `{"servers":7}`, `{"servers":{"` + strings.Repeat("0", 32) +
		`":null}}`} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, fileState), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var warned []string
		b := d.open(t, folder, func(message string) { warned = append(warned, message) })
		if err := b.Reserve(ctx, "x-1"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		d.wantCalls(t, reserving)
		if len(warned) > 1 || len(warned) == 1 && !strings.Contains(warned[0], "calls are dropped") {
			t.Errorf("%q: it warned %q", text, warned)
		}
		b.status(t)
	}
}

func TestUnwritableFolderStopsNoCommand(t *testing.T) {
	d := newFakeServer(t)
	var warned []string
	b := d.open(t, filepath.Join(t.TempDir(), "gone"), func(message string) { warned = append(warned, message) })
	if err := b.Reserve(t.Context(), "x-1"); err != nil {
		t.Error(err)
	}
	b.Enqueue(t.Context(), Release("x-1"))
	b.Flush(t.Context())
	if len(warned) != 1 || !strings.Contains(warned[0], "without its saved state") {
		t.Errorf("warnings %q", warned)
	}
	d.wantCalls(t, reserving)
}

func TestTheFilesAreIgnoredByGit(t *testing.T) {
	d, ctx := newFakeServer(t), t.Context()
	for had, want := range map[string]string{
		"":                                 "mail.json\nmail.lock\n*.tmp\n",
		"issues.lock\r\n*.tmp":             "issues.lock\r\n*.tmp\nmail.json\nmail.lock\n",
		"mail.json\nmail.lock\n*.tmp\nx\n": "mail.json\nmail.lock\n*.tmp\nx\n",
	} {
		folder := t.TempDir()
		name := filepath.Join(folder, ".gitignore")
		if had != "" {
			if err := os.WriteFile(name, []byte(had), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d.open(t, folder, nil).Enqueue(ctx, Release("x-1"))
		got, err := os.ReadFile(name)
		if err != nil || string(got) != want {
			t.Errorf("of %q it made %q, %v, want %q", had, got, err, want)
		}
	}
}

func TestCancelledCommandDoesNotBlameTheServer(t *testing.T) {
	d, folder := newFakeServer(t), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	d.before(func(r *http.Request) { cancel(); <-r.Context().Done() })
	b := d.open(t, folder, func(string) {})
	if err := b.Reserve(ctx, "x-1"); err != nil {
		t.Fatal(err)
	}
	if s := b.status(t); !s.BackoffUntil.IsZero() {
		t.Errorf("the server is left alone because it %s", s.Reason)
	}
}

func TestAnswersAreReadUpToABound(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for err := error(nil); err == nil; {
			_, err = fmt.Fprint(w, strings.Repeat(" ", 1<<16))
		}
	}))
	defer server.Close()
	var warned string
	b, err := Open(t.TempDir(), Settings{URL: server.URL, Agent: "ann", Timeout: time.Minute}, func(message string) {
		warned = message
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Reserve(t.Context(), "x-1"); err != nil ||
		!strings.Contains(warned, "its answer is larger than 1048576 bytes") {
		t.Errorf("%v, and it warned %q", err, warned)
	}
}

func TestConflictMeansReserved(t *testing.T) {
	b := &Client{settings: Settings{Token: "secret"}}
	long := strings.Repeat("é", 300)
	for body, want := range map[string]string{
		`{"error":"f is reserved by bob","holder":"bob","expires_at":"2031-02-03T04:05:06+01:00"}`: "x is reserved by bob until 2031-02-03T03:05:06Z",
		`{"error":"f is reserved by bob until noon"}`:                                              "x is reserved by bob",
		`{"error":"no"}`: "x is reserved by another agent",
		`{"error":{"code":7},"holder":["bob"],"expires_at":5}`: "x is reserved by another agent",
		`{"holder":"b\u001b[31m\nsecret"}`:                     "x is reserved by b [31m …",
		`{"holder":"` + long + `"}`:                            "x is reserved by " + strings.Repeat("é", maxQuote-1) + "…",
		`[1]`:                                                  "x is reserved by another agent",
		`nonsense`:                                             "x is reserved by another agent",
		``:                                                     "x is reserved by another agent",
	} {
		h := b.parseHolder([]byte(body))
		h.Issue = "x"
		if got := h.Error(); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestNilClientDoesNothing(t *testing.T) {
	var b *Client
	err := b.Reserve(t.Context(), "x-1")
	b.Enqueue(t.Context(), Release("x-1"))
	b.ReleaseAll(t.Context())
	b.Flush(t.Context())
	if !errors.Is(err, nil) {
		t.Error(err)
	}
}

func TestCommandStopsAfterAServerFailure(t *testing.T) {
	d, folder := newFakeServer(t), t.TempDir()
	d.open(t, folder, nil).Enqueue(t.Context(), Notice("issue.closed", nil))
	d.before(func(*http.Request) { panic(http.ErrAbortHandler) })
	var warned []string
	b := d.open(t, folder, func(message string) { warned = append(warned, message) })
	if err := b.Reserve(t.Context(), "x-1", "x-2"); err != nil {
		t.Fatal(err)
	}
	b.Enqueue(t.Context(), Release("x-1"))
	b.Flush(t.Context())
	d.wantCalls(t, telling)
	if len(warned) != 1 || !strings.Contains(warned[0],
		"cannot be reached (it closed the connection); going on without it, 1 call is queued") {
		t.Errorf("warnings %q", warned)
	}
}

func TestAllCallsOfACommandShareItsTimeLimit(t *testing.T) {
	d, folder, ctx := newFakeServer(t), t.TempDir(), t.Context()
	var warned []string
	b := d.open(t, folder, func(message string) { warned = append(warned, message) })
	b.Enqueue(ctx, Notice("issue.closed", nil))
	b.Flush(ctx)
	if b.spent <= 0 || b.timeLeft() >= b.settings.Timeout {
		t.Errorf("a call took %s, and %s of %s are left", b.spent, b.timeLeft(), b.settings.Timeout)
	}
	d.wantCalls(t, telling)
	// With little time left, the queue waits for the next command and the issue is still reserved.
	b.spent = b.settings.Timeout * 2 / 3
	b.Enqueue(ctx, Notice("issue.closed", nil))
	if err := b.Reserve(ctx, "x-1"); err != nil {
		t.Fatal(err)
	}
	d.wantCalls(t, reserving)
	// Without time left, no request is made.
	b.spent = b.settings.Timeout
	if err := b.Reserve(ctx, "x-2"); err != nil {
		t.Fatal(err)
	}
	d.wantCalls(t)
	if s := b.status(t); s.Queued != 1 || !s.BackoffUntil.IsZero() {
		t.Errorf("status %+v, want 1 queued call and no backoff", s)
	}
	if len(warned) != 1 || !strings.Contains(warned[0],
		"did not answer all requests within 1m0s; going on without a reservation") {
		t.Errorf("warnings %q", warned)
	}
}

func TestWrongClockDoesNotDisableAServer(t *testing.T) {
	now := time.Now()
	for ahead, want := range map[time.Duration]bool{-time.Second: false, time.Second: true, maxBackoff: true,
		10000 * time.Hour: false} {
		s := &server{Backoff: &backoff{Until: now.Add(ahead)}, Sender: &sender{Until: now.Add(ahead)}}
		if got := s.activeBackoff(now) != nil; got != want {
			t.Errorf("a silence until %s from now is on: %v, want %v", ahead, got, want)
		}
		if got := s.busy("other", now); got != want {
			t.Errorf("a sender until %s from now is at work: %v, want %v", ahead, got, want)
		}
	}
}

func TestCancelledReleaseIsQueuedAgain(t *testing.T) {
	d, folder, ctx := newFakeServer(t), t.TempDir(), t.Context()
	d.open(t, folder, nil).Enqueue(ctx, Notice("issue.closed", nil), Release("x-1"))
	for _, why := range []string{"the server fails", "the server is left alone"} {
		d.before(func(*http.Request) { panic(http.ErrAbortHandler) })
		b := d.open(t, folder, func(string) {})
		if err := b.Reserve(ctx, "x-1"); err != nil || !b.disabled {
			t.Errorf("%s: %v", why, err)
		}
		b.ReleaseAll(ctx) // the command failed for another reason
		if got := b.status(t).Queued; got != 2 {
			t.Errorf("%s: %d are kept, want the notice and the release", why, got)
		}
	}
}
