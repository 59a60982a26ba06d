package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"

	"mailroom/alert"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/app/manual"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/schedule"
	"mailroom/server"
	"mailroom/store"
	"mailroom/store/postgres"
)

// Options are the parts of a [Node].
type Options struct {
	Store  store.Store
	Lanes  []store.Store // further handles, see [ledger.Options]
	Shared bool          // other servers may use the store at the same time
	Wire   bus.Wire      // carries hints to other servers of the store; nil: no such server
	Tables int64         // version of the tables that this program knows, for these servers; 0: unknown
	Config *config.Config
	Token  string        // the operator's
	Files  datadir.Files // attachments
	// SharedFiles has the attachments for all servers on the store. If it is nil, attachments are only in Files.
	SharedFiles *postgres.Files
	TLS         *tls.Config // nil: the server speaks HTTP without TLS
	Log         *slog.Logger
	Lock        *datadir.Lock           // stores crash reports; nil: none are stored
	Manual      *manual.Manual          // served at /docs/; nil: it is not
	Agents      map[string]engine.Agent // instead of the agents of the configuration; nil: those
}

// Node is one server: the parts on one store, see [Node.parts].
type Node struct {
	ledger      *ledger.Ledger
	relay       *bus.Relay // nil: the node has no wire
	channels    channelSet
	receivers   channelSet // channels that every server runs; none if the store has one server
	secretFiles []*secretFile
	schedules   schedule.File // of the configuration
	operator    *auth.Token
	janitor     *janitor
	indexer     *indexer
	follower    *alert.Follower  // nil: no targets of alerts are configured
	lanes       []*engine.Engine // engines, one for each lane of the ledger; the duties need the lease of the first
	deliveries  *engine.Engine   // engine that sends deliveries; nil: there is nothing to send
	server      *server.Server
	agents      *agentSet

	duties      map[string]*duty // duties of the channels, by channel name
	maintenance *duty            // duty of the janitor, the indexer and the follower

	// Set when the node is built.
	log           *slog.Logger
	lock          *datadir.Lock // lock of the data folder; nil: no crash reports are stored
	shared        bool          // other servers use the store too
	id            string        // id of this server in the shared store
	pulse         *pulse        // when the store last answered the engines
	conversations []string      // prefixes of the ids of the chats of channels
	exitWhenDown  bool          // end if no channel is connected and none will reconnect by itself

	prepared chan struct{} // closed by work
	stopping atomic.Bool   // set at the begin of the shutdown
}

// New builds the parts of a node and starts none. It reads the agent versions that the store has.
func New(ctx context.Context, o Options) (*Node, error) {
	if o.Agents != nil {
		return assemble(o, &agentSet{agents: o.Agents, programs: newPrograms(o.Log), versions: &versions{}}), nil
	}
	kept, err := readDefinitions(ctx, o.Store)
	if err != nil {
		return nil, fmt.Errorf("read the stored agent versions: %w", err)
	}
	agents, err := newAgentSet(o.Config, kept, o.SharedFiles, o.Log)
	if err != nil {
		return nil, err
	}
	wrap, err := addTorture(agents)
	if err != nil {
		return nil, err
	}
	o.Store = wrap(o.Store)
	for i, lane := range o.Lanes {
		o.Lanes[i] = wrap(lane)
	}
	return assemble(o, agents), nil
}

// readDefinitions returns the agent versions in the store.
func readDefinitions(ctx context.Context, st store.Store) (kept []store.Definition, err error) {
	err = st.View(ctx, func(r store.Reader) error {
		rows, err := r.Agents()
		kept = rows.Definitions
		return err
	})
	return kept, err
}
