package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"mailroom/alert/alerttest"
)

// runMail runs a mail server until the input ends.
func runMail() (err error) {
	base, err := os.MkdirTemp("", "mailroom-mail-")
	if err != nil {
		return err
	}
	t := &process{dir: filepath.Join(base, "server")}
	defer func() { err = errors.Join(err, t.end(), os.RemoveAll(base)) }()
	if err := os.Mkdir(t.dir, 0o700); err != nil {
		return err
	}
	s := alerttest.Start(t, alerttest.Options{NoTLS: true})
	fmt.Println(s.Addr)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		raw, err := json.Marshal(s.Wait("ops", n))
		if err != nil {
			return err
		}
		fmt.Println(string(raw))
	}
	return lines.Err()
}

// process stands in for the testing.TB that the test server expects. A failure ends the program.
type process struct {
	testing.TB // not set: a method that is not here panics
	dir        string
	cleanups   []func()
	failed     error
}

func (p *process) Helper()          {}
func (p *process) TempDir() string  { return p.dir }
func (p *process) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }
func (p *process) Error(args ...any) {
	p.failed = errors.Join(p.failed, errors.New(fmt.Sprint(args...)))
}
func (p *process) Fatal(args ...any) { p.Fatalf("%s", fmt.Sprint(args...)) }
func (p *process) Fatalf(format string, args ...any) {
	p.Error(fmt.Sprintf(format, args...))
	fmt.Fprintln(os.Stderr, "fakes:", p.end())
	os.Exit(1)
}

// end stops the server, and returns what went wrong.
func (p *process) end() error {
	for len(p.cleanups) > 0 {
		last := len(p.cleanups) - 1
		f := p.cleanups[last]
		p.cleanups = p.cleanups[:last] // f may fail, and end the rest
		f()
	}
	return p.failed
}
