package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/channel/platformtest"
	"mailroom/entry"
	"mailroom/issues/board/boardtest"
)

// TestEachCommentOfABoardIsWrittenOnceThroughItsFaults has each kind of call of an issue fail once in one way.
func TestEachCommentOfABoardIsWrittenOnceThroughItsFaults(t *testing.T) {
	t.Parallel()
	f := newBoardFixture(t, "", "")
	f.serve()
	limit := func(status int, message string, header ...string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			f.repo.Refuse(w, status, message)
		}
	}
	number := 0
	for _, c := range []struct {
		name  string
		fault func(w http.ResponseWriter) // nil: the answer of what was carried out is lost
		calls []string
	}{
		{"lost answers of writes", nil, nil},
		{"outages", limit(502, "Server Error"), nil},
		{"no JSON", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>sign in")) }, nil},
		{"403 with Retry-After", limit(403, "Forbidden", "Retry-After", "1"), []string{"POST /issues/N/comments"}},
		{"a secondary limit", limit(403, "You have exceeded a secondary rate limit", "Retry-After", "1"),
			[]string{"PATCH /issues/N"}},
		{"too many", limit(429, "Too many requests", "Retry-After", "1"), []string{"POST /issues/N/labels"}},
		{"the primary limit", func(w http.ResponseWriter) {
			limit(403, "API rate limit exceeded", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset",
				strconv.FormatInt(time.Now().Unix()+1, 10))(w)
		}, []string{"GET /issues/N"}},
	} {
		number++
		failed := map[string]bool{}
		due := func(r *http.Request) bool {
			at := call(r)
			if failed[at] || c.calls != nil && !slices.Contains(c.calls, at) || c.fault == nil && r.Method == http.MethodGet {
				return false
			}
			failed[at] = true
			return true
		}
		f.repo.Do(func() {
			f.repo.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				if c.fault == nil || !due(r) {
					return false
				}
				c.fault(w)
				return true
			}
			f.repo.After = func(r *http.Request) bool { return c.fault == nil && due(r) }
		})
		f.repo.Add(number, 1)
		runs := f.waitDone(f.fixture, number, "closed")
		if len(failed) == 0 || f.attempts(number) != 1 {
			t.Errorf("%s: %d kinds of calls failed, the agent got the issue %d times", c.name, len(failed), f.attempts(number))
		}
		t.Logf("%-22s %d calls failed, %d run, %d comment", c.name, len(failed), len(runs), len(f.repo.Texts(number)))
	}
	f.repo.Do(func() { f.repo.Fault, f.repo.After, f.repo.PageSize, f.repo.Reorder = nil, nil, 3, slices.Reverse })
	f.repo.Add(number+1, 8)
	for n := number + 1; n <= number+8; n++ {
		f.waitDone(f.fixture, n, "closed")
	}
	f.repo.Do(func() { f.repo.PageSize, f.repo.Reorder = 100, nil })
	platformtest.WaitFor(t, "polls that get the answer 304", func() bool { // the first ones read the last changes
		before, whole := f.polls()
		platformtest.WaitFor(t, "five polls", func() bool { n, _ := f.polls(); return n >= before+5 })
		_, after := f.polls()
		return after == whole
	})
}

// polls returns how many lists were asked for, and how many were sent whole.
func (f *boardFixture) polls() (asked, whole int) {
	f.repo.Do(func() {
		for _, r := range f.repo.Requests {
			if strings.HasPrefix(r, "GET /repos/ann/roof/issues?") {
				asked++
			}
		}
		whole = f.repo.Lists
	})
	return asked, whole
}

// TestWhatAPersonDoesWithAnIssueDuringItsRunStays changes an issue while its agent works, and one that waits.
func TestWhatAPersonDoesWithAnIssueDuringItsRunStays(t *testing.T) {
	t.Parallel()
	f := newBoardFixture(t, "cat gate;", "max_claimed = 2\n")
	f.serve()
	number := 0
	for _, c := range []struct {
		what     string
		change   func(it *boardtest.GitHubIssue)
		state    string
		runs     int
		comments int
	}{
		{"closed", func(it *boardtest.GitHubIssue) { it.State = "closed" }, "closed", 1, 1},
		{"assigned to a person", func(it *boardtest.GitHubIssue) { it.Assign("bob") }, "open", 1, 1},
		{"deleted", func(it *boardtest.GitHubIssue) { it.Removed = http.StatusNotFound }, "working", 1, 0},
		{"transferred", func(it *boardtest.GitHubIssue) { it.Removed = http.StatusMovedPermanently }, "working", 1, 0},
		// A command takes no messages while it works, so the edit is a run of its own.
		{"edited", func(it *boardtest.GitHubIssue) { it.Body = "It is quite broken." }, "closed", 2, 2},
	} {
		number++
		f.repo.Add(number, 1)
		platformtest.WaitFor(t, "the start of the agent", func() bool { return f.attempts(number) == 1 })
		platformtest.WaitFor(t, "the mark", func() bool { return f.repo.State(number) == "working" })
		f.repo.Edit(number, c.change)
		if c.runs > 1 {
			f.waitEntries(fmt.Sprint("roof:", number), entry.KindMessage, c.runs)
		}
		for n := range c.runs {
			f.waitEntries(fmt.Sprint("roof:", number), entry.KindStarted, n+1)
			f.openGate("")
		}
		var runs []api.Run
		platformtest.WaitFor(t, "the end of an issue that was "+c.what, func() (settled bool) {
			runs, settled = f.runs(f.fixture, number)
			return settled && f.repo.State(number) == c.state
		})
		if len(runs) != c.runs || runs[0].Status != mailroom.StatusCompleted || f.attempts(number) != 1 ||
			len(f.repo.Texts(number)) != c.comments {
			t.Errorf("%s: %d runs, the last %s, %d attempts, comments %q", c.what, len(runs), runs[0].Status, f.attempts(number),
				f.repo.Texts(number))
		}
	}
	number++
	f.repo.Add(number, 1)
	platformtest.WaitFor(t, "the start of the agent", func() bool { return f.attempts(number) == 1 })
	for _, change := range []func(it *boardtest.GitHubIssue){
		func(it *boardtest.GitHubIssue) { it.State = "closed" }, func(it *boardtest.GitHubIssue) { it.Assign("bob") },
		func(it *boardtest.GitHubIssue) { it.Labels = nil },
	} {
		number++
		f.repo.Add(number, 1)
		platformtest.WaitFor(t, "the claim", func() bool { return f.repo.State(number) == "working" })
		f.repo.Edit(number, change)
		platformtest.WaitFor(t, "the end of a run that has not started", func() bool {
			runs, settled := f.runs(f.fixture, number)
			return settled && runs[0].Status == mailroom.StatusCancelled && f.repo.State(number) != "working"
		})
		if f.attempts(number) > 0 || len(f.repo.Texts(number)) > 0 {
			t.Errorf("issue %d: %d attempts, comments %q", number, f.attempts(number), f.repo.Texts(number))
		}
	}
	f.openGate("")
}

// TestTwoServersOnOneBoardDoEachIssueOnce kills the server that reads the board, and stops it after a comment until the
// other one has ended that run.
func TestTwoServersOnOneBoardDoEachIssueOnce(t *testing.T) {
	t.Parallel()
	f := newBoardFixture(t, "", "")
	c := newNodes(f.fixture, 2)
	for _, n := range c.all {
		n.serve()
	}
	reader := func() int {
		at := -1
		platformtest.WaitFor(t, "a server to read the board", func() bool {
			at = slices.IndexFunc(c.all, func(n *fixture) bool {
				all, err := n.client().Channels(t.Context())
				return err == nil && len(all) == 1 && all[0].State == api.ChannelConnected
			})
			return at >= 0
		})
		return at
	}
	number := 0
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		for _, at := range []string{"POST /issues/N/labels", "POST /issues/N/comments", "PATCH /issues/N"} {
			number++
			victim, reached, first := reader(), make(chan struct{}), true
			pid := c.all[victim].server.cmd.Process.Pid
			f.repo.Do(func() {
				f.repo.After = func(r *http.Request) bool {
					if call(r) != at || !first {
						return false
					}
					first = false
					if err := syscall.Kill(pid, how); err != nil {
						t.Error(err)
					}
					close(reached)
					return true
				}
			})
			f.repo.Add(number, 1)
			<-reached
			other := c.all[1-victim]
			f.waitDone(other, number, "closed")
			if how == syscall.SIGSTOP {
				sendSignal(t, c.all[victim], syscall.SIGCONT)
			} else {
				c.all[victim].server.kill()
				c.all[victim].serve()
			}
			f.repo.Add(100+number, 1) // the reader of the board now does it
			f.waitDone(other, 100+number, "closed")
			f.waitDone(other, number, "closed")
		}
	}
	for n := 1; n <= number; n++ {
		f.waitDone(c.all[0], n, "closed")
	}
	t.Logf("%d issues, each done once", 2*number)
}

// TestAWebhookOfABoardOnlyStartsAPoll has a board that is not polled by itself. Nothing of a body is believed.
func TestAWebhookOfABoardOnlyStartsAPoll(t *testing.T) {
	t.Parallel()
	f := newBoardFixture(t, "", "")
	const secret = "a secret of 26 characters."
	f.writeSecret("roof", "webhook", secret)
	f.replaceInConfig("interval = \"20ms\"",
		fmt.Sprintf("interval = \"1h\"\nwebhook_file = %q", f.dir.ChannelSecret("roof", "webhook")))
	f.serve()
	f.waitChannel("roof", api.ChannelConnected)
	platformtest.WaitFor(t, "the first lists", func() bool { asked, _ := f.polls(); return asked >= 2 })
	sign := func(key, body string) string {
		h := hmac.New(sha256.New, []byte(key))
		_, _ = h.Write([]byte(body)) // never fails
		return "sha256=" + hex.EncodeToString(h.Sum(nil))
	}
	const body = `{"action":"opened","issue":{"number":2,"id":9002,"title":"Do 2","labels":[{"name":"agent"}]}}`
	f.repo.Add(1, 1)
	before, _ := f.polls()
	large := strings.Repeat(" ", 2<<20)
	for what, c := range map[string]struct {
		signature, body string
		want            int
	}{
		"none":              {"", body, http.StatusUnauthorized},
		"another secret":    {sign("another secret of 33 characters..", body), body, http.StatusUnauthorized},
		"of another body":   {sign(secret, "{}"), body, http.StatusUnauthorized},
		"without its kind":  {strings.TrimPrefix(sign(secret, body), "sha256="), body, http.StatusUnauthorized},
		"no hexadecimal":    {"sha256=zz", body, http.StatusUnauthorized},
		"an empty one":      {"sha256=", body, http.StatusUnauthorized},
		"a part of the sum": {sign(secret, body)[:21], body, http.StatusUnauthorized},
		"a body of 2 MiB":   {sign(secret, large), large, http.StatusRequestEntityTooLarge},
	} {
		if got := f.postHook(c.signature, c.body); got != c.want {
			t.Errorf("a signature, %s: %d, want %d", what, got, c.want)
		}
	}
	if after, _ := f.polls(); after != before {
		t.Errorf("%d polls after refused requests", after-before)
	}
	if got := f.postHook(sign(secret, body), body); got != http.StatusAccepted {
		t.Fatalf("a signed request: %d", got)
	}
	platformtest.WaitFor(t, "the run", func() bool { return f.attempts(1) == 1 })
	platformtest.WaitFor(t, "the end", func() bool { // a poll shows it on the board
		return f.postHook(sign(secret, body), body) == http.StatusAccepted && f.repo.State(1) == "closed"
	})
	f.waitDone(f.fixture, 1, "closed")
	if f.attempts(2) > 0 {
		t.Error("the agent got an issue that only a webhook named")
	}
}

// postHook sends a webhook of the board, and returns the status of the answer.
func (f *boardFixture) postHook(signature, body string) int {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.server.url+"/v1/hooks/roof",
		strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if signature != "" {
		req.Header.Set("X-Hub-Signature-256", signature)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		f.t.Fatal(err)
	}
	return answer.StatusCode
}
