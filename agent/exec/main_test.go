package exec_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"mailroom"
	"mailroom/agent/exec"
)

// TestMain also runs the test binary as a worker that can be killed in the middle of a run.
func TestMain(m *testing.M) {
	switch os.Getenv("EXEC_TEST_ROLE") {
	case "stub":
		runStub()
		return
	case "acp":
		runACPStub()
		return
	case "worker":
		worker()
		return
	}
	goleak.VerifyTestMain(m)
}

// worker runs attempt 1 of a run whose command starts processes and never ends. It prints the
// checkpoint and the output of the command, one per line.
func worker() {
	s := newSession(1, "go")
	s.onAppend = func(step mailroom.Step) error {
		_, err := fmt.Printf("%s\n", step.Checkpoint)
		return err
	}
	s.onStream = func(all string) error {
		if !strings.HasSuffix(all, "ready\n") {
			return nil
		}
		_, err := fmt.Println(strings.Join(strings.Fields(all), " "))
		return err
	}
	a, err := exec.New(exec.Options{Command: []string{"/bin/sh", "-c",
		"echo $$; sleep 1000 & echo $!; setsid sleep 1000 & echo $!; (setsid sleep 1000 & echo $!); echo ready; wait"}})
	if err == nil {
		err = a.Run(context.Background(), s)
	}
	fmt.Fprintln(os.Stderr, "the command ended:", err)
	os.Exit(1)
}
