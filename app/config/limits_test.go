package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLimitsAreReadAndShownWithTheirUnits(t *testing.T) {
	c, err := parse("f.toml", []byte(`
		tls_cert = "cert.pem"
		tls_key = "key.pem"
		behind_proxy = true
		hosts = ["mail.example.org", "10.0.0.7", "::1"]
		origins = ["https://app.example.org", "http://localhost:5173"]
		[limits]
		body = "512KiB"
		header = "8192B"
		body_timeout = "90s"
		submits = 0
	`))
	if err != nil {
		t.Fatal(err)
	}
	want := defaultLimits()
	want.Body, want.Header, want.BodyTimeout, want.Submits = 512<<10, 8<<10, 90*1e9, 0
	if diff := cmp.Diff(want, c.Limits); diff != "" {
		t.Error(diff)
	}
	shown := strip(t, c)["limits"].(map[string]any)
	for key, want := range map[string]any{"body": "512KiB", "header": "8KiB", "frame": "4160KiB", "body_timeout": "1m30s",
		"streams": 256.0} {
		if shown[key] != want {
			t.Errorf("%s is shown as %v, want %v", key, shown[key], want)
		}
	}
	if diff := cmp.Diff([]string{"127.0.0.1", "mail.example.org", "10.0.0.7", "::1"}, c.AllHosts()); diff != "" ||
		!c.TLS() || !c.BehindProxy {
		t.Error(diff, c.TLS(), c.BehindProxy)
	}
}

func TestOnlyLoopbackAddressesAreNotExposed(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:8420": false, "127.1.2.3:0": false, "[::1]:0": false, "localhost:0": false, "[::ffff:127.0.0.1]:0": false,
		":8420": true, "0.0.0.0:8420": true, "[::]:8420": true, "10.0.0.1:0": true, "mail.example.org:443": true,
		"localhost.example.org:0": true,
		"[::ffff:10.0.0.1]:0":     true, "[fe80::1%eth0]:0": true,
	} {
		c := Default(nil)
		if err := c.SetListen(listen); err != nil {
			t.Fatal(err)
		}
		if got := c.Exposed(); got != want {
			t.Errorf("%s: exposed is %t, want %t", listen, got, want)
		}
	}
}

func TestAddressThatCommandsUse(t *testing.T) {
	for listen, want := range map[string]string{ // with TLS the same, but for the scheme
		"127.0.0.1:0": "http://127.0.0.1:1234", "localhost:0": "http://localhost:1234",
		":0": "http://127.0.0.1:1234", "0.0.0.0:0": "http://127.0.0.1:1234", "[::]:0": "http://[::1]:1234",
		"10.0.0.1:1234": "http://10.0.0.1:1234",
	} {
		if got := (&Config{Listen: listen}).URL("127.0.0.1:1234"); got != want {
			t.Errorf("listening on %s: %s, want %s", listen, got, want)
		}
		want = strings.Replace(want, "http", "https", 1)
		if got := (&Config{Listen: listen, TLSCert: "cert.pem"}).URL("127.0.0.1:1234"); got != want {
			t.Errorf("listening on %s: %s, want %s", listen, got, want)
		}
	}
}

const topLevel = "store, postgres, bus, node, server, token, retry, limits, agents, channels, tracker, boards, " +
	"targets, rules, schedules, prices, listen, default_agent, log_level, tls_cert, tls_key, behind_proxy, hosts, " +
	"origins, runs, lease, renew, sweep, " +
	"stop_grace, shutdown_grace, run_deadline, max_run_deadline, agent_grace, max_queued, isolation, retention, " +
	"audit_retention, stats_label, budget_zone, search"

func TestErrorsOfALimitNameTheKey(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"size without a unit": {
			"[limits]\nbody = 100", `f.toml:2: limits.body: 100 is not a size from 1KiB to 4MiB, such as "64KiB"`,
		},
		"size out of range": {
			"[limits]\nbody = \"1GiB\"", `f.toml:2: limits.body: "1GiB" is not a size from 1KiB to 4MiB, such as "64KiB"`,
		},
		"limit at the top level": {
			"submit = 5", `f.toml:1: submit: unknown key; known keys: ` + topLevel,
		},
		"limits as a number": {
			"limits = 1", `f.toml:1: limits: not a table; use [limits]`,
		},
		"certificate without a key": {
			"tls_cert = \"cert.pem\"", `f.toml:1: tls_cert: set tls_key too`,
		},
		"host with a port": {
			"hosts = [\"mail.example.org:443\"]",
			`f.toml:1: hosts: "mail.example.org:443" is not a name or address without port, such as "mail.example.org"`,
		},
		"origin with a path": {
			"origins = [\"https://example.org/\"]",
			`f.toml:1: origins: "https://example.org/" is not an origin, such as "https://app.example.org"`,
		},
		"origin null": {
			"origins = [\"null\"]", `f.toml:1: origins: "null" is not an origin, such as "https://app.example.org"`,
		},
		"a setting of several servers for one": {
			"[node]\nsticky_grace = \"1m\"", `f.toml:2: node.sticky_grace: has no effect; set kind = "postgres" in [store]`,
		},
		"flag as a text": {
			"behind_proxy = \"yes\"", `f.toml:1: behind_proxy: "yes" is not true or false`,
		},
	} {
		t.Run(name, func(t *testing.T) { refused(t, test.file, test.want) })
	}
}
