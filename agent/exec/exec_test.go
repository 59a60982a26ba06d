package exec_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/agent/exec"
)

func TestTheOutputOfTheCommandIsTheReply(t *testing.T) {
	s := newSession(1, "one", "two")
	if err := command(t, "cat", exec.Options{}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one\ntwo"}, s.messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	exited := s.exited(t)
	if exited == nil || exited.ExitCode == nil || *exited.ExitCode != 0 || exited.Stopped != "" {
		t.Errorf("exit is %+v, want status 0", exited)
	}
}

func TestTheProcessIsCommittedBeforeItGetsItsInput(t *testing.T) {
	witness := filepath.Join(t.TempDir(), "witness")
	refused := errors.New("nothing can be written")
	s := newSession(1, "go")
	s.onAppend = func(step mailroom.Step) error { return refused }
	err := command(t, "read x; : >"+witness, exec.Options{}).Run(t.Context(), s)
	if !errors.Is(err, refused) {
		t.Errorf("error %v, want %v", err, refused)
	}
	if _, err := os.Stat(witness); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the command got its input before its checkpoint was committed: %v", err)
	}

	s = newSession(1, "go")
	if err := command(t, "read x; echo $$", exec.Options{}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	started := body[exec.Started](t, s, exec.KindStarted)
	if got, want := s.messages, []string{fmt.Sprintln(started.PID)}; !slices.Equal(got, want) {
		t.Errorf("the command calls itself %q, the entry %q", got, want)
	}
	if !s.steps[0].NoProgress || s.steps[0].Checkpoint == nil {
		t.Errorf("the first step is %+v, want a record with a checkpoint", s.steps[0])
	}
}

func TestAnExitStatusOtherThan0IsTransient(t *testing.T) {
	cases := []struct {
		script string
		error  string
	}{
		{"echo no luck >&2; exit 3", "the command ended with exit status 3: no luck"},
		{"exit 1", "the command ended with exit status 1"},
		{"kill -9 $$", "the command ended with signal: killed"},
	}
	for _, c := range cases {
		s := newSession(1, "go")
		f := mailroom.AsFailure(command(t, c.script, exec.Options{}).Run(t.Context(), s))
		if f.Class != mailroom.ClassTransient || f.Err.Error() != c.error {
			t.Errorf("%s: %v failure %q, want transient %q", c.script, f.Class, f.Err, c.error)
		}
		if x := s.exited(t); x == nil || !s.steps[len(s.steps)-1].NoProgress {
			t.Errorf("%s: steps %+v, want a record of the exit at the end", c.script, s.steps)
		}

		// A partial reply must not become a complete message.
		s = newSession(1, "go")
		f = mailroom.AsFailure(command(t, "echo half; "+c.script, exec.Options{}).Run(t.Context(), s))
		if f.Class != mailroom.ClassTransient || f.Err.Error() != c.error {
			t.Errorf("%s after a word: %v failure %q, want transient %q", c.script, f.Class, f.Err, c.error)
		}
		if s.messages != nil || s.said.String() != "half\n" {
			t.Errorf("%s: messages %q, streamed %q; want only streamed text", c.script, s.messages, s.said.String())
		}
	}
}

func TestTheEndOfStderrIsKept(t *testing.T) {
	s := newSession(1, "go")
	script := "i=0; while [ $i -lt 3000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1"
	f := mailroom.AsFailure(command(t, script, exec.Options{}).Run(t.Context(), s))
	exited := s.exited(t)
	if len(exited.Stderr) != 4<<10 || !strings.HasSuffix(exited.Stderr, "line 2999\n") {
		t.Errorf("kept %d bytes that end in %q", len(exited.Stderr), exited.Stderr[max(0, len(exited.Stderr)-20):])
	}
	if text := f.Err.Error(); len(text) > 4<<10 || !strings.HasSuffix(text, "line 2999") {
		t.Errorf("the error has %d bytes and ends in %q", len(text), text[max(0, len(text)-20):])
	}
}

func TestTimeoutsAreTransientAndTooMuchOutputIsPermanent(t *testing.T) {
	short, long := 20*time.Millisecond, time.Minute
	cases := []struct {
		script string
		o      exec.Options
		class  mailroom.Class
		error  string
	}{
		{"exec sleep 1000", exec.Options{StartTimeout: short, TotalTimeout: long}, mailroom.ClassTransient,
			"the command was stopped: no output before the start timeout (start_timeout 20ms)"},
		{"echo one; exec sleep 1000", exec.Options{StartTimeout: long, IdleTimeout: short}, mailroom.ClassTransient,
			"the command was stopped: no output before the idle timeout (idle_timeout 20ms)"},
		{"exec sleep 1000", exec.Options{TotalTimeout: short}, mailroom.ClassTransient,
			"the command was stopped: total timeout exceeded (total_timeout 20ms)"},
		{"exec yes", exec.Options{MaxOutput: 1000}, mailroom.ClassPermanent,
			"the command was stopped: output limit exceeded (max_output 1000 bytes)"},
	}
	for _, c := range cases {
		s := newSession(1, "go")
		f := mailroom.AsFailure(command(t, c.script, c.o).Run(t.Context(), s))
		if f.Class != c.class || f.Err.Error() != c.error {
			t.Errorf("%v failure %q, want %v %q", f.Class, f.Err, c.class, c.error)
		}
		x := s.exited(t)
		if !strings.Contains(c.error, x.Stopped) || x.Stopped == "" {
			t.Errorf("entry has %q, error is %q", x.Stopped, c.error)
		}
		// A bridge derives "timed out after 20 ms" from it.
		if x.LimitMS != 0 && !strings.HasSuffix(c.error, fmt.Sprintf("(%s %dms)", x.Limit, x.LimitMS)) ||
			(x.LimitMS != 0) != (c.class == mailroom.ClassTransient) {
			t.Errorf("entry has limit %q of %d ms, error is %q", x.Limit, x.LimitMS, c.error)
		}
	}
}

func TestAStopKeepsStreamedText(t *testing.T) {
	for _, why := range []error{mailroom.ErrStopped, mailroom.ErrReleased, mailroom.ErrDeadline} {
		s := newSession(1, "go")
		ctx := s.stopOn(t, "ready", why)
		script := "trap 'kill $!; echo bye; exit 0' INT; echo ready; sleep 1000 & wait"
		err := command(t, script, exec.Options{}).Run(ctx, s)
		if !errors.Is(err, why) {
			t.Errorf("error %v, want %v, whatever the exit status", err, why)
		}
		// A partial message must not become a complete one.
		if s.messages != nil || s.said.String() != "ready\nbye\n" {
			t.Errorf("%v: messages %q and streamed %q", why, s.messages, s.said.String())
		}
	}
}

func TestAStopIsRecorded(t *testing.T) {
	s := newSession(1, "go")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	s.onAppend = func(step mailroom.Step) error {
		if step.Entries[0].Kind == exec.KindStarted {
			cancel(mailroom.ErrStopped)
		}
		return nil
	}
	if err := command(t, "exec sleep 1000", exec.Options{}).Run(ctx, s); !errors.Is(err, mailroom.ErrStopped) {
		t.Errorf("error %v, want %v", err, mailroom.ErrStopped)
	}
	if x := s.exited(t); x == nil || x.Stopped != mailroom.ErrStopped.Error() || x.Signal != "interrupt" {
		t.Errorf("entry %+v, want the stop and the signal", x)
	}
}

func TestAPassedDeadlineIsRecordedWithItsLength(t *testing.T) {
	s := newSession(1, "go")
	begin := time.Now()
	s.run.Ends = begin.Add(time.Hour)
	ctx := s.stopOn(t, "ready", mailroom.ErrDeadline)
	if err := command(t, "echo ready; exec sleep 1000", exec.Options{}).Run(ctx, s); !errors.Is(err,
		mailroom.ErrDeadline) {
		t.Errorf("error %v, want %v", err, mailroom.ErrDeadline)
	}
	least := (time.Hour - time.Since(begin)).Milliseconds() // less the time until the command started
	if x := s.exited(t); x.Limit != "deadline" || x.LimitMS < least || x.LimitMS > time.Hour.Milliseconds() {
		t.Errorf("entry has limit %q of %d ms, want the deadline of an hour", x.Limit, x.LimitMS)
	}
}

func TestACommandThatIgnoresIntAndTermIsKilled(t *testing.T) {
	s := newSession(1, "go")
	ctx := s.stopOn(t, "ready", mailroom.ErrStopped)
	grace := exec.KillGrace{Interrupt: 20 * time.Millisecond, Terminate: 20 * time.Millisecond}
	script := "trap '' INT TERM; echo ready; while :; do sleep 1000; done"
	err := command(t, script, exec.Options{KillGrace: grace}).Run(ctx, s)
	if !errors.Is(err, mailroom.ErrStopped) {
		t.Errorf("error %v, want %v", err, mailroom.ErrStopped)
	}
}

func TestALostClaimKillsAtOnceAndWritesNothing(t *testing.T) {
	script := "trap '' INT TERM; echo ready; while :; do sleep 1000; done"
	hour := exec.KillGrace{Interrupt: time.Hour, Terminate: time.Hour}

	s := newSession(1, "go")
	ctx := s.stopOn(t, "ready", mailroom.ErrLeaseLost)
	if err := command(t, script, exec.Options{KillGrace: hour}).Run(ctx, s); !errors.Is(err, mailroom.ErrLeaseLost) {
		t.Errorf("error %v, want %v", err, mailroom.ErrLeaseLost)
	}
	if len(s.steps) != 1 {
		t.Errorf("%d steps, want only the start", len(s.steps))
	}

	s = newSession(1, "go")
	s.onStream = func(string) error { return mailroom.Errorf(mailroom.CodeLeaseLost, "claim revoked") }
	if err := command(t, script, exec.Options{KillGrace: hour}).Run(t.Context(),
		s); mailroom.CodeOf(err) != mailroom.CodeLeaseLost {
		t.Errorf("error %v, want code lease_lost", err)
	}
	if len(s.steps) != 1 {
		t.Errorf("%d steps, want only the start", len(s.steps))
	}
}

func TestACommandThatSucceededIsNotRunAgain(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	a := command(t, "echo x >>"+count, exec.Options{})
	s := newSession(1, "go")
	if err := a.Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s.run.Attempt = 2 // the worker was lost before it could settle
	if err := a.Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(count); err != nil || string(got) != "x\n" {
		t.Errorf("ran as %q, %v; want once", got, err)
	}

	// The message is partial until its step is committed.
	refused := errors.New("nothing can be written")
	s = newSession(1, "go")
	s.onAppend = func(step mailroom.Step) error {
		if !step.NoProgress {
			return refused
		}
		return nil
	}
	if err := a.Run(t.Context(), s); !errors.Is(err, refused) {
		t.Errorf("error %v, want %v: the reply is not written", err, refused)
	}
	s.onAppend = nil
	s.run.Attempt = 2
	if err := a.Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(count); err != nil || string(got) != "x\nx\nx\n" {
		t.Errorf("ran as %q, %v; want twice more", got, err)
	}
}

func TestACommandThatCannotStartIsAPermanentFailure(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		o    exec.Options
		want error
	}{
		{exec.Options{Command: []string{"no-such-program-anywhere", "argument"}}, osexec.ErrNotFound},
		{exec.Options{Command: []string{filepath.Join(dir, "none")}}, fs.ErrNotExist},
		{exec.Options{Command: []string{plain}}, fs.ErrPermission},
		{exec.Options{Command: []string{"/bin/sh"}, Dir: filepath.Join(dir, "none")}, fs.ErrNotExist},
		{exec.Options{Command: []string{"/bin/echo", strings.Repeat("x", 1<<20)}}, nil},
	}
	for _, c := range cases {
		s := newSession(1, "go")
		f := mailroom.AsFailure(agent(t, c.o).Run(t.Context(), s))
		if f.Class != mailroom.ClassPermanent || c.want != nil && !errors.Is(f, c.want) {
			t.Errorf("%s: %v, want permanent: %v", c.o.Command[0], f, c.want)
		}
		if len(f.Error()) > 1000 || len(s.steps) > 0 {
			t.Errorf("%s: an error of %d bytes and %d steps", c.o.Command[0], len(f.Error()), len(s.steps))
		}
	}
}

// A program that is open for writing cannot be executed (ETXTBSY). It stands for the limits of a machine, which a test
// cannot reach without ending its neighbours: none of them says anything about the run.
func TestAMachineWithoutRoomForAProcessIsAnOutage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "updated")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("#!/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	f := mailroom.AsFailure(agent(t, exec.Options{Command: []string{path}}).Run(t.Context(), newSession(1, "go")))
	if f.Class != mailroom.ClassUnavailable || !errors.Is(f, syscall.ETXTBSY) {
		t.Errorf("%s: %v, want an outage: the program is open for writing", f.Class, f)
	}
}

func TestACommandNeedNotReadItsInput(t *testing.T) {
	s := newSession(1, strings.Repeat("x", 1<<20))
	if err := command(t, "echo done", exec.Options{}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"done\n"}, s.messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestOutputOfAnySizeComesWholeAndInOrder(t *testing.T) {
	want := strings.Repeat("zwölf Boxkämpfer 世界\n", 150_000)
	s := newSession(1, want)
	if err := command(t, "cat", exec.Options{}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if len(s.messages) != 1 || s.messages[0] != want {
		t.Errorf("%d messages, want one of %d bytes, unchanged", len(s.messages), len(want))
	}
}

func TestOutputIsConvertedToValidText(t *testing.T) {
	s := newSession(1, "go")
	// The character may arrive in two chunks; TestOutputBecomesValidTextWithoutNUL covers that case reliably.
	script := `printf 'caf\303'; sleep 0.02; printf '\251 a\000b \377 \342\202'`
	if err := command(t, script, exec.Options{}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"café ab \ufffd \ufffd\ufffd"}, s.messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestTheEnvironmentHasOnlyAllowedVariables(t *testing.T) {
	t.Setenv("EXEC_TEST_CANARY", "a canary")
	t.Setenv("EXEC_TEST_ALLOWED", "allowed")
	t.Setenv("LANG", "C.UTF-8")
	cases := []struct {
		name string
		o    exec.Options
		want []string // in addition to MAILROOM_…
		not  []string
	}{
		{"default", exec.Options{Env: []string{"A=1", "A=2"}}, []string{"A=2", "LANG=C.UTF-8"}, []string{"A=1", "EXEC_TEST_CANARY=a canary"}},
		{"list", exec.Options{EnvAllow: []string{"EXEC_TEST_ALLOWED", "EXEC_TEST_UNSET"}},
			[]string{"EXEC_TEST_ALLOWED=allowed"}, []string{"LANG=C.UTF-8", "EXEC_TEST_UNSET="}},
		{"ours win", exec.Options{EnvAllow: []string{}, Env: []string{"MAILROOM_RUN=x"}}, nil, []string{"MAILROOM_RUN=x"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.o.Command = []string{"/usr/bin/env"}
			s := newSession(3, "go")
			if err := agent(t, c.o).Run(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			got := strings.Split(s.messages[0], "\n")
			want := append(c.want, "MAILROOM_RUN=run-1", "MAILROOM_THREAD=a thread", "MAILROOM_ATTEMPT=3",
				"MAILROOM_IDEMPOTENCY_KEY=run-1")
			for _, v := range want {
				if !slices.Contains(got, v) {
					t.Errorf("environment %[2]q lacks %[1]s", v, got)
				}
			}
			for _, v := range c.not {
				if slices.Contains(got, v) {
					t.Errorf("environment %[2]q contains %[1]s", v, got)
				}
			}
		})
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Setenv("EXEC_TEST_TOKEN", "from-our-environment")
	o := exec.Options{
		Env:      []string{"API_KEY=given-in-the-options", "PATH=" + os.Getenv("PATH")},
		EnvAllow: []string{"EXEC_TEST_TOKEN"},
	}
	s := newSession(1, "go")
	script := `echo "with $API_KEY and $EXEC_TEST_TOKEN" >&2; exit 1`
	err := command(t, script, o).Run(t.Context(), s)
	entry := body[exec.Exited](t, s, exec.KindExited).Stderr
	if want := "with [API_KEY] and [EXEC_TEST_TOKEN]\n"; entry != want {
		t.Errorf("entry has %q, want %q", entry, want)
	}
	if text := err.Error(); strings.Contains(text, "given-in") || strings.Contains(text, "from-our") {
		t.Errorf("the error contains a value: %q", text)
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	sh := []string{"/bin/sh"}
	for name, o := range map[string]exec.Options{
		"no command":      {},
		"empty program":   {Command: []string{""}},
		"NUL in argument": {Command: []string{"sh", "a\x00b"}},
		"no variable":     {Command: sh, Env: []string{"canary"}},
		"no name":         {Command: sh, Env: []string{"=canary"}},
		"NUL in value":    {Command: sh, Env: []string{"A=canary\x00"}},
		"bad name":        {Command: sh, EnvAllow: []string{"A=canary"}},
		"negative time":   {Command: sh, IdleTimeout: -1},
		"negative grace":  {Command: sh, KillGrace: exec.KillGrace{Terminate: -1}},
		"negative output": {Command: sh, MaxOutput: -1},
	} {
		if _, err := exec.New(o); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v, want one that shows no value", name, err)
		}
	}
}

func TestOneAgentServesManyRunsAtOnce(t *testing.T) {
	a := command(t, "cat", exec.Options{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			text := fmt.Sprint("run ", i)
			s := newSession(1, text)
			s.run.ID = text
			if err := a.Run(t.Context(), s); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{text}, s.messages); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
	all.Wait()
}

func TestAnUnreadableCheckpointIsAPermanentFailure(t *testing.T) {
	s := newSession(2, "go")
	s.run.Checkpoint = []byte(`"of another agent"`)
	f := mailroom.AsFailure(command(t, "cat", exec.Options{}).Run(t.Context(), s))
	if f.Class != mailroom.ClassPermanent {
		t.Errorf("%v, want permanent", f)
	}
}
