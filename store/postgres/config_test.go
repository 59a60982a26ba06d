package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestConnectionsToOtherMachinesAreVerified(t *testing.T) {
	for _, c := range []struct {
		name, url  string
		tls, named bool // TLS is required, and the certificate must have the host's name
	}{
		{"a socket", "host=/run/postgresql dbname=m", false, false},
		{"loopback", "postgres://u@127.0.0.1/m?sslmode=disable", false, false},
		{"another machine", "postgres://u:secret@db.example.com/m", true, true},
		{"another machine, as pairs", "host=db.example.com user=u password=secret", true, true},
		{"one of several machines", "postgres://u@127.0.0.1,db.example.com/m", true, true},
		{"several machines with ports", "postgresql://u:p@a.example.com:5432,b.example.com:5433/m?target_session_attrs=read-write", true, true},
		{"several machines, as pairs", "host=a.example.com,b.example.com port=5432,5433", true, true},
		{"a socket and a machine", "postgres://u@%2Frun%2Fpostgresql,db.example.com/m", true, true},
		{"several sockets", "host=/run/a,/run/b dbname=m", false, false},
		{"a password with a setting", "host=db.example.com password='x sslmode=disable'", true, true},
		{"a password with a question mark", "postgres://u:x?sslmode=disable@db.example.com/m", true, true},
		{"TLS without a mode", "postgres://u@db.example.com/m?ssl=true", true, true},
		{"an empty query", "postgres://u@db.example.com/m?", true, true},
		{"set otherwise", "postgres://u@db.example.com/m?sslmode=disable", false, false},
		{"set otherwise, as pairs", "host=db.example.com sslmode=require", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			if c.url == "host=/run/postgresql dbname=m" && config.TLSConfig != nil && len(config.Fallbacks) == 0 {
				t.Error("a socket requires TLS")
			}
			if !c.tls {
				return
			}
			if !strings.HasPrefix(config.Host, "/") && (config.TLSConfig == nil ||
				c.named == config.TLSConfig.InsecureSkipVerify) {
				t.Errorf("got TLS configuration %+v", config.TLSConfig)
			}
			for _, f := range config.Fallbacks {
				if f.TLSConfig == nil && !strings.HasPrefix(f.Host, "/") {
					t.Errorf("falls back to a connection to %s without TLS", f.Host)
				}
			}
		})
	}
}

func TestAnErrorDoesNotShowTheConnectionString(t *testing.T) {
	for _, url := range []string{"postgres://u:secret@db:port/m", "host=db port=x password=secret",
		"postgres://u:secret@%zz/m"} {
		if _, err := parse(url); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got error %v, want one without the password", url, err)
		}
	}
}

// A host that does not answer must leave time for the others within the timeout.
func TestSeveralHostsShareTheTimeToConnect(t *testing.T) {
	for _, c := range []struct {
		url  string
		want time.Duration
	}{
		{"postgres://u@db.example.com/m", 3 * time.Second},
		{"host=/run/a,/run/b", 1500 * time.Millisecond},
		{"postgres://u@a.example.com,b.example.com,b.example.com:5433/m?sslmode=prefer", time.Second},
	} {
		config, err := (Options{URL: c.url}).withDefaults().config()
		if err != nil || config.ConnectTimeout != c.want {
			t.Errorf("%s: got %+v and error %v, want a timeout of %s", c.url, config, err, c.want)
		}
	}
}

func TestTheConnectionStringIsReadAtEachConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "url")
	o := Options{URLFile: path}.withDefaults()
	for _, host := range []string{"/first", "/second"} {
		if err := os.WriteFile(path, []byte("host="+host+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := o.config()
		if err != nil || config.Host != host {
			t.Errorf("got configuration %+v and error %v, want host %s", config, err, host)
		}
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"no connection":        {},
		"two connections":      {URL: "host=/a", URLFile: "b"},
		"a schema with quotes": {URL: "host=/a", Schema: `a"; DROP`},
		"a schema in capitals": {URL: "host=/a", Schema: "Mail"},
		"unknown durability":   {URL: "host=/a", Durable: "maybe"},
	} {
		if err := o.withDefaults().check(); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if err := (Options{URL: "host=/a"}).withDefaults().check(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestServersThatMayLoseCommitsAreRefused(t *testing.T) {
	safe := map[string]string{"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on",
		"synchronous_standby_names": ""}
	with := func(name, value string) map[string]string {
		changed := map[string]string{}
		for n, v := range safe {
			changed[n] = v
		}
		changed[name] = value
		return changed
	}
	for _, c := range []struct {
		name     string
		durable  Durability
		settings map[string]string
		refused  bool
	}{
		{"safe", DurablePrimary, safe, false},
		{"without fsync", DurableStorage, with("fsync", "off"), true},
		{"without full page writes", DurablePrimary, with("full_page_writes", "off"), true},
		{"without waiting for the disk", DurablePrimary, with("synchronous_commit", "off"), true},
		{"local", DurablePrimary, with("synchronous_commit", "local"), false},
		{"sync without a standby", DurableSync, safe, true},
		{"sync", DurableSync, with("synchronous_standby_names", "*"), false},
	} {
		err := Options{Durable: c.durable}.checkSettings(c.settings)
		if (err != nil) != c.refused {
			t.Errorf("%s: got error %v, refused %v expected", c.name, err, c.refused)
		}
	}
	weak := with("synchronous_standby_names", "*")
	for _, level := range []string{"remote_write", "local"} { // in the standby's memory, or not there at all
		weak["synchronous_commit"] = level
		if err := (Options{Durable: DurableSync}).checkSettings(weak); err == nil {
			t.Errorf("sync with %s: got no error", level)
		}
	}
}
