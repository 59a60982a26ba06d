// Package alerttest has services that take alerts: an ntfy server, and a mail server, a real Exim with its own
// configuration, queue and mailboxes in a folder of the test.
package alerttest

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mailroom/internal/machinetest"
)

// The account with which each message must sign in.
const (
	User     = "mailroom"
	Password = "correct horse/battery+staple"
)

// Domain is the domain of the server. It takes messages for ops@ and oncall@, refuses busy@ for now, and
// refuses all other addresses for good.
const Domain = "test.example"

// RefusedSubject is a word in a subject that makes the server refuse the content of a message.
const RefusedSubject = "unwanted"

// WaitTimeout bounds each wait for the server.
const WaitTimeout = 5 * time.Minute

// Options configure a server.
type Options struct {
	// NoTLS makes the server offer no STARTTLS, and accept a sign-in without it.
	NoTLS bool
	// Login offers AUTH LOGIN in place of AUTH PLAIN.
	Login bool
}

// Server is an Exim on loopback.
type Server struct {
	Addr    string // host:port of submission with STARTTLS, the same after each start
	TLSAddr string // host:port of submission with TLS from the start
	// Roots contains the certificate of the server, which is for 127.0.0.1 and localhost. CertFile contains it
	// as PEM.
	Roots    *x509.CertPool
	CertFile string

	t       testing.TB
	options Options
	dir     string
	owner   owner
	cmd     *exec.Cmd     // nil while the server is down
	alive   *os.File      // the end of a pipe that this process holds while the server is up
	exited  chan struct{} // closed when cmd has ended
}

// Start starts a server that stops when the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{t: t, options: o, dir: t.TempDir()}
	t.Cleanup(s.Stop)
	var err error
	if s.owner, err = findOwner(); err != nil {
		t.Fatal(err)
	}
	if err := s.owner.own(s.dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"spool", "mail"} {
		path := filepath.Join(s.dir, name)
		if err := errors.Join(os.Mkdir(path, 0o700), s.owner.give(path)); err != nil {
			t.Fatal(err)
		}
	}
	s.makeCertificate()
	s.Addr, s.TLSAddr = machinetest.Reserve(t), machinetest.Reserve(t)
	s.Up()
	return s
}

// Up starts the server. After Stop, it starts the server again on the same addresses.
func (s *Server) Up() {
	s.t.Helper()
	for end := time.Now().Add(WaitTimeout); s.cmd == nil && !s.start(); {
		if time.Now().After(end) {
			s.t.Fatalf("Exim did not start on %s: %s", s.Addr, s.log())
		}
	}
}

// guard is a script that becomes the server, and ends it and what it started with the process that holds the other end
// of descriptor 3, also if that is killed. The kernel cannot do so (PR_SET_PDEATHSIG): Exim is a setuid program.
const guard = `{ read -r _; kill -KILL 0; } <&3 & exec "$0" "$@" 3<&-`

// ready is in the log of a server that listens on its ports.
const ready = " daemon started: "

// start starts the server and reports whether it got its ports. A successful dial is no proof: another
// process may own a port.
func (s *Server) start() bool {
	s.t.Helper()
	program := ""
	for _, name := range []string{"exim4", "/usr/sbin/exim4", "exim", "/usr/sbin/exim"} {
		if found, err := exec.LookPath(name); err == nil && program == "" {
			program = found
		}
	}
	if program == "" {
		s.t.Fatal("these tests need Exim: run make programs")
	}
	s.configure()
	started := strings.Count(s.log(), ready)
	output, err := os.OpenFile(s.path("output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer output.Close() // the process has its own descriptor
	watched, alive, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer watched.Close() // as above
	cmd := exec.Command("sh", "-c", guard, program, "-C", s.path("exim.conf"), "-bdf")
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = s.dir, output, output, []*os.File{watched}
	cmd.SysProcAttr = s.owner.attributes()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.exited, s.alive = cmd, make(chan struct{}), alive
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // Stop kills it
		close(exited)
	}(s.cmd, s.exited)
	for end := time.After(WaitTimeout); ; {
		if strings.Count(s.log(), ready) > started {
			return true
		}
		select {
		case <-s.exited:
			s.Stop()
			if !strings.Contains(s.log(), "Address already in use") {
				s.t.Fatalf("Exim ended: %s", s.log())
			}
			return false
		case <-end:
			s.t.Fatalf("Exim did not start: %s", s.log())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Stop kills the server and what it started, without closing its connections properly.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.t.Error(err)
	}
	<-s.exited
	s.cmd = nil
	if err := s.alive.Close(); err != nil {
		s.t.Error(err)
	}
}

// Wait returns the messages in the mailbox of a user, such as "ops", once there are n or more.
func (s *Server) Wait(user string, n int) []string {
	s.t.Helper()
	for end := time.Now().Add(WaitTimeout); ; <-time.After(5 * time.Millisecond) {
		all := s.Mail(user)
		if len(all) >= n {
			return all
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s has %d messages, want %d: %s", user, len(all), n, s.log())
		}
	}
}

// Mail returns the messages in the mailbox of a user in the order of their delivery. That is not the order in which
// they were accepted if two were accepted shortly after each other: Exim starts a process for each.
func (s *Server) Mail(user string) (all []string) {
	s.t.Helper()
	dir := filepath.Join(s.dir, "mail", user, "new")
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, string(raw))
	}
	return all
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// log returns what the server logged and printed.
func (s *Server) log() string {
	s.t.Helper()
	var all []byte
	for _, name := range []string{"mainlog", "paniclog", "output"} {
		raw, err := os.ReadFile(s.path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.t.Fatal(err)
		}
		all = append(all, raw...)
	}
	return string(all)
}

// String describes the server in failure messages.
func (s *Server) String() string { return "Exim on " + s.Addr }

// owner is the user that runs a server: the current one, or `nobody` for root. A zero uid is the current one.
type owner struct{ uid, gid int }

func findOwner() (owner, error) {
	if os.Getuid() != 0 {
		return owner{}, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return owner{}, fmt.Errorf("as root, the tests run Exim as the user `nobody`: %w", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return owner{uid, gid}, errors.Join(err1, err2)
}

func (o owner) ids() (uid, gid int) {
	if o.uid == 0 {
		return os.Getuid(), os.Getgid()
	}
	return o.uid, o.gid
}

func (o owner) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true} // a process group of its own, which Stop ends
	if o.uid != 0 {
		a.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	return a
}

// own gives the folder of a test to the user, and lets the user reach it.
func (o owner) own(dir string) error {
	if o.uid == 0 {
		return nil
	}
	return errors.Join(o.give(dir), os.Chmod(filepath.Dir(dir), 0o711))
}

func (o owner) give(path string) error {
	if o.uid == 0 {
		return nil
	}
	return os.Chown(path, o.uid, o.gid)
}
