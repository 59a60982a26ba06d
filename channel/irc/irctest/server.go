// Package irctest is a network for tests: a real ngircd, and people who talk there.
package irctest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is an ngircd on loopback.
type Server struct {
	Addr string // host:port, the same after each start

	t           testing.TB
	extraConfig []string // lines of its configuration
	config      string
	log         string
	cmd         *exec.Cmd // nil: it is down
}

// Start starts one. The further lines go into its configuration, such as
// "[Global]" and "Password = secret". The test's end is its own.
func Start(t testing.TB, further ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{t: t, extraConfig: further, config: filepath.Join(dir, "ngircd.conf"), log: filepath.Join(dir, "ngircd.log")}
	t.Cleanup(s.Kill)
	for range 20 {
		s.Addr = FreeAddr(t)
		if s.start() {
			return s
		}
	}
	t.Fatalf("ngircd finds no port that is free: %s", s.logFrom(0))
	return nil
}

// FreeAddr is an address that nobody listens on.
func FreeAddr(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Up starts it again, and returns when it lets people in.
func (s *Server) Up() {
	s.t.Helper()
	if s.cmd != nil {
		return
	}
	for end := time.Now().Add(WaitTimeout); !s.start(); {
		if time.Now().After(end) {
			s.t.Fatalf("ngircd does not listen on %s again: %s", s.Addr, s.logFrom(0))
		}
	}
}

// start starts it, and reports whether it listens: its port may be somebody else's by
// now. That somebody listens there is no sign of it.
func (s *Server) start() bool {
	s.t.Helper()
	program, err := exec.LookPath("ngircd")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/ngircd")
	}
	if err != nil {
		s.t.Fatalf("these tests talk to a real IRC server, ngircd: install it (make ircd does, where it may): %v", err)
	}
	s.configure()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close() // the program has it by then
	before := len(s.logFrom(0))
	s.cmd = exec.Command(program, "--nodaemon", "--config", s.config)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a ^C is for the test
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(WaitTimeout); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		switch said := s.logFrom(before); {
		case strings.Contains(said, "Can't bind socket"):
			s.Kill()
			return false
		case strings.Contains(said, " ready.\n"):
			return true
		}
	}
	s.t.Fatalf("ngircd does not begin: %s", s.logFrom(before))
	return false
}

func (s *Server) configure() {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := append([]string{
		"[Global]", "Name = irc.test.example", "Info = a test", "AdminEMail = nobody@test.example",
		"Listen = 127.0.0.1", "Ports = " + port, "MotdPhrase = hello",
		"[Limits]", "MaxNickLength = 16", "MaxConnectionsIP = 0", "MaxPenaltyTime = 0",
		"[Options]", "DNS = no", "Ident = no", "PAM = no",
	}, s.extraConfig...)
	if err := os.WriteFile(s.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// logFrom is what it has logged, from a byte on.
func (s *Server) logFrom(from int) string {
	s.t.Helper()
	raw, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(raw[from:])
}

// WaitListening returns when it takes connections at an address, such as one of further.
func (s *Server) WaitListening(addr string) {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	s.t.Fatalf("ngircd does not listen on %s: %s", addr, s.logFrom(0))
}

// Kill ends it as a crash would. Who was connected is not told.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		s.t.Error(err)
	}
	s.cmd = nil
}

// Connect lets somebody in, under a nick.
func (s *Server) Connect(nick string, further ...string) *Person {
	s.t.Helper()
	return Connect(s.t, s.Addr, nick, further...)
}

// String is for failures.
func (s *Server) String() string { return fmt.Sprintf("ngircd on %s", s.Addr) }
