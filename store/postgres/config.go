package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Durability says where an acknowledged commit must be.
type Durability string

const (
	DurablePrimary Durability = "primary" // on the stable storage of the primary
	DurableSync    Durability = "sync"    // also on a synchronous standby
	DurableStorage Durability = "storage" // on storage that the database replicates itself
)

// Options configure a store. Of the connection, one of URL and URLFile is required; the zero values
// of the others suit most uses.
type Options struct {
	// URL is a connection string of PostgreSQL, a URL or key=value pairs. Unless it names an
	// sslmode, connections to other machines require a certificate that is valid for the host.
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
	// ConnectTimeout bounds connecting; 0 selects 3 s.
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

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// check validates the options whose values reach SQL text or select a rule.
func (o Options) check() error {
	switch {
	case !schemaName.MatchString(o.Schema):
		return fmt.Errorf("invalid schema %q: use 1 to 63 lower-case letters, digits and _, not beginning with a digit", o.Schema)
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
	config.ConnectTimeout = o.ConnectTimeout
	config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
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

var sslMode = regexp.MustCompile(`(^|\s)sslmode\s*=`)

// parse parses a connection string. Its error does not contain the string, which has a password.
func parse(text string) (*pgx.ConnConfig, error) {
	invalid := func(err error) error {
		var parse *pgconn.ParseConfigError
		if errors.As(err, &parse) && parse.Unwrap() != nil {
			err = parse.Unwrap()
		}
		return fmt.Errorf("invalid connection string of PostgreSQL: %w", withoutText(err, text))
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, invalid(err)
	}
	if local(config) {
		return config, nil
	}
	if u, err := url.Parse(text); err == nil && strings.HasPrefix(u.Scheme, "postgres") {
		q := u.Query()
		if q.Has("sslmode") {
			return config, nil
		}
		q.Set("sslmode", "verify-full")
		u.RawQuery = q.Encode()
		text = u.String()
	} else {
		if sslMode.MatchString(text) {
			return config, nil
		}
		text += " sslmode=verify-full"
	}
	if config, err = pgx.ParseConfig(text); err != nil {
		return nil, invalid(err)
	}
	return config, nil
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

// checkServer refuses a server that may lose commits, in its configuration or that of the database
// or the role.
func (o Options) checkServer(ctx context.Context, conn *pgx.Conn) error {
	settings := map[string]string{}
	rows, err := conn.Query(ctx, `SELECT name, setting FROM pg_settings
		WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names')`)
	if err != nil {
		return err
	}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		settings[name] = value
		return nil
	}); err != nil {
		return err
	}
	return o.checkSettings(settings)
}

func (o Options) checkSettings(settings map[string]string) error {
	if o.AllowUnsafe {
		return nil
	}
	for _, name := range []string{"fsync", "full_page_writes"} {
		if settings[name] == "off" {
			return fmt.Errorf("PostgreSQL may lose commits: %s is off; set it to on", name)
		}
	}
	switch commit := settings["synchronous_commit"]; {
	case commit == "off",
		o.Durable == DurableSync && (commit == "local" || commit == "remote_write"):
		return fmt.Errorf("PostgreSQL may lose commits: synchronous_commit is %s for the server, the database or the role; set it to on", commit)
	case o.Durable == DurableSync && settings["synchronous_standby_names"] == "":
		return errors.New(`durable = "sync" requires a synchronous standby: set synchronous_standby_names, or durable = "primary"`)
	}
	return nil
}
