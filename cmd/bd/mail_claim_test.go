package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newAgents returns two agents that work in separate clones, each with the issues x-1 to x-4, and
// one server.
func newAgents(t *testing.T) (s *mailServer, ann, bob *agent) {
	t.Helper()
	s = newMailServer(t)
	ann, bob = newAgent(t, s.URL), newAgent(t, s.URL)
	for i := range 4 {
		ann.must("ann", "create", fmt.Sprint("issue ", i+1), "--id", fmt.Sprint("x-", i+1), "-p", fmt.Sprint(i))
	}
	bob.write("issues.jsonl", ann.file("issues.jsonl"))
	return s, ann, bob
}

func (a *agent) must(name string, args ...string) {
	a.t.Helper()
	if got := a.do(name, args...); got.code != 0 || len(got.warnings) > 0 {
		a.t.Fatalf("bd %v: exit %d, %q, %s", args, got.code, got.warnings, got.errors)
	}
}

// refused runs a command that must fail with an error that contains words, and change nothing.
func (a *agent) refused(words, name string, args ...string) {
	a.t.Helper()
	before := a.file("issues.jsonl")
	got := a.do(name, args...)
	if got.code != 1 || !strings.Contains(got.errors, words) || !strings.HasPrefix(got.errors, "Error: ") {
		a.t.Errorf("bd %v: exit %d, %q, want 1 and %q", args, got.code, got.errors, words)
	}
	var body struct{ Error string }
	if err := json.Unmarshal([]byte(got.out), &body); err != nil || body.Error == "" {
		a.t.Errorf("bd %v prints %q, want an object with the error", args, got.out)
	}
	if a.file("issues.jsonl") != before {
		a.t.Errorf("bd %v failed but changed the file", args)
	}
}

func (a *agent) file(name string) string {
	a.t.Helper()
	raw, err := os.ReadFile(filepath.Join(a.dir, ".beads", name))
	if err != nil {
		a.t.Fatal(err)
	}
	return string(raw)
}

func (a *agent) write(name, text string) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, ".beads", name), []byte(text), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

// wantHolders checks the reservations at the server.
func (s *mailServer) wantHolders(t *testing.T, want map[string]string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	got := map[string]string{}
	for path, by := range s.holders {
		got[strings.TrimPrefix(path, ".beads/issues/")] = by
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("reserved (-want +got):\n%s", d)
	}
}

func TestReservedIssueIsNotStartedByAnotherAgent(t *testing.T) {
	s, ann, bob := newAgents(t)
	ann.must("ann", "update", "x-1", "--claim")
	ann.must("ann", "update", "x-1", "--claim", "--force") // a repeat
	const held = "x-1 is reserved by ann until 2031-02-03T04:05:06Z"
	bob.refused(held, "bob", "update", "x-1", "--claim")
	bob.refused(held, "bob", "update", "1", "--status", "in_progress")
	bob.refused(held, "bob", "update", "x-2", "x-1", "x-3", "--claim")
	// The other agent may be the same one under another name.
	bob.refused("this command reserves as bob, the value of BEADS_AGENT_NAME: if you are ann, set it to that name", "bob",
		"update", "x-1", "--claim")
	s.wantHolders(t, map[string]string{"x-1": "ann"})
	bob.must("bob", "update", "x-1", "--notes", "this needs no permission")

	// The first ready issue is reserved, so the second is claimed.
	bob.must("bob", "ready", "--claim")
	if got := bob.lines()["x-2"]["assignee"]; got != "bob" {
		t.Errorf("x-2 is %v's, want bob's", got)
	}
	ann.must("ann", "close", "x-1", "--reason", "done")
	bob.must("bob", "update", "x-1", "--status", "in_progress")
	s.wantHolders(t, map[string]string{"x-1": "bob", "x-2": "bob"})

	var got []string
	for _, n := range s.notices {
		got = append(got, fmt.Sprint(n.From, " ", n.Type, " ", n.Payload))
	}
	want := []string{
		"ann issue.claimed map[claimed_by:ann id:x-1 title:issue 1]",
		"bob issue.claimed map[claimed_by:bob id:x-2 title:issue 2]",
		"ann issue.closed map[closed_by:ann id:x-1 reason:done title:issue 1]",
		"bob issue.claimed map[claimed_by:bob id:x-1 title:issue 1]",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("notices (-want +got):\n%s", d)
	}
}

func TestStoppingWorkReleasesTheReservation(t *testing.T) {
	s, ann, _ := newAgents(t)
	ann.must("ann", "update", "x-1", "x-2", "x-3", "x-4", "--claim")
	s.wantHolders(t, map[string]string{"x-1": "ann", "x-2": "ann", "x-3": "ann", "x-4": "ann"})
	ann.must("ann", "update", "x-1", "--status", "open")
	ann.must("ann", "delete", "x-2")
	ann.must("ann", "update", "x-4", "--status", "blocked")
	s.wantHolders(t, map[string]string{"x-2": "ann", "x-3": "ann", "x-4": "ann"})
	ann.must("ann", "delete", "x-2", "--force")
	ann.must("ann", "reopen", "x-3")
	ann.must("ann", "update", "x-4", "--status", "closed")
	s.wantHolders(t, map[string]string{})
	if last := s.notices[len(s.notices)-1]; last.Type != "issue.closed" || last.Payload["id"] != "x-4" {
		t.Errorf("the last notice is %v, want the close of x-4", last)
	}
}

func TestArgumentsAreCheckedBeforeAnythingIsReserved(t *testing.T) {
	s, ann, _ := newAgents(t)
	ann.must("ann", "close", "x-3")
	ann.must("ann", "update", "x-4", "--assignee", "bob")
	s.seen()
	ann.refused(`no issue "x-9"`, "ann", "update", "x-1", "x-9", "--claim")
	ann.refused("matches 4 issues", "ann", "update", "x", "--claim")
	ann.refused(`priority "9"`, "ann", "update", "x-1", "--claim", "--priority", "9")
	ann.refused("x-3 is closed", "ann", "update", "x-3", "--claim")
	ann.refused("claimed by bob", "ann", "update", "x-4", "--claim")
	ann.refused("readonly", "ann", "--readonly", "update", "x-1", "--claim")
	ann.refused("readonly", "ann", "--readonly", "ready", "--claim")
	ann.refused("no unassigned issue is ready", "ann", "ready", "--claim", "--label", "none")
	if calls := s.seen(); len(calls) > 0 {
		t.Errorf("requests %v", calls)
	}
}

func TestFailedCommandReleasesItsReservations(t *testing.T) {
	s, ann, _ := newAgents(t)
	ann.must("ann", "update", "x-2", "--claim")
	// Before the server responds, a user without mail claims x-1.
	s.become(func(w http.ResponseWriter, r *http.Request) {
		s.become(nil)
		eve := &agent{place: ann.place, env: map[string]string{"AGENT_MAIL_URL": ""}}
		eve.must("eve", "update", "x-1", "--claim")
		s.again(w, r)
	})
	if got := ann.do("ann", "update", "x-2", "x-1", "--claim", "--force"); got.code != 1 ||
		!strings.Contains(got.errors, "claimed by eve") {
		t.Errorf("exit %d, %q, want 1 and the holder", got.code, got.errors)
	}
	// x-2 was reserved before, by a command that did not fail.
	s.wantHolders(t, map[string]string{"x-2": "ann"})
}

func TestReadyClaimSkipsIssuesThatOthersClaimed(t *testing.T) {
	s, ann, bob := newAgents(t)
	s.become(func(w http.ResponseWriter, r *http.Request) {
		s.become(nil)
		eve := &agent{place: ann.place, env: map[string]string{"AGENT_MAIL_URL": ""}}
		eve.must("eve", "update", "x-1", "--claim")
		s.again(w, r)
	})
	ann.must("ann", "ready", "--claim")
	s.wantHolders(t, map[string]string{"x-2": "ann"})
	bob.must("cid", "update", "x-1", "x-3", "x-4", "--claim")
	bob.write("issues.jsonl", strings.ReplaceAll(bob.file("issues.jsonl"), "in_progress", "open"))
	bob.refused("no ready issue is free: x-2 is reserved by ann until", "bob", "ready", "--claim", "--no-assignee")
}

func TestConcurrentClaimsReserveOnce(t *testing.T) {
	s, ann, _ := newAgents(t)
	const agents = 4
	var group sync.WaitGroup
	codes := make([]int, agents)
	for i := range agents {
		group.Go(func() { codes[i] = ann.do(fmt.Sprint("agent-", i), "update", "x-1", "--claim").code })
	}
	group.Wait()
	winner := slices.Index(codes, 0)
	if slices.Sort(codes); winner < 0 || codes[1] != 1 {
		t.Fatalf("exit codes %v, want 0 once", codes)
	}
	name := fmt.Sprint("agent-", winner)
	s.wantHolders(t, map[string]string{"x-1": name})
	if got := ann.lines()["x-1"]["assignee"]; got != name {
		t.Errorf("x-1 is %v's, want %s's", got, name)
	}
}

func TestCommandWithSeveralCallsCostsOneTimeout(t *testing.T) {
	s, ann, _ := newAgents(t)
	s.seen()
	s.become(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/reservations" {
			hangs(w, r)
		}
		s.again(w, r)
	})
	ann.timeout = "0.3"
	ann.warned("claim", ann.do("ann", "update", "x-1", "x-2", "--claim"),
		"does not answer within 300ms; going on without it, 2 calls are queued$")
	want := []string{"POST /api/reservations", "POST /api/reservations", "POST /api/notifications"}
	if d := cmp.Diff(want, s.seen()); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	ann.warned("the next", ann.do("ann", "close", "x-1"),
		"does not answer within 300ms; going on without it, retrying in 30 s$")
	if calls := s.seen(); len(calls) > 0 {
		t.Errorf("requests to a failing server: %v, want none", calls)
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	s, ann, _ := newAgents(t)
	for header, want := range map[string]string{"5": "(30|2.) s", "120": "1[12]. s", "86400": "(300|2..) s",
		"soon": "(30|2.) s", "Fri, 31 Dec 2999 23:59:59 GMT": "(300|2..) s"} { // less by what the command has taken
		s.become(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			answer(w, http.StatusTooManyRequests, "{}")
		})
		ann.write("mail.json", `{"servers":{}}`)
		ann.do("ann", "update", "x-1", "--claim", "--force")
		ann.warned(header, ann.do("ann", "close", "x-2"), ".*retrying in "+want)
		ann.env = map[string]string{"AGENT_MAIL_URL": ""}
		ann.must("ann", "reopen", "x-2")
		ann.env = nil
	}
}

func TestRefusedRequestStartsNoBackoff(t *testing.T) {
	s, ann, _ := newAgents(t)
	s.become(answers(http.StatusBadRequest, `{"error":"no\u001b[31m `+secret+`"}`))
	ann.warned("claim", ann.do("ann", "update", "x-1", "--claim"),
		`refused this: 400 Bad Request, no \[31m …; going on without a reservation$`)
	s.become(nil)
	ann.must("ann", "update", "x-2", "--claim")
	if len(s.notices) != 1 {
		t.Errorf("%d notices, want 1, of the second claim: refused ones are not repeated", len(s.notices))
	}
}

func TestNoRequestsWithoutAnAddress(t *testing.T) {
	s, ann, _ := newAgents(t)
	s.seen()
	ann.env = map[string]string{"AGENT_MAIL_URL": ""}
	ann.must("ann", "update", "x-1", "--claim")
	ann.must("ann", "close", "x-1")
	if files, err := filepath.Glob(filepath.Join(ann.dir, ".beads", "mail.*")); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
	if got := ann.do("ann", "info"); !strings.Contains(got.out, `"agent_mail": {
    "enabled": false
  }`) {
		t.Errorf("bd info prints %s", got.out)
	}
	// The file in the tracker's folder names a server as well.
	ann.write("config.toml", fmt.Sprintf("[mail]\nurl = %q\nproject = \"roof\"\n", s.URL))
	ann.must("ann", "trust")
	ann.must("ann", "update", "x-2", "--claim")
	if len(s.notices) != 1 || s.notices[0].Project != "roof" {
		t.Errorf("notices %v, want one of the project roof", s.notices)
	}
}

func TestInvalidSettingsStopNoCommand(t *testing.T) {
	for name, c := range map[string]struct {
		env    map[string]string
		config string
		want   string
	}{
		"no TOML": {config: "prefix = ", want: "config.toml of the tracker, line 1: "},
		"an unknown key": {config: "[mail]\nulr = \"http://127.0.0.1:1\"",
			want: `unknown key mail.ulr (did you mean "url"?)`},
		"an unknown table": {config: "[email]\nurl = \"http://127.0.0.1:1\"",
			want: `unknown key email (did you mean "mail"?)`},
		"another unknown": {config: "colour = 1", want: "unknown key colour; known are prefix, mail"},
		"a foreign server": {config: "[mail]\nurl = \"https://mail.example.org\"",
			want: "config.toml names an agent mail server, which receives AGENT_MAIL_TOKEN only if AGENT_MAIL_URL names it too"},
		"no address": {env: map[string]string{"AGENT_MAIL_URL": "127.0.0.1:1/" + secret},
			want: "invalid address of agent mail: use one such as http://127.0.0.1:8765"},
		"no address at all": {env: map[string]string{"AGENT_MAIL_URL": "http://ann:" + secret + "@%zz"},
			want: "invalid address of agent mail: use one such as http://127.0.0.1:8765"},
		"another scheme": {env: map[string]string{"AGENT_MAIL_URL": "ftp://127.0.0.1"},
			want: "invalid address of agent mail: use one such as http://127.0.0.1:8765"},
		"no token": {env: map[string]string{"AGENT_MAIL_TOKEN": secret + " \x00"},
			want: "invalid token of agent mail"},
		"no number": {env: map[string]string{"AGENT_MAIL_TIMEOUT": "1s"},
			want: `invalid AGENT_MAIL_TIMEOUT "1s"; use a positive number of seconds up to 600; continuing with 1s`},
		"a number too large": {env: map[string]string{"AGENT_MAIL_TIMEOUT": "1e9"},
			want: `invalid AGENT_MAIL_TIMEOUT "1e9"; use a positive number of seconds up to 600; continuing with 1s`},
	} {
		s := newMailServer(t)
		a := newAgent(t, s.URL)
		a.env = c.env
		if c.config != "" {
			a.env = map[string]string{"AGENT_MAIL_URL": "", "AGENT_MAIL_TOKEN": secret}
			a.write("config.toml", c.config)
			a.do("ann", "trust") // fails if the settings are invalid
		}
		for _, args := range [][]string{{"create", "one", "--id", "x-1"}, {"update", "x-1", "--claim"}, {"close", "x-1"}} {
			got := a.do("ann", args...)
			if got.code != 0 || len(got.warnings) != 1 || !strings.Contains(got.warnings[0], c.want) {
				t.Errorf("%s: bd %v: exit %d, %q, want one warning: %s", name, args, got.code, got.warnings, c.want)
			}
		}
	}
}

func TestPasswordInTheAddressIsNotPrinted(t *testing.T) {
	s := newMailServer(t)
	a := newAgent(t, s.URL)
	a.env = map[string]string{"AGENT_MAIL_URL": strings.Replace(s.URL, "http://", "http://ann:"+secret+"@", 1) +
		"/?token=" + secret}
	s.Close()
	a.must("ann", "create", "one", "--id", "x-1")
	a.warned("claim", a.do("ann", "update", "x-1", "--claim"),
		`cannot be reached \(connection refused\); going on without it$`)
	a.warned("close", a.do("ann", "close", "x-1"), `cannot be reached`)
	if got := a.do("ann", "info"); !strings.Contains(got.out, `"url": "`+a.url+`"`) ||
		!strings.Contains(got.out, `"kept": 3`) {
		t.Errorf("bd info prints %s", got.out)
	}
	if text := a.file("mail.json"); strings.Contains(text, secret) {
		t.Errorf("the file contains the secret: %s", text)
	}
}
