package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"mailroom/internal/setting"
)

// Limits is the [limits] table: limits of connections and tokens. Sizes are in bytes.
type Limits struct {
	Connections   int // open at the same time
	PerAddress    int // connections from one address
	Bodies        int // bytes of the bodies of all requests in progress together
	Body          int
	Header        int
	Frame         int // bytes of a frame of a WebSocket
	HeaderTimeout time.Duration
	BodyTimeout   time.Duration
	WriteTimeout  time.Duration
	IdleTimeout   time.Duration
	Streams       int // concurrent streams and waits of a token
	Unread        int // buffered for all readers of streams and WebSockets
	TokenUnread   int // buffered for the readers of one token
	Submits       int // submits of a token per second; 0: unlimited
	SubmitBurst   int // burst of a token
	Threads       int // threads of one token; 0: unlimited, as for the next three fields
	Stored        int // size of their logs
	Notifications int // sent and still unread
	Workers       int // alive at a time
	Starts        starts
}

func defaultLimits() Limits {
	return Limits{
		Connections: 4096, PerAddress: 512, Bodies: 64 << 20,
		Body: 4 << 20, Header: 64 << 10, Frame: 4<<20 + 64<<10,
		HeaderTimeout: 5 * time.Second, BodyTimeout: 30 * time.Second,
		WriteTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute,
		Streams: 256, Unread: 64 << 20, TokenUnread: 16 << 20, Submits: 1000, SubmitBurst: 2000,
		Threads: 100_000, Stored: 10 << 30, Notifications: 1_000_000, Workers: 100,
		Starts: starts{Burst: 1},
	}
}

func (l *Limits) settings() []setting.Setting {
	return append([]setting.Setting{
		setting.New("connections", "Maximum number of open connections.", setting.Int(&l.Connections, 16, 1_000_000)),
		setting.New("connections_per_address",
			"Maximum number of open connections from one address; loopback addresses and a proxy are exempt.",
			setting.Int(&l.PerAddress, 1, 1_000_000)),
		setting.New("bodies", "Maximum size of the bodies of all requests in progress; one token may use a quarter of it.",
			setting.Size(&l.Bodies, 16<<20, 1<<30)),
		setting.New("body", "Maximum size of a request body.", setting.Size(&l.Body, 1<<10, 4<<20)),
		setting.New("header", "Maximum size of a request header.", setting.Size(&l.Header, 4<<10, 1<<20)),
		setting.New("frame", "Maximum size of a WebSocket frame.", setting.Size(&l.Frame, 1<<10, 8<<20)),
		setting.New("header_timeout", "Maximum time to receive a request header, and for the TLS handshake.",
			setting.Duration(&l.HeaderTimeout, 100*time.Millisecond, 10*time.Minute)),
		setting.New("body_timeout", "Maximum time to receive a request body.",
			setting.Duration(&l.BodyTimeout, 100*time.Millisecond, time.Hour)),
		setting.New("write_timeout", "Maximum time to write a part of a response or a stream.",
			setting.Duration(&l.WriteTimeout, 100*time.Millisecond, time.Hour)),
		setting.New("idle_timeout", "How long an idle connection stays open.",
			setting.Duration(&l.IdleTimeout, 100*time.Millisecond, 24*time.Hour)),
		setting.New("streams", "Maximum number of concurrent streams and waits of a token.",
			setting.Int(&l.Streams, 1, 100_000)),
		setting.New("unread", "Maximum data buffered for all readers of streams and WebSockets.",
			setting.Size(&l.Unread, 1<<20, 16<<30)),
		setting.New("unread_per_token", "Maximum data buffered for the readers of one token.",
			setting.Size(&l.TokenUnread, 256<<10, 16<<30)),
		setting.New("submits", "Maximum average number of writes (such as submits) of a token per second; 0 is unlimited.",
			setting.Int(&l.Submits, 0, 1_000_000)),
		setting.New("submit_burst", "Maximum burst of writes of a token.", setting.Int(&l.SubmitBurst, 1, 10_000_000)),
		setting.New("threads", "Maximum number of threads of a token; 0 is unlimited.",
			setting.Int(&l.Threads, 0, 1_000_000_000)),
		setting.New("stored", "Maximum size of the logs of a token's threads; 0B is unlimited.",
			setting.Size(&l.Stored, 0, 1<<50)),
		setting.New("notifications",
			"Maximum number of unread notifications that a token sent, counted per inbox; 0 is unlimited.",
			setting.Int(&l.Notifications, 0, 1_000_000_000)),
		setting.New("workers", "Maximum number of live workers of a token; 0 is unlimited.",
			setting.Int(&l.Workers, 0, 1_000_000)),
	}, ownerStarts(&l.Starts)...)
}

// hosts is the value of a setting that lists host names or addresses without a port.
func hosts(p *[]string) setting.Value {
	return setting.Each(p, `a name or address without port, such as "mail.example.org"`, func(s string) bool {
		if _, err := netip.ParseAddr(s); err == nil {
			return true
		}
		return s != "" && len(s) <= 253 && s == strings.Trim(s, ".-") && !strings.ContainsFunc(s, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' && r != '-'
		})
	})
}

// origins is the value of a setting that lists values of the header Origin of browsers.
func origins(p *[]string) setting.Value {
	return setting.Each(p, `an origin, such as "https://app.example.org"`, func(s string) bool {
		u, err := url.Parse(s)
		return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && s == u.Scheme+"://"+u.Host
	})
}

// Exposed reports whether other machines can reach the address that the server listens on. Every name except
// localhost counts as exposed, because the address of a name can change.
func (c *Config) Exposed() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || host == "localhost" {
		return err != nil
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}

// TLS reports whether the server uses https.
func (c *Config) TLS() bool { return c.TLSCert != "" }

// URL returns the URL of the server if it listens on the address at. For a wildcard address it returns the loopback
// address, for clients on this machine.
func (c *Config) URL(at string) string {
	scheme := "http://"
	if c.TLS() {
		scheme = "https://"
	}
	host, _, err := net.SplitHostPort(c.Listen)
	_, port, portErr := net.SplitHostPort(at)
	if err != nil || portErr != nil {
		return scheme + at
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return scheme + net.JoinHostPort(host, port)
}

// AllHosts returns the host names that requests may use, beside the loopback names.
func (c *Config) AllHosts() []string {
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		return c.Hosts
	case host == "":
		host = "0.0.0.0"
	}
	return append([]string{host}, slices.Clone(c.Hosts)...)
}
