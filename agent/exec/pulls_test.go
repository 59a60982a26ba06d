package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/worktree"
	"mailroom/entry"
	"mailroom/internal/reserved"
)

// pullFixture is a repository with a remote, an agent that opens pull requests at a platform that fails as it says, and
// the agent that opens them again.
type pullFixture struct {
	t      *testing.T
	folder string
	root   string
	pulls  *pulls
	coder  mailroom.Agent
	keeper *exec.PullKeeper
	from   string // thread whose run sends to the keeper
	before string // first message of the run, "" if it is the one of keep
	ended  string // why the keeper may do nothing
	state  json.RawMessage
	at     time.Time       // of the next run of the keeper; zero is now
	sent   []mailroom.Send // by the last run of the keeper
}

func newPullFixture(t *testing.T) *pullFixture {
	t.Helper()
	f := &pullFixture{t: t, folder: newRoof(t), root: filepath.Join(t.TempDir(), "worktrees"), pulls: &pulls{},
		from: "one"}
	bare := filepath.Join(t.TempDir(), "origin.git")
	gitIn(t, ".", "clone", "--quiet", "--bare", f.folder, bare)
	gitIn(t, f.folder, "remote", "add", "origin", bare)
	f.coder = command(t, "echo x >>x", exec.Options{Dir: f.folder, Worktrees: &exec.Worktrees{Root: f.root,
		Push: "origin", PullRequest: true, Pulls: func(string) worktree.Pulls { return f.pulls }}})
	f.keeper = &exec.PullKeeper{
		Agent:  func(name string) mailroom.Agent { return map[string]mailroom.Agent{"coder": f.coder}[name] },
		Sender: func(context.Context, string) (string, error) { return f.from, nil },
		Ended: func(_ context.Context, own, thread string) (string, error) {
			if own != reserved.PullsID("ann", thread) {
				t.Errorf("thread %s is asked about %s", own, thread)
			}
			return f.ended, nil
		},
	}
	return f
}

// work lets the agent work in the thread one, and returns what the run sends.
func (f *pullFixture) work(run string) []mailroom.Send {
	f.t.Helper()
	s := inThread("one", run, 1)
	if err := f.coder.Run(f.t.Context(), s); err != nil {
		f.t.Fatal(err)
	}
	return s.steps[len(s.steps)-1].Sends
}

// keep runs the keeper with a message of an agent, or of a person for "", and returns its reply.
func (f *pullFixture) keep(sender string, parts ...mailroom.Part) (string, error) {
	f.t.Helper()
	s := newSession(1)
	s.run.Thread, s.run.Origin = reserved.PullsID("ann", "one"), mailroom.Origin{Via: "user"}
	if sender != "" {
		s.run.Origin = mailroom.Origin{Via: "run", Sender: sender}
	}
	s.input = []mailroom.Message{{Parts: parts}}
	if f.before != "" {
		s.input = append([]mailroom.Message{{Parts: mailroom.Text(f.before)}}, s.input...)
	}
	s.state, s.run.NotBefore = f.state, f.at
	err := f.keeper.Run(f.t.Context(), s)
	f.sent = nil
	for _, st := range s.steps {
		f.sent = append(f.sent, st.Sends...)
		if st.State != nil {
			f.state = st.State
		}
	}
	return strings.Join(s.messages, "") + s.said.String(), err
}

// info returns what the commands that look at the data folder show.
func (f *pullFixture) info() worktree.Info {
	f.t.Helper()
	all, err := worktree.List(f.t.Context(), f.root, os.Environ())
	if err != nil || len(all) != 1 {
		f.t.Fatalf("worktrees %+v, %v", all, err)
	}
	return all[0]
}

func TestARefusedPullRequestIsOpenedByTheRetriesOfTheServersRun(t *testing.T) {
	f := newPullFixture(t)
	f.pulls.fault = &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: 7 * time.Second,
		Err: errors.New("the limit is reached")}
	sends := f.work("r1")
	if len(sends) != 1 || sends[0].Agent != reserved.Puller || sends[0].Thread != "" {
		t.Fatalf("the run sends %+v, want the order of its pull request", sends)
	}
	for range 2 {
		_, err := f.keep("coder", sends[0].Parts...)
		fail := mailroom.AsFailure(err)
		if err == nil || fail.Class != mailroom.ClassUnavailable || fail.RetryAfter != 7*time.Second {
			t.Errorf("a limit ends the attempt with %v, want another one after it", err)
		}
	}
	if i := f.info(); i.Unopened != "the limit is reached" || !i.Again || i.PullRequest != "" {
		t.Errorf("during the limit the worktree is shown as %+v", i)
	}
	f.pulls.fault = nil
	const address = "https://forge.example.org/mailroom/one-1"
	for n := range 2 {
		reply, err := f.keep("coder", sends[0].Parts...)
		if err != nil || !strings.Contains(reply, address) {
			t.Errorf("attempt %d after the limit: %q, %v", n, reply, err)
		}
	}
	if i := f.info(); i.PullRequest != address || i.Unopened != "" || i.Again {
		t.Errorf("after the limit the worktree is shown as %+v", i)
	}
	finds := f.pulls.finds
	if _, err := f.keep(reserved.Puller, mailroom.Text("look")...); err != nil || f.pulls.finds != finds {
		t.Errorf("a look at a known pull request searches for it %d times, %v", f.pulls.finds-finds, err)
	}
	if len(f.pulls.opened) != 1 {
		t.Errorf("pull requests %q, want one", f.pulls.opened)
	}
	if sends := f.work("r2"); len(sends) != 1 {
		t.Errorf("a later run sends %+v, want the order to look at its pull request", sends)
	}
}

func TestARefusalThatCannotPassIsSaidAndRepeatedByAPerson(t *testing.T) {
	f := newPullFixture(t)
	f.pulls.fault = errors.New("the token may not open it")
	reply, err := f.keep("coder", f.work("r1")[0].Parts...)
	if want := "No pull request was opened: the token may not open it."; err != nil || reply != want {
		t.Errorf("the keeper says %q, %v, want %q", reply, err, want)
	}
	if i := f.info(); i.Unopened != "the token may not open it" || i.Again {
		t.Errorf("the worktree is shown as %+v", i)
	}
	f.pulls.fault = nil
	reply, err = f.keep("", mailroom.Text("try again")...)
	if err != nil || !strings.Contains(reply, "one-1 is https://") {
		t.Errorf("a repeat by a person: %q, %v", reply, err)
	}
}

// look runs the keeper as its timer does, at the time that it has set, and returns its reply.
func (f *pullFixture) look() string {
	f.t.Helper()
	if len(f.sent) != 1 || f.sent[0].Thread != reserved.PullsID("ann", "one") || f.sent[0].Agent != reserved.Puller {
		f.t.Fatalf("the keeper sends %+v, want the message for its next look", f.sent)
	}
	f.at = f.sent[0].NotBefore
	reply, err := f.keep(reserved.Puller, mailroom.Text("look")...)
	if err != nil {
		f.t.Fatal(err)
	}
	return reply
}

func TestAPullRequestIsFollowedUntilItIsMerged(t *testing.T) {
	f := newPullFixture(t)
	f.pulls.answer = worktree.PullAnswer{State: entry.PullOpen, Tag: "t1", Trouble: "its checks have not passed"}
	begin := time.Now()
	reply, err := f.keep("coder", f.work("r1")[0].Parts...)
	if err != nil || !strings.HasSuffix(reply, "/mailroom/one-1 and is open; its checks have not passed") {
		t.Errorf("the first look says %q, %v", reply, err)
	}
	f.pulls.answer = worktree.PullAnswer{Same: true}
	for n := 0; f.sent[0].NotBefore.Before(begin.Add(24 * time.Hour)); n++ {
		if reply := f.look(); reply != "" || n > 70 {
			t.Fatalf("look %d finds nothing new and says %q", n, reply)
		}
	}
	if i := f.info(); i.PullState != "open" || i.Trouble == "" || i.PullAt.Before(begin.Add(20*time.Hour)) {
		t.Errorf("after a day the worktree is shown as %+v", i)
	}

	// The host is down, and then limits the calls.
	f.pulls.looks = errors.New("502 Away")
	before := f.info().PullAt
	for n := range 3 {
		reply := f.look()
		pause := f.sent[0].NotBefore.Sub(f.at)
		if pause < 5*time.Minute<<n || n == 0 != strings.Contains(reply, "502 Away") {
			t.Errorf("miss %d says %q, and the next look is in %v", n, reply, pause)
		}
	}
	if i := f.info(); i.PullState != "open" || !i.PullAt.Equal(before) || i.Unread != "502 Away" || i.Unopened != "" {
		t.Errorf("during an outage the worktree is shown as %+v", i)
	}
	f.pulls.looks = &mailroom.Failure{Class: mailroom.ClassUnavailable, RetryAfter: 20 * time.Hour,
		Err: errors.New("limit")}
	if f.look(); f.sent[0].NotBefore.Sub(f.at) < 20*time.Hour {
		t.Errorf("in a limit of 20 hours the next look is in %v", f.sent[0].NotBefore.Sub(f.at))
	}

	f.pulls.looks, f.pulls.answer = nil, worktree.PullAnswer{State: entry.PullMerged}
	if reply := f.look(); !strings.HasSuffix(reply, "and is merged") || len(f.sent) != 0 {
		t.Errorf("after the merge it says %q and sends %+v", reply, f.sent)
	}
	if i := f.info(); i.PullState != "merged" || i.Unread != "" || i.Trouble != "" || i.State != worktree.StateIdle {
		t.Errorf("after the merge the worktree is shown as %+v", i)
	}
	if f.pulls.tags[0] != "" || f.pulls.tags[1] != "t1" || len(f.pulls.opened) != 1 {
		t.Errorf("the looks had the tags %q, and the pull requests are %q", f.pulls.tags, f.pulls.opened)
	}
}

// TestABranchThatGoesOnAfterTheMergeIsNotDone lets a run push more commits, and a person push others before the merge.
func TestABranchThatGoesOnAfterTheMergeIsNotDone(t *testing.T) {
	f := newPullFixture(t)
	order := f.work("r1")[0].Parts
	const more = "its branch has newer commits, which are not in it"
	keep := func(when, want string) {
		t.Helper()
		if reply, err := f.keep("coder", order...); err != nil || strings.HasSuffix(reply, more) != (want != "") {
			t.Errorf("%s the keeper says %q, %v", when, reply, err)
		}
		if i := f.info(); i.PullState != "merged" || i.Trouble != want {
			t.Errorf("%s the worktree is shown as %+v, want %q", when, i, want)
		}
	}
	head := gitIn(t, f.folder, "rev-parse", "mailroom/one-1")
	f.pulls.answer = worktree.PullAnswer{State: entry.PullMerged, Head: head}
	keep("after the merge", "")
	f.pulls.answer = worktree.PullAnswer{Same: true}
	f.work("r2")
	keep("after more commits", more)
	f.pulls.answer = worktree.PullAnswer{State: entry.PullMerged, Head: strings.Repeat("1", 40)}
	keep("after a merge of commits of a person", "")
	f.pulls.answer = worktree.PullAnswer{State: entry.PullMerged, Head: "--all"}
	keep("after an answer without a commit", "")
}

// TestOneTimerFollowsAPullRequest gives further orders before the next look, and lets months pass.
func TestOneTimerFollowsAPullRequest(t *testing.T) {
	f := newPullFixture(t)
	f.pulls.answer = worktree.PullAnswer{State: entry.PullOpen}
	order := f.work("r1")[0].Parts
	sent := 0
	for range 3 {
		if _, err := f.keep("coder", order...); err != nil {
			t.Fatal(err)
		}
		sent += len(f.sent)
		if len(f.sent) > 0 {
			f.at = f.sent[0].NotBefore.Add(-time.Minute)
		}
	}
	if sent != 1 {
		t.Errorf("%d timers, want one", sent)
	}
	f.sent = []mailroom.Send{{Thread: reserved.PullsID("ann", "one"), Agent: reserved.Puller,
		NotBefore: f.at.Add(time.Minute)}}
	looks, begin := 0, f.at
	for ; len(f.sent) > 0; looks++ {
		f.look()
	}
	if days := f.at.Sub(begin).Hours() / 24; looks < 60 || looks > 250 || days < 30 || days > 32 {
		t.Errorf("%d looks in %.0f days, want the last one after a month", looks, days)
	}
	f.at = f.at.Add(time.Hour)
	if _, err := f.keep("", mailroom.Text("try again")...); err != nil || len(f.sent) != 1 {
		t.Errorf("a person who asks begins it again: %v, %+v", err, f.sent)
	}
	f.remove()
	if reply := f.look(); !strings.Contains(reply, "its worktree was removed") || len(f.sent) != 0 {
		t.Errorf("without a worktree it says %q and sends %+v", reply, f.sent)
	}
	if err := filepath.WalkDir(f.root, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".pull" {
			t.Errorf("without a worktree its pull request is known in %s", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestThePullRequestOfAnEndedThreadIsLeftAlone ends what a pull request needs, one after the other.
func TestThePullRequestOfAnEndedThreadIsLeftAlone(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(f *pullFixture)
		want  string
		again bool
	}{
		"the thread is deleted": {func(f *pullFixture) { f.ended = "the thread one was deleted" },
			"the thread one was deleted", false},
		"the settings change": {func(f *pullFixture) { f.coder = command(t, "true", exec.Options{Dir: f.folder}) },
			"the settings of the agent coder open no pull requests", false},
		"the worktree is removed": {func(f *pullFixture) { f.remove() }, "its worktree was removed", false},
		"another server has the worktree": {func(f *pullFixture) { f.remove(); f.keeper.Shared = true },
			"this server does not have the worktree", true},
		"another server has the agent": {func(f *pullFixture) { f.coder = nil; f.keeper.Shared = true },
			"this server does not have the worktree", true},
		"the remote is gone": {func(f *pullFixture) { gitIn(t, f.folder, "remote", "remove", "origin") },
			"No such remote", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newPullFixture(t)
			f.pulls.fault = errors.New("the limit is reached")
			order := f.work("r1")[0].Parts
			f.pulls.fault = nil
			test.end(f)
			reply, err := f.keep("coder", order...)
			if test.again {
				if mailroom.AsFailure(err).Class != mailroom.ClassUnavailable {
					t.Errorf("the attempt ends with %v, want another one", err)
				}
				reply = fmt.Sprint(err)
			} else if err != nil {
				t.Errorf("the attempt failed: %v", err)
			}
			if !strings.Contains(reply, test.want) || len(f.pulls.opened) != 0 {
				t.Errorf("%q, and the pull requests %q; want %q", reply, f.pulls.opened, test.want)
			}
		})
	}
}

func (f *pullFixture) remove() {
	f.t.Helper()
	r, key, err := worktree.Find(f.root, "one", os.Environ())
	if err == nil {
		err = r.Remove(f.t.Context(), key, false)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestNoOtherRunSpeaksForAThread sends orders that no run of the thread has made.
func TestNoOtherRunSpeaksForAThread(t *testing.T) {
	f := newPullFixture(t)
	f.pulls.fault = errors.New("the limit is reached")
	order := f.work("r1")[0].Parts
	f.pulls.fault = nil
	other := mailroom.Part{Type: "data", Data: json.RawMessage(`{"thread":"two","run":"r1"}`)}
	for name, say := range map[string]func() (string, error){
		"of another thread": func() (string, error) { return f.keep("coder", other) },
		"in another thread": func() (string, error) {
			f.from = "two"
			defer func() { f.from = "one" }()
			return f.keep("coder", order...)
		},
		"that adds to another one": func() (string, error) {
			f.before = "wait"
			defer func() { f.before = "" }()
			return f.keep("coder", order...)
		},
		"of a person":          func() (string, error) { return f.keep("", order...) },
		"of the keeper itself": func() (string, error) { return f.keep(reserved.Puller, order...) },
		"without an order":     func() (string, error) { return f.keep("coder", mailroom.Text("open it")...) },
	} {
		reply, err := say()
		if !strings.HasPrefix(reply, "This thread belongs to the pull request") || err != nil || f.state != nil {
			t.Errorf("a message %s: %q, %v, state %s", name, reply, err, f.state)
		}
	}
	if len(f.pulls.opened) != 0 {
		t.Errorf("pull requests %q, want none", f.pulls.opened)
	}
}

// TestAnOrderThatIsRefusedCostsNoResult lets the ledger refuse what the last step of a run sends.
func TestAnOrderThatIsRefusedCostsNoResult(t *testing.T) {
	f := newPullFixture(t)
	f.pulls.fault = errors.New("the limit is reached")
	s, refused := inThread("one", "r1", 1), 0
	s.onAppend = func(st mailroom.Step) error {
		if len(st.Sends) > 0 {
			refused++
			return mailroom.Errorf(mailroom.CodeConflict, "too many threads in a chain")
		}
		return nil
	}
	if err := f.coder.Run(t.Context(), s); err != nil || refused != 1 {
		t.Fatalf("%d orders were refused, and the run ended with %v", refused, err)
	}
	if made := body[entry.Tree](t, s, entry.KindTree); made.Unopened != "the limit is reached" {
		t.Errorf("the entry is %+v", made)
	}
}
