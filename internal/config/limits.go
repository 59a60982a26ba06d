package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Limits is the [limits] table: limits of connections and tokens. Sizes are in bytes.
type Limits struct {
	Connections   int // open at the same time
	PerAddress    int // connections from one address
	Bodies        int // of all requests in progress together
	Body          int
	Header        int
	Frame         int // of a WebSocket
	HeaderTimeout time.Duration
	BodyTimeout   time.Duration
	WriteTimeout  time.Duration
	IdleTimeout   time.Duration
	Streams       int // concurrent streams and waits of a token
	Unread        int // buffered for all readers of streams and WebSockets
	TokenUnread   int // buffered for the readers of one token
	Submits       int // of a token per second; 0: unlimited
	SubmitBurst   int // burst of a token
	Threads       int // of one token; 0: unlimited, as for the next three
	Stored        int // size of their logs
	Notifications int // sent and still unread
	Workers       int // alive at a time
}

func defaultLimits() Limits {
	return Limits{
		Connections: 4096, PerAddress: 512, Bodies: 64 << 20,
		Body: 4 << 20, Header: 64 << 10, Frame: 4<<20 + 64<<10,
		HeaderTimeout: 5 * time.Second, BodyTimeout: 30 * time.Second,
		WriteTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute,
		Streams: 256, Unread: 64 << 20, TokenUnread: 16 << 20, Submits: 1000, SubmitBurst: 2000,
		Threads: 100_000, Stored: 10 << 30, Notifications: 1_000_000, Workers: 100,
	}
}

func (l *Limits) settings() []setting {
	return []setting{
		{"connections", "Maximum number of open connections.", number(&l.Connections, 16, 1_000_000)},
		{"connections_per_address", "Maximum number of open connections from one address; loopback addresses and a proxy are exempt.", number(&l.PerAddress, 1, 1_000_000)},
		{"bodies", "Maximum size of the bodies of all requests in progress; one token may use a quarter of it.", size(&l.Bodies, 16<<20, 1<<30)},
		{"body", "Maximum size of a request body.", size(&l.Body, 1<<10, 4<<20)},
		{"header", "Maximum size of a request header.", size(&l.Header, 4<<10, 1<<20)},
		{"frame", "Maximum size of a WebSocket frame.", size(&l.Frame, 1<<10, 8<<20)},
		{"header_timeout", "Maximum time to receive a request header, and for the TLS handshake.", duration(&l.HeaderTimeout, 100*time.Millisecond, 10*time.Minute)},
		{"body_timeout", "Maximum time to receive a request body.", duration(&l.BodyTimeout, 100*time.Millisecond, time.Hour)},
		{"write_timeout", "Maximum time to write a part of a response or a stream.", duration(&l.WriteTimeout, 100*time.Millisecond, time.Hour)},
		{"idle_timeout", "How long an idle connection stays open.", duration(&l.IdleTimeout, 100*time.Millisecond, 24*time.Hour)},
		{"streams", "Maximum number of concurrent streams and waits of a token.", number(&l.Streams, 1, 100_000)},
		{"unread", "Maximum data buffered for all readers of streams and WebSockets.", size(&l.Unread, 1<<20, 16<<30)},
		{"unread_per_token", "Maximum data buffered for the readers of one token.", size(&l.TokenUnread, 256<<10, 16<<30)},
		{"submits", "Maximum average number of writes (such as submits) of a token per second; 0 is unlimited.", number(&l.Submits, 0, 1_000_000)},
		{"submit_burst", "Maximum burst of writes of a token.", number(&l.SubmitBurst, 1, 10_000_000)},
		{"threads", "Maximum number of threads of a token; 0 is unlimited.", number(&l.Threads, 0, 1_000_000_000)},
		{"stored", "Maximum size of the logs of a token's threads; 0B is unlimited.", size(&l.Stored, 0, 1<<50)},
		{"notifications", "Maximum number of unread notifications that a token sent, counted per inbox; 0 is unlimited.", number(&l.Notifications, 0, 1_000_000_000)},
		{"workers", "Maximum number of live workers of a token; 0 is unlimited.", number(&l.Workers, 0, 1_000_000)},
	}
}

// sizeUnits returns the units of sizes, largest first.
func sizeUnits() []sizeUnit {
	return []sizeUnit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

type sizeUnit struct {
	name  string
	bytes int
}

// size is a number of bytes, written with a unit.
func size(p *int, least, most int) value {
	allowed := fmt.Sprintf("a size from %s to %s, such as %q", formatSize(least), formatSize(most), "64KiB")
	return value{
		set: func(v any) error {
			s, ok := v.(string)
			n, known := parseSize(s)
			if !ok || !known || n < least || n > most {
				return invalidValue(v, allowed)
			}
			*p = n
			return nil
		},
		get: func() any { return formatSize(*p) },
	}
}

func parseSize(s string) (n int, ok bool) {
	for _, u := range sizeUnits() {
		if digits, found := strings.CutSuffix(s, u.name); found {
			n, err := strconv.ParseUint(digits, 10, 63)
			return int(n) * u.bytes, err == nil && n <= 1<<50/uint64(u.bytes)
		}
	}
	return 0, false
}

func formatSize(n int) string {
	if n == 0 {
		return "0B"
	}
	for _, u := range sizeUnits() {
		if n%u.bytes == 0 {
			return strconv.Itoa(n/u.bytes) + u.name
		}
	}
	return strconv.Itoa(n) + "B"
}

// hosts are names or addresses without a port.
func hosts(p *[]string) value {
	return eachOf(p, `a name or address without port, such as "mail.example.org"`, func(s string) bool {
		if _, err := netip.ParseAddr(s); err == nil {
			return true
		}
		return s != "" && len(s) <= 253 && s == strings.Trim(s, ".-") && !strings.ContainsFunc(s, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' && r != '-'
		})
	})
}

// origins are values of a browser's Origin header.
func origins(p *[]string) value {
	return eachOf(p, `an origin, such as "https://app.example.org"`, func(s string) bool {
		u, err := url.Parse(s)
		return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && s == u.Scheme+"://"+u.Host
	})
}

func eachOf(p *[]string, allowed string, good func(string) bool) value {
	v := list(p)
	set := v.set
	v.set = func(given any) error {
		before := *p
		if err := set(given); err != nil {
			return err
		}
		for _, s := range *p {
			if !good(s) {
				*p = before
				return invalidValue(s, allowed)
			}
		}
		return nil
	}
	return v
}

func flag(p *bool) value {
	return value{
		set: func(v any) error {
			given, ok := v.(bool)
			if !ok {
				return invalidValue(v, "true or false")
			}
			*p = given
			return nil
		},
		get: func() any { return *p },
	}
}

// Exposed reports whether other machines can reach the address that the server listens on.
// Every name except localhost counts as exposed, because its address can change.
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
