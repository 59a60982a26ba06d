// Package netguard prevents server-side request forgery: requests to URLs that others
// choose do not reach internal networks. It checks the resolved address at connect time,
// so a name that resolves differently each time (DNS rebinding) does not bypass it.
//
// The ranges come from the special-purpose address registries of IPv4 and IPv6
// (RFC 6890, https://www.iana.org/assignments/iana-ipv6-special-registry), and the
// metadata addresses of clouds.
package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"mailroom/internal/recovery"
)

// ErrRefused is the cause of a refused connection. Nothing was sent.
var ErrRefused = errors.New("the address is not allowed")

// Policy allows connections to public addresses and to those in Allow. The zero value
// allows public addresses only.
type Policy struct {
	Allow    []netip.Prefix
	Resolver *net.Resolver // nil: the default resolver
}

// Prefixes parses networks and single addresses, such as "10.0.0.0/8" and "::1".
func Prefixes(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, single := netip.ParseAddr(text); single == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() || p != p.Masked() {
			return nil, fmt.Errorf(`%q is neither an address nor a network such as "10.0.0.0/8"`, text)
		}
		all = append(all, p)
	}
	return all, nil
}

// Check returns an error that wraps [ErrRefused] if the policy does not allow a.
func (p Policy) Check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	for _, prefix := range p.Allow {
		if prefix.Contains(a) {
			return nil
		}
	}
	if why := special(a); why != "" {
		return fmt.Errorf("%w: %s is %s", ErrRefused, a, why)
	}
	return nil
}

// CheckHost checks the host of a URL without resolving it. So it checks only addresses and localhost; other names are
// checked at connect time.
func (p Policy) CheckHost(host string) error {
	a, err := netip.ParseAddr(host)
	switch {
	case err == nil:
		return p.Check(a)
	case !Local(host) || p.Check(netip.IPv6Loopback()) == nil:
		return nil
	}
	return p.Check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
}

// Local reports whether a host is localhost or a loopback address.
func Local(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	a, err := netip.ParseAddr(host)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || err == nil && a.Unmap().IsLoopback()
}

// URL parses an https URL, or an http one if insecure is set or the host is local. Its
// errors do not quote the URL, which may contain a secret.
func URL(text string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New(`it is not a URL such as "https://example.org/hook"`)
	case u.User != nil:
		return nil, errors.New("it contains a user name or password, which is not supported: remove it")
	case u.Fragment != "":
		return nil, errors.New("it has a fragment (#…), which is never sent: remove it")
	case u.Scheme == "http" && !insecure && !Local(u.Hostname()):
		return nil, errors.New("it is not https: the connection would not be encrypted")
	}
	return u, nil
}

// Dialer returns a dialer that connects only to TCP addresses that the policy allows.
func (p Policy) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, Resolver: p.Resolver, ControlContext: p.control}
}

// Transport returns a transport that connects only to addresses that the policy allows.
// It uses no proxy, because it could not check the proxy's connections. Callers must
// check redirects themselves.
func (p Policy) Transport() *http.Transport {
	return &http.Transport{
		DialContext:           p.Dialer().DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       20 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		// The default of 10 MiB is more than any response needs.
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// control checks each address before the dialer connects to it.
func (p Policy) control(_ context.Context, network, address string, _ syscall.RawConn) (err error) {
	defer recovery.Error(nil, "the check of an address", &err) // a transport dials on goroutines of its own
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s is not TCP", ErrRefused, network)
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q is not an address with a port", ErrRefused, address)
	}
	return p.Check(at.Addr())
}

// special describes an address that is not public, "" for a public one.
func special(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "not an address"
	case a.IsUnspecified():
		return "unspecified"
	case a.IsLoopback():
		return "a loopback address"
	case a.IsPrivate():
		return "in a private network"
	case a.IsMulticast():
		return "a multicast address"
	case a.IsLinkLocalUnicast():
		return "link-local, where clouds serve metadata"
	case a.Is4():
		return within(a, ranges4())
	}
	return special6(a)
}

// special6 does what special does, for IPv6 addresses. Public addresses are in 2000::/3; other addresses embed an IPv4
// address or are not routed.
func special6(a netip.Addr) string {
	raw := a.As16()
	inner := func(at int) string {
		if why := special(netip.AddrFrom4([4]byte(raw[at : at+4]))); why != "" {
			return "an embedded IPv4 address, which is " + why
		}
		return ""
	}
	if why := within(a, ranges6()); why != "" {
		return why
	}
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a): // NAT64
		return inner(12)
	case netip.MustParsePrefix("2002::/16").Contains(a): // 6to4
		return inner(2)
	case !netip.MustParsePrefix("2000::/3").Contains(a):
		return "not a public address"
	}
	return ""
}

// span is a range of addresses and its description.
type span struct{ prefix, what string }

func within(a netip.Addr, spans []span) string {
	for _, s := range spans {
		if netip.MustParsePrefix(s.prefix).Contains(a) {
			return s.what
		}
	}
	return ""
}

func ranges4() []span {
	return []span{
		{"0.0.0.0/8", "in \"this network\""},
		{"100.64.0.0/10", "in a carrier-grade NAT, where clouds serve metadata"},
		{"168.63.129.16/32", "a metadata address of a cloud"},
		{"192.0.0.0/24", "reserved for protocols"},
		{"192.0.2.0/24", "reserved for documentation"},
		{"192.88.99.0/24", "a 6to4 relay"},
		{"198.18.0.0/15", "reserved for benchmarks"},
		{"198.51.100.0/24", "reserved for documentation"},
		{"203.0.113.0/24", "reserved for documentation"},
		{"240.0.0.0/4", "reserved"},
	}
}

func ranges6() []span {
	return []span{
		{"64:ff9b:1::/48", "reserved for local IPv4 translation"},
		{"2001::/23", "reserved for protocols"}, // with Teredo
		{"2001:db8::/32", "reserved for documentation"},
		{"3fff::/20", "reserved for documentation"},
	}
}
