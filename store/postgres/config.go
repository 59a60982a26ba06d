package postgres

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/internal/lazyregexp"
)

// Options configure a store. Of the connection, one of URL and URLFile is required; the zero values
// of the others suit most uses.
type Options struct {
	// URL is a connection string of PostgreSQL, a URL or key=value pairs. Of several hosts, the first
	// one that accepts writes is used. Unless it names an sslmode, connections to other machines
	// require a certificate that is valid for the host.
	URL string
	// URLFile is a file with the connection string, which is read at each connection, so that a
	// secret can be rotated.
	URLFile string
	// Schema has the tables; it is created if necessary. "" selects mailroom.
	Schema string
	// Node names the rows of this handle that sum up others, so two handles that write at the same
	// time must have different names.
	Node string
	// Readers is the number of concurrent Views; 0 selects 8. Further Views wait.
	Readers int
	// ConnectTimeout bounds connecting; 0 selects 3 s. Several hosts share it in equal parts, so that
	// one that does not answer leaves time for the others.
	ConnectTimeout time.Duration
	// LockTimeout bounds the wait for the locks of another handle; 0 selects 1 s.
	LockTimeout time.Duration
	// StatementTimeout bounds a statement; 0 selects 30 s.
	StatementTimeout time.Duration
	// IdleInTransaction is when the server ends a transaction whose handle is silent, for example
	// because its process is paused; 0 selects 1.5 s. Other handles wait that long for its rows.
	IdleInTransaction time.Duration
	// Durable selects the required settings of the server; "" selects DurablePrimary.
	Durable Durability
	// MustExist refuses a database without tables and tables of another version, instead of
	// creating or migrating them.
	MustExist bool
	// AllowUnsafe accepts servers that may lose commits. It is for tests.
	AllowUnsafe bool

	code *code // tables that the program pretends to know, in tests; nil: the tables that it knows
}

func (o Options) withDefaults() Options {
	if o.Schema == "" {
		o.Schema = "mailroom"
	}
	if o.Readers <= 0 {
		o.Readers = 8
	}
	for _, d := range []struct {
		value   *time.Duration
		initial time.Duration
	}{
		{&o.ConnectTimeout, 3 * time.Second}, {&o.LockTimeout, time.Second},
		{&o.StatementTimeout, 30 * time.Second}, {&o.IdleInTransaction, 1500 * time.Millisecond},
	} {
		if *d.value <= 0 {
			*d.value = d.initial
		}
	}
	if o.Durable == "" {
		o.Durable = DurablePrimary
	}
	return o
}

var schemaName = lazyregexp.New(`^[a-z_][a-z0-9_]{0,62}$`)

// check validates the options whose values reach SQL text or select a rule.
func (o Options) check() error {
	switch {
	case !schemaName().MatchString(o.Schema):
		return fmt.Errorf("invalid schema %q: use 1 to 63 lower-case letters, digits and _, "+
			"not beginning with a digit", o.Schema)
	case o.Durable != DurablePrimary && o.Durable != DurableSync && o.Durable != DurableStorage:
		return fmt.Errorf("unknown durability %q: use primary, sync or storage", o.Durable)
	case (o.URL == "") == (o.URLFile == ""):
		return errors.New("the connection to PostgreSQL is missing or given twice: set one of url and url_file")
	}
	return nil
}

// config returns the configuration of a new connection. It reads URLFile.
func (o Options) config() (*pgx.ConnConfig, error) {
	text := o.URL
	if o.URLFile != "" {
		raw, err := os.ReadFile(o.URLFile)
		if err != nil {
			return nil, fmt.Errorf("read the connection string of PostgreSQL: %w", err)
		}
		text = strings.TrimSpace(string(raw))
	}
	config, err := parse(text)
	if err != nil {
		return nil, err
	}
	milliseconds := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	config.ConnectTimeout = o.ConnectTimeout / time.Duration(hosts(config)) // of each host; connect bounds them all
	config.ValidateConnect = primaryOnly
	config.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
	}}).DialContext
	for name, value := range map[string]string{
		"application_name":                    "mailroom",
		"search_path":                         o.Schema,
		"lock_timeout":                        milliseconds(o.LockTimeout),
		"statement_timeout":                   milliseconds(o.StatementTimeout),
		"idle_in_transaction_session_timeout": milliseconds(o.IdleInTransaction),
		"client_min_messages":                 "warning",
		// The server notices that this machine has left the network, as this one does the server's.
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3", "tcp_user_timeout": "10000",
	} {
		if name == "application_name" && config.RuntimeParams[name] != "" {
			continue
		}
		config.RuntimeParams[name] = value
	}
	return config, nil
}

// Place names the schema, the database and the host, without secrets.
func (o Options) Place() (string, error) {
	o = o.withDefaults()
	c, err := o.config()
	if err != nil {
		return "", err
	}
	address := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	return fmt.Sprintf("schema %s of database %s on %s", o.Schema, c.Database, address), nil
}

// parse parses a connection string. Its error does not contain the string, which has a password.
func parse(text string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(text)
	if err == nil && !local(config) {
		config, err = pgx.ParseConfig(verified(text))
	}
	if err == nil {
		return config, nil
	}
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) && parse.Unwrap() != nil {
		err = parse.Unwrap()
	}
	return nil, fmt.Errorf("invalid connection string of PostgreSQL: %w", withoutText(err, text))
}

// verified adds sslmode=verify-full to a connection string that names no sslmode.
func verified(text string) string {
	const mode = "sslmode=verify-full"
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL || scheme != "postgres" && scheme != "postgresql" {
		return mode + " " + text // a later one is used
	}
	if at := strings.IndexAny(rest, "@/"); at >= 0 && rest[at] == '@' {
		rest = rest[at:] // the password before it may contain a question mark
	}
	_, query, found := strings.Cut(rest, "?")
	if named, _ := url.ParseQuery(query); named.Has("sslmode") { // after an error, pgx has refused the string
		return text
	}
	switch {
	case !found:
		return text + "?" + mode
	case query == "":
		return text + mode
	}
	return text + "&" + mode
}

// hosts returns the number of machines or sockets of a connection string. pgx repeats one that may be
// used without TLS.
func hosts(config *pgx.ConnConfig) int {
	type address struct {
		host string
		port uint16
	}
	all := map[address]bool{{config.Host, config.Port}: true}
	for _, f := range config.Fallbacks {
		all[address{f.Host, f.Port}] = true
	}
	return len(all)
}

// withoutText removes the connection string from an error.
func withoutText(err error, text string) error {
	if u, e := url.Parse(text); e == nil && u.User != nil {
		if password, ok := u.User.Password(); ok && strings.Contains(err.Error(), password) {
			return errors.New("it cannot be parsed")
		}
	}
	if strings.Contains(err.Error(), text) {
		return errors.New("it cannot be parsed")
	}
	return err
}

// local reports whether all hosts of config are sockets or loopback addresses.
func local(config *pgx.ConnConfig) bool {
	hosts := []string{config.Host}
	for _, f := range config.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	for _, host := range hosts {
		ip := net.ParseIP(host)
		if !strings.HasPrefix(host, "/") && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
