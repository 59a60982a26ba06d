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

// Limits are the [limits] table: what one connection or one token may use. Sizes
// are bytes.
type Limits struct {
	Connections   int // open at a time
	PerAddress    int // of them from one address
	Bodies        int // of all requests under way
	Body          int
	Header        int
	Frame         int // of a WebSocket
	HeaderTimeout time.Duration
	BodyTimeout   time.Duration
	WriteTimeout  time.Duration
	IdleTimeout   time.Duration
	Streams       int // streams and waits of a token at a time
	Unread        int // by readers of streams and sockets
	TokenUnread   int // of them by those of a token
	Submits       int // of a token in a second; 0: any number
	SubmitBurst   int // of a token at once
	Threads       int // of the name of a token; 0: any number, as the next three
	Stored        int // bytes of their logs
	Notifications int // that it sent and that inboxes have not read
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
		{"connections", "Connections open at a time.", number(&l.Connections, 16, 1_000_000)},
		{"connections_per_address", "Connections of one address at a time; loopback and a proxy have no such limit.", number(&l.PerAddress, 1, 1_000_000)},
		{"bodies", "Bodies of all requests under way together, of which one token may have a quarter.", size(&l.Bodies, 16<<20, 1<<30)},
		{"body", "Largest body of a request.", size(&l.Body, 1<<10, 4<<20)},
		{"header", "Largest header of a request.", size(&l.Header, 4<<10, 1<<20)},
		{"frame", "Largest frame from a WebSocket.", size(&l.Frame, 1<<10, 8<<20)},
		{"header_timeout", "Longest time to send a request's header, and to begin TLS.", duration(&l.HeaderTimeout, 100*time.Millisecond, 10*time.Minute)},
		{"body_timeout", "Longest time to send a request's body.", duration(&l.BodyTimeout, 100*time.Millisecond, time.Hour)},
		{"write_timeout", "Longest time to take a piece of an answer or of a stream.", duration(&l.WriteTimeout, 100*time.Millisecond, time.Hour)},
		{"idle_timeout", "How long a connection is kept between two requests.", duration(&l.IdleTimeout, 100*time.Millisecond, 24*time.Hour)},
		{"streams", "Streams and waits of one token at a time.", number(&l.Streams, 1, 100_000)},
		{"unread", "What readers of streams and WebSockets have not taken yet, together.", size(&l.Unread, 1<<20, 16<<30)},
		{"unread_per_token", "Of it what those of one token have not taken.", size(&l.TokenUnread, 256<<10, 16<<30)},
		{"submits", "Submits and other writes of one token in a second, on average; 0 is any number.", number(&l.Submits, 0, 1_000_000)},
		{"submit_burst", "Submits and other writes of one token at once.", number(&l.SubmitBurst, 1, 10_000_000)},
		{"threads", "Threads of one token; 0 is any number.", number(&l.Threads, 0, 1_000_000_000)},
		{"stored", "Size of the logs of one token's threads; 0B is any.", size(&l.Stored, 0, 1<<50)},
		{"notifications", "Notifications that one token sent and that inboxes have not read, each counted once for each inbox; 0 is any number.", number(&l.Notifications, 0, 1_000_000_000)},
		{"workers", "Workers of one token that are alive; 0 is any number.", number(&l.Workers, 0, 1_000_000)},
	}
}

// sizeUnits of a size, the largest first.
func sizeUnits() []sizeUnit {
	return []sizeUnit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

type sizeUnit struct {
	name  string
	bytes int
}

// size is a number of bytes with its unit.
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

// origins are what a browser sends as the origin of a page.
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

// Exposed tells whether other machines could reach the address that is listened
// on. A name counts as exposed, other than localhost: what it stands for can change.
func (c *Config) Exposed() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || host == "localhost" {
		return err != nil
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}

// TLS tells whether the server speaks https.
func (c *Config) TLS() bool { return c.TLSCert != "" }

// AllHosts are the names that requests may be addressed to, beside the loopback ones.
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
