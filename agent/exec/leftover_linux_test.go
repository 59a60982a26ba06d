package exec_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"testing"

	"mailroom"
	"mailroom/agent/exec"
)

func living(t *testing.T, pids []string) (live []string) {
	t.Helper()
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			live = append(live, pid)
		}
	}
	return live
}

func TestALaterAttemptKillsProcessesOfAnEarlierOne(t *testing.T) {
	w := osexec.Command(os.Args[0])
	w.Env = append(os.Environ(), "EXEC_TEST_ROLE=worker")
	w.Stderr = os.Stderr
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	saved, err := lines.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	said, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(); err == nil {
		t.Fatal("the worker exited by itself")
	}
	pids := strings.Fields(strings.TrimSuffix(said, " ready\n"))
	if len(pids) != 4 {
		t.Fatalf("output of the command %q, want four pids", said)
	}

	s := newSession(2, "go")
	s.run.Checkpoint = json.RawMessage(saved)
	// When the new command gets its input, no process of the old one is left.
	s.onAppend = func(step mailroom.Step) error {
		if live := living(t, pids); live != nil {
			t.Errorf("processes %v run when the next attempt starts", live)
		}
		return nil
	}
	if err := command(t, "cat", exec.Options{}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if n := body[exec.Started](t, s, exec.KindStarted).Leftovers; n < 3 {
		t.Errorf("entry reports %d remaining processes, want those that survived the worker", n)
	}
}

func TestAReusedPidIsNotKilled(t *testing.T) {
	// An unrelated process has the pid of the checkpoint.
	unrelated := osexec.Command("cat")
	in, err := unrelated.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := unrelated.Start(); err != nil {
		t.Fatal(err)
	}
	// Record a valid checkpoint, then replace its pid.
	s := newSession(1, "go")
	var saved struct {
		Process map[string]any `json:"process"`
	}
	s.onAppend = func(step mailroom.Step) error {
		if saved.Process != nil {
			return nil
		}
		return json.Unmarshal(step.Checkpoint, &saved)
	}
	if err := command(t, "cat", exec.Options{}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	saved.Process["pid"], saved.Process["group"] = unrelated.Process.Pid, unrelated.Process.Pid
	saved.Process["start"] = 1
	next := newSession(2, "go")
	if next.run.Checkpoint, err = json.Marshal(saved); err != nil {
		t.Fatal(err)
	}
	if err := command(t, "cat", exec.Options{}).Run(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if n := body[exec.Started](t, next, exec.KindStarted).Leftovers; n != 0 {
		t.Errorf("killed %d processes, want none", n)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unrelated.Wait(); err != nil {
		t.Errorf("the unrelated process was killed: %v", err)
	}
}

func TestNothingOfACommandOutlivesItsRun(t *testing.T) {
	s := newSession(1, "go")
	script := "setsid sleep 1000 & echo $!; (setsid sleep 1000 & echo $!)"
	if err := command(t, script, exec.Options{}).Run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	pids := strings.Fields(strings.Join(s.messages, ""))
	if live := living(t, pids); len(pids) != 2 || live != nil {
		t.Errorf("of processes %v, %v still run", pids, live)
	}
}
