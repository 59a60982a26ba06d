package exec_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/worktree"
	"mailroom/entry"
	"mailroom/internal/setting"
)

// roofWithSetup returns a repository with set-up commands, and a trust file that trusts a content.
func roofWithSetup(t *testing.T, text, trusted string) (folder, trust string) {
	t.Helper()
	folder = newRoof(t)
	if err := os.WriteFile(filepath.Join(folder, worktree.SetupFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	gitIn(t, folder, "add", "--all")
	gitIn(t, folder, "commit", "--quiet", "--message", "set up")
	trust = filepath.Join(t.TempDir(), "mailroom", "trust.json")
	if err := os.Mkdir(filepath.Dir(trust), 0o700); err != nil {
		t.Fatal(err)
	}
	writeTrust(t, folder, trust, trusted)
	return folder, trust
}

func writeTrust(t *testing.T, folder, path, text string) {
	t.Helper()
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	raw, err := json.Marshal(setting.Trust{worktree.SetupName(filepath.Join(real, ".git")): {
		Digest: hex.EncodeToString(sum[:]), At: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)}})
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestASetUpIsInTheLogOfItsRun checks the entries, and that the environment and its secrets are as for the agent.
func TestASetUpIsInTheLogOfItsRun(t *testing.T) {
	const text = "sh -c 'echo key $KEY; echo run $MAILROOM_RUN.; echo made >made'\nsh -c 'test -e ready || exit 3'\n"
	folder, trust := roofWithSetup(t, text, text)
	root := filepath.Join(t.TempDir(), "worktrees")
	a := command(t, "cat made", exec.Options{Dir: folder, Env: []string{"KEY=secret-of-ann"},
		Worktrees: &exec.Worktrees{Root: root, Trust: trust}})
	s := inThread("one", "r1", 1)
	f := mailroom.AsFailure(a.Run(t.Context(), s))
	if f.Class != mailroom.ClassTransient || !strings.Contains(f.Error(), "sh -c test -e ready || exit 3: exit status 3") {
		t.Errorf("%v failure %q", f.Class, f)
	}
	got := bodiesIn[entry.Setup](t, s, entry.KindSetup)
	if len(got) != 2 || got[0].Stdout != "key [KEY]\nrun .\n" || got[0].Failure != "" ||
		got[1].Failure != "exit status 3" {
		t.Fatalf("the log has %+v", got)
	}
	trees, err := filepath.Glob(filepath.Join(root, "roof-*", "one"))
	if err != nil || len(trees) != 1 {
		t.Fatalf("worktrees %q, %v", trees, err)
	}
	if err := os.WriteFile(filepath.Join(trees[0], "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s = inThread("one", "r1", 2)
	if err := a.Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := bodiesIn[entry.Setup](t, s, entry.KindSetup); len(got) != 1 || strings.Join(s.messages, "") != "made\n" {
		t.Errorf("the second attempt wrote %+v and says %q", got, s.messages)
	}
	records, err := filepath.Glob(filepath.Join(root, ".records", "roof-*", "one.json"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records %q, %v", records, err)
	}
	if raw, err := os.ReadFile(records[0]); err != nil || strings.Contains(string(raw), "secret-of-ann") {
		t.Errorf("the record has the secret: %s, %v", raw, err)
	}
}

// wantAsked waits until a run waits for a person, or has ended without a question, which is a failure.
func wantAsked(h *fixture, run string) {
	h.t.Helper()
	if e := h.await("t", run, entry.KindWaiting, entry.KindCompleted, entry.KindFailed); e.Kind != entry.KindWaiting {
		h.t.Fatalf("the run asks nothing: %s %s", e.Kind, e.Body)
	}
}

// bodiesIn returns the bodies of all entries of a kind that a session got.
func bodiesIn[T any](t *testing.T, s *session, kind string) (all []T) {
	t.Helper()
	for _, step := range s.steps {
		for _, e := range step.Entries {
			var body T
			if e.Kind != kind {
				continue
			}
			if err := json.Unmarshal(e.Body, &body); err != nil {
				t.Fatal(err)
			}
			all = append(all, body)
		}
	}
	return all
}

// TestTheOwnerDecidesAboutASetUpThatIsNotTrusted approves, denies, and approves after the owner of the machine has
// trusted it.
func TestTheOwnerDecidesAboutASetUpThatIsNotTrusted(t *testing.T) {
	const text = "sh -c 'echo made >made'\n"
	for _, test := range []struct {
		name    string
		verdict mailroom.Verdict
		trust   bool
	}{
		{"without it", mailroom.VerdictApprove, false}, {"with it", mailroom.VerdictApprove, true},
		{"denied", mailroom.VerdictDeny, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder, trust := roofWithSetup(t, text, "another content")
			h := newFixture(t, "", func(o *exec.ProgramOptions) {
				o.Dir = folder
				o.Worktrees = &exec.Worktrees{Root: filepath.Join(t.TempDir(), "worktrees"), Trust: trust}
			})
			run := h.send("t", "go")
			wantAsked(h, run)
			if test.trust {
				writeTrust(t, folder, trust, text)
			}
			k := decideOn(h, run, test.verdict, nil)
			const why = "has changed since it was trusted on 2026-11-29, so nothing of it runs: run bd trust --commit "
			if !strings.Contains(k.Prompt, why) {
				t.Errorf("the ticket says %q, want %q", k.Prompt, why)
			}
			if test.verdict == mailroom.VerdictDeny {
				r := h.ended("t", run)
				if r.Error == nil || !strings.Contains(r.Error.Message, "was not allowed to go on without the set-up") {
					t.Errorf("the run is %s: %+v", r.Status, r.Error)
				}
				if n := len(bodies[exec.Started](h, "t", exec.KindStarted)); n > 0 {
					t.Errorf("%d programs were started", n)
				}
				return
			}
			if got := h.reply("t", run); got != "1: go" {
				t.Errorf("the reply is %q", got)
			}
			got := bodies[entry.Setup](h, "t", entry.KindSetup)
			if len(got) != 1 || (got[0].Skipped == "") != test.trust || (got[0].Number == 1) != test.trust {
				t.Errorf("the log has %+v", got)
			}
			if got := h.reply("t", h.send("t", "again")); got != "2: again" {
				t.Errorf("the next run says %q", got)
			}
		})
	}
}
