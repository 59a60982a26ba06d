// Package vet keeps requests to addresses that others may have a say in out of the
// networks behind this machine. What is looked at is the address that is connected to,
// after names were resolved, so a name that is answered differently each time is no way
// around it.
//
// The ranges are those of the registries of special-purpose addresses of IPv4 and IPv6
// (RFC 6890, https://www.iana.org/assignments/iana-ipv6-special-registry), and the
// addresses at which clouds tell a machine its secrets.
package vet

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

// ErrRefused says that an address is none to connect to. Nothing was sent there.
var ErrRefused = errors.New("the address is refused")

// Policy says which addresses may be connected to: public ones, and those that it
// allows. The zero value allows no others.
type Policy struct {
	Allow    []netip.Prefix
	Resolver *net.Resolver // nil: the usual one
}

// Prefixes reads networks and single addresses, such as "10.0.0.0/8" and "::1".
func Prefixes(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, single := netip.ParseAddr(text); single == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() || p != p.Masked() {
			return nil, fmt.Errorf(`%q is no network such as "10.0.0.0/8", and no address`, text)
		}
		all = append(all, p)
	}
	return all, nil
}

// Check returns an error with [ErrRefused] in its tree, unless a may be connected to.
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

// CheckHost checks the host of an address, if it is no name or that of this machine:
// what other names stand for is known when they are connected to.
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

// Local reports whether a host is this machine by its very name.
func Local(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	a, err := netip.ParseAddr(host)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || err == nil && a.Unmap().IsLoopback()
}

// URL reads an address of https, or of http if insecure allows that or it is of this
// machine. Its errors do not tell what it was: there may be a secret in it.
func URL(text string, insecure bool) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New(`it is no address such as "https://example.org/hook"`)
	case u.User != nil:
		return nil, errors.New("it has a name or a password in it, which is of no use")
	case u.Fragment != "":
		return nil, errors.New("it has a fragment (#…), which is never sent")
	case u.Scheme == "http" && !insecure && !Local(u.Hostname()):
		return nil, errors.New("it is not https: nothing would encrypt what goes there")
	}
	return u, nil
}

// Transport makes requests to addresses that the policy lets through, and to them only:
// it uses no proxy, of which it could not see what that connects to. Who uses it must
// not follow redirects without looking at them.
func (p Policy) Transport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Resolver: p.Resolver, ControlContext: p.control}
	return &http.Transport{
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       20 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		// No answer needs more. The default is 10 MiB for each request under way.
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// control is asked about each address before it is connected to.
func (p Policy) control(_ context.Context, network, address string, _ syscall.RawConn) (err error) {
	defer recovery.Error(nil, "the check of an address", &err) // a transport dials on goroutines of its own
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s is not TCP", ErrRefused, network)
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q is no address with a port", ErrRefused, address)
	}
	return p.Check(at.Addr())
}

// special says what is special about an address; "" of a public one.
func special(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "none"
	case a.IsUnspecified():
		return "unspecified"
	case a.IsLoopback():
		return "of this machine"
	case a.IsPrivate():
		return "of a private network"
	case a.IsMulticast():
		return "of a group (multicast)"
	case a.IsLinkLocalUnicast():
		return "of the local link, where clouds keep their metadata"
	case a.Is4():
		return within(a, ranges4())
	}
	return special6(a)
}

// special6 is about IPv6. Public addresses are in 2000::/3 so far; others only lead to
// one of IPv4 that is in them, or nowhere.
func special6(a netip.Addr) string {
	raw := a.As16()
	inner := func(at int) string {
		if why := special(netip.AddrFrom4([4]byte(raw[at : at+4]))); why != "" {
			return "a way to an IPv4 address, which is " + why
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
		return "no public address"
	}
	return ""
}

// span is a range of addresses.
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
		{"0.0.0.0/8", "of this network"},
		{"100.64.0.0/10", "behind a provider's NAT, where clouds keep their metadata too"},
		{"168.63.129.16/32", "where a cloud keeps its metadata"},
		{"192.0.0.0/24", "for protocols only"},
		{"192.0.2.0/24", "for documentation"},
		{"192.88.99.0/24", "a relay of 6to4"},
		{"198.18.0.0/15", "for measuring networks"},
		{"198.51.100.0/24", "for documentation"},
		{"203.0.113.0/24", "for documentation"},
		{"240.0.0.0/4", "reserved"},
	}
}

func ranges6() []span {
	return []span{
		{"64:ff9b:1::/48", "for local translation to IPv4"},
		{"2001::/23", "for protocols only"}, // Teredo too
		{"2001:db8::/32", "for documentation"},
		{"3fff::/20", "for documentation"},
	}
}
