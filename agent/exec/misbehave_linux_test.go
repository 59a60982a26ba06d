package exec_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/entry"
)

// TestARunEndsInTimeWhateverItsProgramDoes has programs that hang, flood or end early. Every run ends in time and
// leaves no process.
func TestARunEndsInTimeWhateverItsProgramDoes(t *testing.T) {
	short := 400 * time.Millisecond
	cases := []struct {
		does string
		want string // end of the first attempt
	}{
		{"hangs before the first line", "transient: claude was stopped: no output before the start timeout (start_timeout 400ms)"},
		{"goes silent", "transient: claude was stopped: no output before the idle timeout (idle_timeout 400ms)"},
		{"waits for its network for ever",
			"unavailable: claude made no progress for 400ms (idle_timeout): no answer from the model (connection refused), retry 1 of 10"},
		{"floods 100 MB in many lines", "permanent: claude was stopped: output limit exceeded (max_output 8388608 bytes)"},
		{"floods 100 MB in one line", "permanent: claude was stopped: output limit exceeded (max_output 67108864 bytes)"},
		{"ends in half a line", "transient: claude was interrupted: it ended with exit status 0 before the end of its turn"},
		{"ends without an end", "transient: claude was interrupted: it ended with exit status 0 before the end of its turn"},
		{"reports success, then fails", "transient: claude reported success, but ended with exit status 3"},
		{"is done, and does not go", "completed: half of it"},
		{"ignores INT and TERM", "transient: claude was stopped: no output before the idle timeout (idle_timeout 400ms)"},
		{"leaves a child in its own session", "completed: half of it"},
		{"writes garbage for ever", "transient: claude was stopped: no output before the start timeout (start_timeout 400ms)"},
		{"writes garbage, then answers", "completed: half of it"},
		{"is killed", "transient: claude was interrupted: it ended with signal: killed before the end of its turn"},
		{"answers from another session", "transient: claude started no session: the program is in another session"},
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "THE PROGRAM\tENDED AS\tAFTER\tPROCESSES LEFT")
	for _, c := range cases {
		t.Run(c.does, func(t *testing.T) {
			h := newFixture(t, c.does, func(o *exec.ProgramOptions) {
				// Only the limit that ends the attempt is short: a busy machine takes longer for anything else.
				o.StartTimeout, o.IdleTimeout = 10*time.Minute, 10*time.Minute
				switch {
				case strings.Contains(c.want, "start_timeout"):
					o.StartTimeout = short
				case strings.Contains(c.want, "idle_timeout"):
					o.IdleTimeout = short
				}
				if strings.Contains(c.does, "many lines") {
					o.MaxOutput = 8 << 20 // reading each of them takes time
				}
				o.KillGrace = exec.KillGrace{Interrupt: 50 * time.Millisecond, Terminate: 50 * time.Millisecond}
			})
			begin := time.Now()
			run := h.send("t", "go")
			e := h.await("t", run, entry.KindRescheduled, entry.KindFailed, entry.KindCompleted)
			took := time.Since(begin)
			got := outcome(t, e)
			left := processesOf(t, t.Name(), 1)
			fmt.Fprintf(w, "%s\t%s\t%v\t%d\n", c.does, got, took.Round(10*time.Millisecond), len(left))
			if got != c.want {
				t.Errorf("end %q, want %q", got, c.want)
			}
			if len(left) > 0 {
				t.Errorf("processes %v still run", left)
			}
		})
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// outcome describes how an attempt ended, from its entry.
func outcome(t *testing.T, e mailroom.Entry) string {
	t.Helper()
	switch e.Kind {
	case entry.KindCompleted:
		var b entry.RunCompleted
		if err := e.Decode(&b); err != nil || b.Reply == nil {
			t.Fatalf("%s, %v", e.Body, err)
		}
		return "completed: " + *b.Reply
	case entry.KindFailed:
		var b entry.RunFailed
		if err := e.Decode(&b); err != nil {
			t.Fatal(err)
		}
		return string(b.Error.Class) + ": " + b.Error.Message
	}
	var b entry.RunRescheduled
	if err := e.Decode(&b); err != nil {
		t.Fatal(err)
	}
	return string(b.Error.Class) + ": " + b.Error.Message
}

// processesOf returns the processes of an attempt.
func processesOf(t *testing.T, fixture string, attempt int) (pids []string) {
	t.Helper()
	all, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		env, err := os.ReadFile("/proc/" + p.Name() + "/environ")
		of := func(v string) bool { return strings.Contains("\x00"+string(env), "\x00"+v+"\x00") }
		if err == nil && of("EXEC_TEST_ROOM="+fixture) && of(fmt.Sprint("MAILROOM_ATTEMPT=", attempt)) {
			pids = append(pids, living(t, []string{p.Name()})...)
		}
	}
	return pids
}
