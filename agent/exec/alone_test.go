package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	"mailroom/agent/exec"
)

// TestTheFirstProcessOfAnACPAgentRunsAlone has an agent whose first processes fail if two of them run at once, and
// begins two turns while the version is asked.
func TestTheFirstProcessOfAnACPAgentRunsAlone(t *testing.T) {
	var options exec.ProgramOptions
	h := newFixture(t, "prepares its files", asACP, func(o *exec.ProgramOptions) {
		o.Alone = exec.NewAlone()
		options = *o
	})
	asked := make(chan error, 1)
	go func() {
		_, err := exec.Version(t.Context(), options)
		asked <- err
	}()
	runs := map[string]string{"one": h.send("one", "go"), "two": h.send("two", "go")}
	for thread, run := range runs {
		if h.reply(thread, run); h.ended(thread, run).Attempt != 1 {
			t.Errorf("the run of thread %s needed another attempt", thread)
		}
	}
	if err := <-asked; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(h.home, "ready")); err != nil {
		t.Error(err)
	}
}

// TestAnotherProcessIsFirstIfTheFirstDidNotAnswer has an agent whose first process dies while two more wait for it.
func TestAnotherProcessIsFirstIfTheFirstDidNotAnswer(t *testing.T) {
	alone := func(o *exec.ProgramOptions) { o.Alone = exec.NewAlone() }
	h := newFixture(t, "dies, and then prepares its files", asACP, alone)
	runs, attempts := map[string]string{}, 0
	for _, thread := range []string{"one", "two", "three"} {
		runs[thread] = h.send(thread, "go")
	}
	for thread, run := range runs {
		attempts += h.ended(thread, run).Attempt
	}
	if attempts != 4 {
		t.Errorf("%d attempts of three runs, want one more for the process that died", attempts)
	}
}
