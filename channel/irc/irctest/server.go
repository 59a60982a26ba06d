// Package irctest provides an IRC network for tests: a real ngircd and users.
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

	"mailroom/internal/machinetest"
)

// Server is an ngircd on loopback.
type Server struct {
	Addr string // host:port, the same after each start

	t           testing.TB
	extraConfig []string // additional configuration lines
	config      string
	log         string
	cmd         *exec.Cmd // nil while it is down
}

// Start starts a server that stops when the test ends. The further lines are added to its
// configuration, such as `Password = secret` after the line of a section.
func Start(t testing.TB, further ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	s := &Server{t: t, extraConfig: further, config: filepath.Join(dir, "ngircd.conf"),
		log: filepath.Join(dir, "ngircd.log")}
	t.Cleanup(s.Kill)
	s.Addr = machinetest.Reserve(t)
	s.Up()
	return s
}

// Up starts the server, again after Kill, and waits until it accepts logins.
func (s *Server) Up() {
	s.t.Helper()
	if s.cmd != nil {
		return
	}
	for end := time.Now().Add(WaitTimeout); !s.start(); {
		if time.Now().After(end) {
			s.t.Fatalf("ngircd did not start on %s: %s", s.Addr, s.logFrom(0))
		}
	}
}

// start starts the server and reports whether it got its port. A successful dial is no proof:
// another process may own the port.
func (s *Server) start() bool {
	s.t.Helper()
	program, err := exec.LookPath("ngircd")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/ngircd")
	}
	if err != nil {
		s.t.Fatalf("these tests need ngircd: run make programs: %v", err)
	}
	s.configure()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close() // the process has its own descriptor
	before := len(s.logFrom(0))
	s.cmd = exec.Command(program, "--nodaemon", "--config", s.config)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // keeps ^C away from the process
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(WaitTimeout); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		switch text := s.logFrom(before); {
		case strings.Contains(text, "Can't bind socket"):
			s.Kill()
			return false
		case strings.Contains(text, " ready.\n"):
			return true
		}
	}
	s.t.Fatalf("ngircd did not start: %s", s.logFrom(before))
	return false
}

func (s *Server) configure() {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := append([]string{
		"[Global]", "Name = irc.test.example", "Info = a test", "AdminEMail = admin@test.example",
		"Listen = 127.0.0.1", "Ports = " + port, "MotdPhrase = hello",
		"[Limits]", "MaxNickLength = 16", "MaxConnectionsIP = 0", "MaxPenaltyTime = 0",
		"[Options]", "DNS = no", "Ident = no", "PAM = no",
	}, s.extraConfig...)
	if err := os.WriteFile(s.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// logFrom returns the log from a byte offset.
func (s *Server) logFrom(from int) string {
	s.t.Helper()
	raw, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(raw[from:])
}

// WaitListening waits until the server accepts connections at an address, such as a TLS port.
func (s *Server) WaitListening(addr string) {
	s.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	s.t.Fatalf("ngircd does not listen on %s: %s", addr, s.logFrom(0))
}

// Kill kills the server without closing its connections properly.
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

// Connect connects a user with a nick.
func (s *Server) Connect(nick string, further ...string) *Person {
	s.t.Helper()
	return Connect(s.t, s.Addr, nick, further...)
}

// String describes the server in failure messages.
func (s *Server) String() string { return fmt.Sprintf("ngircd on %s", s.Addr) }
