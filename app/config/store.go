package config

import (
	"net/url"
	"strings"
	"time"

	"mailroom/internal/lazyregexp"
	"mailroom/internal/setting"
)

// Server is the [server] table.
type Server struct {
	URL string // address of the server for browsers, used in links; "": derived from the address it listens on
}

func (s *Server) settings() []setting.Setting {
	return []setting.Setting{
		setting.New("url",
			"Address of the server for browsers, used in links: the address of its proxy, or one whose host is in hosts. "+
				"Empty: the address that the server listens on.",
			setting.Checked(&s.URL, `an address such as "https://mail.example.org"`, func(s string) bool {
				u, err := url.Parse(s)
				return s == "" || err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil &&
					u.RawQuery == "" && u.Fragment == ""
			})),
	}
}

// Kinds of stores.
const (
	StoreSQLite   = "sqlite"   // a file in the data folder
	StorePostgres = "postgres" // a database that several servers may share
)

// Store is the [store] table.
type Store struct{ Kind string }

func (s *Store) settings() []setting.Setting {
	return []setting.Setting{
		setting.New("kind",
			"Where the server keeps its data: sqlite, a file in the data folder, or postgres, a database that several "+
				"servers may share.", setting.OneOf(&s.Kind, StoreSQLite, StorePostgres)),
	}
}

// Kinds of buses.
const (
	BusPostgres = "postgres" // NOTIFY in the database of the store
	busNone     = "none"     // servers notice each other's work by polling
)

// Bus is the [bus] table, for a store of StorePostgres.
type Bus struct{ Kind string }

func (b *Bus) settings() []setting.Setting {
	return []setting.Setting{
		setting.New("kind",
			"How servers wake each other: postgres (NOTIFY on two more connections), or none (each looks once a second).",
			setting.OneOf(&b.Kind, BusPostgres, busNone)),
	}
}

// Node is the [node] table: how this server works beside other servers. It applies to a store of StorePostgres.
type Node struct{ StickyGrace time.Duration }

func (n *Node) settings() []setting.Setting {
	return []setting.Setting{
		setting.New("sticky_grace",
			"Time after which a run whose codex or claude session is on a server that is gone starts on another server, in a "+
				"new session.", setting.Duration(&n.StickyGrace, time.Millisecond, 24*time.Hour)),
	}
}

// Postgres is the [postgres] table: the database of a store of StorePostgres.
type Postgres struct {
	URL               string // URL of the database without a password; "": read URLFile
	URLFile           string // file with the URL, read at each connection
	Schema            string
	Writers           int           // connections for writing
	Readers           int           // connections for reading
	StartTimeout      time.Duration // longest time from the start until the database answers; 0: one try
	ConnectTimeout    time.Duration
	LockTimeout       time.Duration
	StatementTimeout  time.Duration
	IdleInTransaction time.Duration
	Durable           string // where an acknowledged commit must be: one of the values below
}

// Values of Durable.
const (
	DurablePrimary = "primary"
	durableSync    = "sync"
	durableStorage = "storage"
)

func defaultPostgres() Postgres {
	return Postgres{
		Schema: "mailroom", Writers: 2, Readers: 8, StartTimeout: 10 * time.Minute, ConnectTimeout: 3 * time.Second,
		LockTimeout:      time.Second,
		StatementTimeout: 30 * time.Second, IdleInTransaction: 1500 * time.Millisecond, Durable: DurablePrimary,
	}
}

func (p *Postgres) settings() []setting.Setting {
	const most = 10 * time.Minute
	return []setting.Setting{
		setting.New("url",
			`Address of the database, such as "postgres://mailroom@db.example.org/mailroom"; it may list several hosts. `+
				"A password belongs into url_file.",
			setting.Checked(&p.URL, "an address without a password; with one, write it to a file and set url_file",
				withoutPassword)).
			WithSecretFiles(func() []string { return connectionSecrets(p.URL) }),
		setting.New("url_file", "File with the address, read again at each connection.", setting.Text(&p.URLFile)).
			WithSecretFiles(func() []string { return append(connectionSecrets(readAddress(p.URLFile)), p.URLFile) }),
		setting.New("schema", "Schema of the tables; the server creates it.", setting.Text(&p.Schema)),
		setting.New("writers",
			"Connections for writing, which share the load. Each has its part of runs and of the limits of agents.",
			setting.Int(&p.Writers, 1, 16)),
		setting.New("readers", "Maximum number of connections for reading.", setting.Int(&p.Readers, 1, 1000)),
		setting.New("start_timeout", "How long the start waits for a database that does not answer yet; 0s does not wait.",
			setting.Duration(&p.StartTimeout, 0, 24*time.Hour)),
		setting.New("connect_timeout", "Maximum time to connect.",
			setting.Duration(&p.ConnectTimeout, 100*time.Millisecond, most)),
		setting.New("lock_timeout",
			"Maximum time to wait for rows that another server changes, before the server retries without them.",
			setting.Duration(&p.LockTimeout, 10*time.Millisecond, most)),
		setting.New("statement_timeout", "Maximum time of one statement.",
			setting.Duration(&p.StatementTimeout, time.Second, most)),
		setting.New("idle_in_transaction",
			"Time after which the database ends the transaction of a server that does not answer.",
			setting.Duration(&p.IdleInTransaction, 100*time.Millisecond, most)),
		setting.New("durable",
			"Where an acknowledged commit must be: primary, sync (also on a synchronous standby), or storage (on storage "+
				"that the database replicates).", setting.OneOf(&p.Durable, DurablePrimary, durableSync, durableStorage)),
	}
}

var passwordKey = lazyregexp.New(`(?i)\bpassword\s*=`)

// withoutPassword reports whether an address of PostgreSQL, a URL or key=value pairs, has no password.
func withoutPassword(address string) bool {
	_, rest, _ := strings.Cut(address, "://")
	if at := strings.IndexAny(rest, "@/"); at >= 0 && rest[at] == '@' && strings.Contains(rest[:at], ":") {
		return false
	}
	return !passwordKey().MatchString(address)
}

// checkStore returns the problems of [store] and [postgres] together.
func (c *Config) checkStore() (found []problem) {
	if c.Store.Kind == StorePostgres {
		if (c.Postgres.URL == "") == (c.Postgres.URLFile == "") {
			found = append(found,
				problem{key: "postgres",
					what: `the address of the database is missing or given twice; set one of url and url_file in [postgres]`})
		}
		return found
	}
	for _, key := range []string{"node.sticky_grace", "bus.kind"} {
		if c.set[key] {
			return append(found, problem{key: key, what: `has no effect; set kind = "postgres" in [store]`})
		}
	}
	for _, s := range c.Postgres.settings() {
		if key := "postgres." + s.Key; c.set[key] {
			return append(found, problem{key: key, what: `has no effect; set kind = "postgres" in [store]`})
		}
	}
	return found
}

// Token is the [token] table.
type Token struct {
	OperatorFile string // file with the operator's token; "": the data folder's
}

func (t *Token) settings() []setting.Setting {
	return []setting.Setting{
		setting.SecretFile("operator_file",
			"File with the operator's token, so that several servers have one; empty makes a token in the data folder.",
			&t.OperatorFile),
	}
}
