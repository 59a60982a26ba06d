package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mailroom/alert/alerttest"
)

// fakeVariable makes the test program run a server in place of the tests.
const fakeVariable = "MAILROOM_TEST_FAKE"

func TestMain(m *testing.M) {
	if name := os.Getenv(fakeVariable); name != "" {
		os.Args = []string{os.Args[0], name}
		main()
		return
	}
	os.Exit(m.Run())
}

// No Exim stays behind: neither if the test ends the program, nor if the program is killed.
func TestTheMailServerEndsWithItsProgram(t *testing.T) {
	for name, end := range map[string]func(*os.Process, io.Closer) error{
		"the input ends":        func(_ *os.Process, input io.Closer) error { return input.Close() },
		"the program is killed": func(p *os.Process, _ io.Closer) error { return p.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "mailroom-fakes-test-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { // the killed program leaves its files
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			if err := os.Chmod(dir, 0o711); err != nil { // for the user of Exim
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env, cmd.Stderr = append(os.Environ(), fakeVariable+"=mail", "TMPDIR="+dir), os.Stderr
			input, err := cmd.StdinPipe()
			output, err2 := cmd.StdoutPipe()
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = input.Close(), cmd.Wait() }) // a killed program returns an error
			address, err := bufio.NewReader(output).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			conn, err := net.Dial("tcp", strings.TrimSpace(address))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if greeting, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
				t.Fatalf("%q, %v", greeting, err)
			}
			deadline := time.Now().Add(alerttest.WaitTimeout)
			if err := errors.Join(end(cmd.Process, input), conn.SetDeadline(deadline)); err != nil {
				t.Fatal(err)
			}
			_, err = io.Copy(io.Discard, conn)
			if refused, ok := errors.AsType[net.Error](err); ok && refused.Timeout() {
				t.Error("the server still runs")
			}
		})
	}
}
