package netguard_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"mailroom/internal/machinetest"
	"mailroom/internal/netguard"
)

func TestOnlyPublicAddressesAreDialed(t *testing.T) {
	for address, want := range map[string]string{
		"93.184.216.34": "", "1.1.1.1": "", "172.15.0.1": "", "172.32.0.1": "", "100.63.255.255": "", "100.128.0.0": "",
		"2606:2800:220:1::1": "", "2a00:1450::1": "", "64:ff9b::5db8:d822": "", "2002:5db8:d822::1": "",
		"::ffff:93.184.216.34": "",

		"127.0.0.1": "loopback", "127.8.8.8": "loopback", "::1": "loopback",
		"0.0.0.0": "unspecified", "::": "unspecified", "0.1.2.3": "this network",
		"10.0.0.1": "private", "172.16.0.1": "private", "172.31.255.255": "private", "192.168.1.1": "private",
		"fd00::1": "private", "fc00::1": "private",
		"fd00:ec2::254":   "private", // metadata of a cloud
		"169.254.169.254": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local",
		"100.64.0.1": "NAT", "100.127.255.255": "NAT", "100.100.100.200": "NAT",
		"168.63.129.16": "metadata", "192.0.0.192": "protocols",
		"224.0.0.1": "multicast", "239.1.1.1": "multicast", "ff02::1": "multicast",
		"255.255.255.255": "reserved", "240.0.0.1": "reserved", "198.18.0.1": "benchmarks", "198.19.255.255": "benchmarks",
		"192.0.2.1": "documentation", "198.51.100.1": "documentation", "203.0.113.1": "documentation",
		"2001:db8::1": "documentation", "3fff::1": "documentation",
		"::ffff:127.0.0.1": "loopback", "::ffff:10.0.0.1": "private", "::ffff:169.254.169.254": "link-local",
		"64:ff9b::7f00:1": "loopback", "64:ff9b::a00:1": "private", "64:ff9b::a9fe:a9fe": "link-local",
		"64:ff9b:1::1":  "local IPv4 translation",
		"2002:7f00:1::": "loopback", "2002:a00:1::1": "private", "2002:c0a8:101::1": "private",
		"2001:0:4136:e378:8000:63bf:3fff:fdd2": "protocols", // Teredo
		"::127.0.0.1":                          "not a public address", "::a00:1": "not a public address",
		"fec0::1": "not a public address", "100::1": "not a public address", "4000::1": "not a public address",
	} {
		err := netguard.Policy{}.Check(netip.MustParseAddr(address))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", address, err)
		case want != "" && (!errors.Is(err, netguard.ErrRefused) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	if err := (netguard.Policy{}).Check(netip.Addr{}); !errors.Is(err, netguard.ErrRefused) {
		t.Errorf("invalid address: %v", err)
	}
}

func TestAllowedAddressesAreDialed(t *testing.T) {
	allow, err := netguard.Prefixes([]string{"10.1.0.0/16", "127.0.0.1", "fd00:1::/32", "64:ff9b::/96"})
	if err != nil {
		t.Fatal(err)
	}
	p := netguard.Policy{Allow: allow}
	for address, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false, "127.0.0.1": true, "127.0.0.2": false,
		"fd00:1::9": true, "fd00:2::9": false, "::1": false, "64:ff9b::a00:1": true, "8.8.8.8": true,
	} {
		if got := p.Check(netip.MustParseAddr(address)) == nil; got != want {
			t.Errorf("%s is allowed: %t", address, got)
		}
	}
	for host, want := range map[string]bool{
		"127.0.0.1": true, "localhost": true, "10.2.0.1": false, "::1": false, "fd00:1::1": true, "example.org": true,
		"8.8.8.8": true,
	} {
		if got := p.CheckHost(host) == nil; got != want {
			t.Errorf("host %s is allowed: %t", host, got)
		}
	}
	if err := (netguard.Policy{}).CheckHost("localhost"); !errors.Is(err, netguard.ErrRefused) {
		t.Errorf("localhost with an empty policy: %v", err)
	}
	for _, text := range []string{"10.0.0.1/8", "::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "fe80::1%eth0", "ten", "",
		"10.0.0.0/33"} {
		if _, err := netguard.Prefixes([]string{text}); err == nil {
			t.Errorf("ParsePrefix(%q) succeeded, want an error", text)
		}
	}
}

func TestOnlyHTTPSURLsAreAcceptedAndErrorsQuoteNoURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.org/hook?a=b": "", "https://example.org:8443": "", "http://127.0.0.1:9000/": "",
		"http://localhost/": "", "http://[::1]:1/": "",
		"http://example.org/": "not https", "ftp://example.org": "not a URL", "https://": "not a URL",
		"example.org": "not a URL", "https:example.org": "not a URL",
		"https://u:hush@example.org/": "password", "https://example.org/#hush": "fragment",
		"https://exa mple.org/hush": "not a URL", "": "not a URL",
	} {
		_, err := netguard.URL(text, false)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush")):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := netguard.URL("http://example.org/", true); err != nil {
		t.Errorf("insecure: %v", err)
	}
}

// server returns a server that counts its connections.
func server(t *testing.T) (url string, conns *atomic.Int64) {
	t.Helper()
	conns = &atomic.Int64{}
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, conns
}

func TestANameThatResolvesToAForbiddenAddressIsRefused(t *testing.T) {
	address, conns := server(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	p := netguard.Policy{Resolver: machinetest.Resolver(t, [4]byte{127, 0, 0, 1})}
	get := func(p netguard.Policy) error {
		tr := p.Transport()
		defer tr.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://innocent.example.org:"+port+"/", nil)
		if err != nil {
			return err
		}
		a, err := tr.RoundTrip(r)
		if err != nil {
			return err
		}
		return a.Body.Close()
	}
	if err := get(p); !errors.Is(err, netguard.ErrRefused) ||
		!strings.Contains(err.Error(), "127.0.0.1 is a loopback address") || conns.Load() != 0 {
		t.Errorf("%v, after %d connections", err, conns.Load())
	}
	p.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	if err := get(p); err != nil || conns.Load() != 1 {
		t.Errorf("allowed: %v, after %d connections", err, conns.Load())
	}
}

func TestADialerConnectsOnlyToAllowedAddresses(t *testing.T) {
	address, conns := server(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	p := netguard.Policy{Resolver: machinetest.Resolver(t, [4]byte{127, 0, 0, 1})}
	dial := func(p netguard.Policy, network string) error {
		c, err := p.Dialer().DialContext(t.Context(), network, "innocent.example.org:"+port)
		if err != nil {
			return err
		}
		return c.Close()
	}
	if err := dial(p, "tcp"); !errors.Is(err, netguard.ErrRefused) || conns.Load() != 0 {
		t.Errorf("%v, after %d connections", err, conns.Load())
	}
	p.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	if err := dial(p, "udp"); !errors.Is(err, netguard.ErrRefused) {
		t.Errorf("another protocol: %v", err)
	}
	if err := dial(p, "tcp"); err != nil {
		t.Errorf("allowed: %v", err)
	}
}

func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	if (netguard.Policy{}).Transport().Proxy != nil {
		t.Error("the transport uses a proxy")
	}
}

// The limit of response headers is far below the standard library's default.
func TestAResponseWithALongHeaderFails(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 16 {
			w.Header().Add("X-Long", strings.Repeat("x", 16<<10))
		}
	}))
	defer s.Close()
	client := &http.Client{Transport: netguard.Policy{Allow: []netip.Prefix{netip.MustParsePrefix(
		"127.0.0.0/8")}}.Transport()}
	defer client.CloseIdleConnections()
	a, err := client.Get(s.URL)
	if err == nil {
		_ = a.Body.Close() // an unexpected response
		t.Errorf("a header of 256 KiB is read: %s", a.Status)
	}
}
