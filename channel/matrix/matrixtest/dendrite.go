package matrixtest

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"mailroom/internal/machinetest"
)

// Dendrite is a real homeserver on loopback, with federation disabled.
type Dendrite struct {
	URL string // the same after each start

	t   testing.TB
	dir string
	cmd *exec.Cmd // nil while it is down
}

// StartDendrite starts a homeserver that stops when the test ends. make test-real-channels builds
// its binary.
func StartDendrite(t testing.TB) *Dendrite {
	t.Helper()
	d := &Dendrite{t: t, URL: "http://" + machinetest.Reserve(t), dir: t.TempDir()}
	seed := make([]byte, 32)
	rand.Read(seed) // it never returns an error
	key := "-----BEGIN MATRIX PRIVATE KEY-----\nKey-ID: ed25519:test\n\n" + base64.StdEncoding.EncodeToString(seed) +
		"\n-----END MATRIX PRIVATE KEY-----\n"
	for name, content := range map[string]string{"key.pem": key, "dendrite.yaml": d.config()} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(d.Kill)
	d.Up()
	return d
}

// config returns a configuration with one SQLite file per component.
func (d *Dendrite) config() string {
	base := func(name string) string { return fmt.Sprintf("{connection_string: \"file:%s.db\"}", name) }
	return fmt.Sprintf(`version: 2
global:
  server_name: test.example
  private_key: key.pem
  disable_federation: true
  cache: {max_size_estimated: 16mb, max_age: 1h}
  jetstream: {storage_path: "."}
client_api:
  registration_disabled: false
  guests_disabled: true
  rate_limiting: {enabled: false}
user_api:
  account_database: %s
  bcrypt_cost: 4
federation_api: {database: %s}
key_server: {database: %s}
media_api: {database: %s, base_path: media}
mscs: {database: %s}
relay_api: {database: %s}
room_server: {database: %s}
sync_api: {database: %s}
logging: [{type: std, level: warn}]
`, base("users"), base("federation"), base("keys"), base("media"), base("mscs"), base("relay"), base("rooms"),
		base("sync"))
}

// dendriteProgram returns the path of the program in the tree that the test runs in. The compiler does not know it: it
// leaves out the paths of the machine.
func dendriteProgram() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "bin/dendrite/dendrite")); err == nil {
			return filepath.Join(dir, "bin/dendrite/dendrite"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("bin/dendrite/dendrite does not exist: run make test-real-channels, which builds it")
		}
	}
}

// Up starts the homeserver and waits until it responds.
func (d *Dendrite) Up() {
	d.t.Helper()
	if d.cmd != nil {
		return
	}
	program, err := dendriteProgram()
	if err != nil {
		d.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close() // the process has its own descriptor
	cmd := exec.Command(program, "--really-enable-open-registration", "-config", "dendrite.yaml", "-http-bind-address",
		d.URL[len("http://"):], "-https-bind-address", "")
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // keeps ^C away from the process
	if err := cmd.Start(); err != nil {
		d.t.Fatalf("cannot start Dendrite; build it with make test-real-channels: %v", err)
	}
	d.cmd = cmd
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if a, err := http.Get(d.URL + "/_matrix/client/versions"); err == nil {
			_ = a.Body.Close() // only the status matters
			if a.StatusCode == http.StatusOK {
				return
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	d.t.Fatalf("Dendrite does not respond on %s: %s", d.URL, d.Log())
}

// Log returns the homeserver's log.
func (d *Dendrite) Log() string {
	raw, err := os.ReadFile(filepath.Join(d.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Kill kills the homeserver. Acknowledged events survive; transaction ids do not.
func (d *Dendrite) Kill() {
	if d.cmd == nil {
		return
	}
	if err := d.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.t.Error(err)
	}
	var exit *exec.ExitError
	if err := d.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		d.t.Error(err)
	}
	d.cmd = nil
}
