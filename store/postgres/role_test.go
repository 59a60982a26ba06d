package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom"
	"mailroom/internal/pgtest"
	"mailroom/store"
)

// A server, a database or a role that may lose commits is refused. The password of the role and the file
// with the address change while the store is open.
func TestTheRoleIsCheckedAndItsPasswordIsReadAtEachConnection(t *testing.T) {
	t.Parallel()
	c := pgtest.Durable(t)
	runSQL(t, c, "CREATE ROLE app LOGIN", "GRANT CREATE ON DATABASE postgres TO app")
	t.Run("unsafe settings", func(t *testing.T) { testUnsafeSettings(t, c) })
	t.Run("another password", func(t *testing.T) { testRotatedPassword(t, c) })
}

func testUnsafeSettings(t *testing.T, c *pgtest.Cluster) {
	o := Options{URL: strings.Replace(c.URL(), "user=pgtest", "user=app", 1)}
	refused := func(when string, o Options, want string) {
		t.Helper()
		s, err := Open(t.Context(), o)
		if err == nil {
			closeStore(t, s)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", when, err, want)
		}
	}
	sync := o
	sync.Durable = DurableSync
	refused("without a standby", sync, "set synchronous_standby_names")
	runSQL(t, c, "ALTER ROLE app SET synchronous_commit = off")
	refused("a role that does not wait for the disk", o, "synchronous_commit is off")
	runSQL(t, c, "ALTER ROLE app SET synchronous_commit = local")
	s := openAt(t, o) // the default is for a commit on the primary alone
	var commits string
	if err := s.writer.conn.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&commits); err != nil ||
		commits != "on" {
		t.Errorf("the commits of a role with local: got %q and error %v, want on", commits, err)
	}
	runSQL(t, c, "ALTER ROLE app SET synchronous_commit = off") // as another primary may have it
	if _, err := c.Terminate(t.Context(), "mailroom"); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 2 { // the first one finds that its connection is lost
		err = s.Update(t.Context(), func(tx store.Tx) error {
			return tx.Write(&store.Changes{Workers: []*store.Worker{{ID: "w"}}})
		})
	}
	if mailroom.CodeOf(err) != mailroom.CodeUnavailable ||
		!strings.Contains(fmt.Sprint(errors.Unwrap(err)), "synchronous_commit is off") {
		t.Errorf("an update over a new connection: %v (%v), want a refusal", err, errors.Unwrap(err))
	}
	runSQL(t, c, "ALTER ROLE app RESET synchronous_commit",
		"ALTER DATABASE postgres SET synchronous_commit = remote_write",
		"ALTER SYSTEM SET synchronous_standby_names = 'gone'", "SELECT pg_reload_conf()")
	await(t, c, "SELECT 1 WHERE current_setting('synchronous_standby_names') = 'gone'")
	refused("a database that does not wait for the standby's disk", sync, "synchronous_commit is remote_write")
	runSQL(t, c, "ALTER SYSTEM RESET synchronous_standby_names", "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
	await(t, c, "SELECT 1 WHERE current_setting('fsync') = 'off' AND current_setting('synchronous_standby_names') = ''")
	refused("a server without fsync", o, "fsync is off")
	runSQL(t, c, "ALTER SYSTEM SET fsync = on", "ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()")
	await(t, c, "SELECT 1 WHERE current_setting('full_page_writes') = 'off'")
	refused("a server without full page writes", o, "full_page_writes is off")
	runSQL(t, c, "ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")
	await(t, c, "SELECT 1 WHERE current_setting('full_page_writes') = 'on'")
}

func testRotatedPassword(t *testing.T, c *pgtest.Cluster) {
	file, err := c.Select(t.Context(), "SHOW hba_file")
	if err != nil {
		t.Fatal(err)
	}
	runSQL(t, c, "COPY (VALUES ('local all pgtest trust'), ('local all all scram-sha-256')) TO '"+file[0][0]+"'",
		"SELECT pg_reload_conf()")
	o := Options{Schema: "rotated", URLFile: filepath.Join(t.TempDir(), "address")}
	rotate := func(password string) {
		t.Helper()
		address := strings.Replace(c.URL(), "user=pgtest", "user=app password="+password, 1)
		if err := os.WriteFile(o.URLFile, []byte(address), 0o600); err != nil {
			t.Fatal(err)
		}
		runSQL(t, c, fmt.Sprintf("ALTER ROLE app PASSWORD '%s'", password))
		if _, err := c.Terminate(t.Context(), "mailroom"); err != nil {
			t.Fatal(err)
		}
	}
	rotate("first")
	s := openAt(t, o)
	calls := 0
	for n, password := range []string{"second", "third"} {
		rotate(password)
		if err := count(t, s, "t", &calls); err != nil {
			t.Errorf("with another password: %v", err)
		}
		if got := counted(t, s, "t"); got != int64(n+1) {
			t.Errorf("got count %d, want %d", got, n+1)
		}
	}
}
