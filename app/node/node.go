package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/alert"
	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/datadir"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/engine"
	"mailroom/internal/recovery"
	"mailroom/internal/retry"
	"mailroom/ledger"
	"mailroom/server"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/store/postgres"
	"mailroom/stream"
	"mailroom/web"
)

// Options are the parts of a [Node].
type Options struct {
	Store  store.Store
	Lanes  []store.Store // further handles, see [ledger.Options]
	Shared bool          // other servers may use the store at the same time
	Wire   bus.Wire      // to these servers; nil: none
	Tables int64         // version of the tables that this program knows, for these servers; 0: unknown
	Config *config.Config
	Token  string        // the operator's
	Files  datadir.Files // attachments
	// SharedFiles has the attachments for all servers on the store; nil: only Files has them.
	SharedFiles *postgres.Files
	TLS         *tls.Config // nil: no TLS
	Log         *slog.Logger
	Lock        *datadir.Lock           // stores crash reports; nil: none are stored
	Agents      map[string]engine.Agent // instead of the agents of the configuration; nil: those
}

// Node is one server: the components on one store.
type Node struct {
	ledger   *ledger.Ledger
	relay    *bus.Relay // nil: no wire
	engine   *engine.Engine
	server   *server.Server
	janitor  *janitor
	indexer  *indexer
	follower *alert.Follower // nil: no rules
	agents   *agentSet
	log      *slog.Logger
	lock     *datadir.Lock

	channels    channelSet
	receivers   channelSet       // that every server runs; none if the store has one server
	duties      map[string]*duty // of the channels, by their names
	maintenance *duty            // of the janitor, the indexer and the follower
	shared      bool             // other servers use the store
	id          string           // of this server among them
	tables      int64            // see Options
	secretFiles []*secretFile
	// conversations are the prefixes of the ids of the chats of channels.
	conversations []string
	exitWhenDown  bool             // if no channel is connected and none will reconnect by itself
	stopping      atomic.Bool      // set at the begin of the shutdown
	lanes         []*engine.Engine // of the ledger
	engines       []*engine.Engine // those of the lanes, of which engine is the first, and that of deliveries
}

// New wires the components and starts none. It reads the agent versions in the store.
func New(ctx context.Context, o Options) (*Node, error) {
	if o.Agents != nil {
		return assemble(o, &agentSet{agents: o.Agents, programs: newPrograms(o.Log), versions: &versions{}}), nil
	}
	kept, err := readDefinitions(ctx, o.Store)
	if err != nil {
		return nil, fmt.Errorf("read the stored agent versions: %w", err)
	}
	roster, err := newAgentSet(o.Config, kept, o.SharedFiles, o.Log)
	if err != nil {
		return nil, err
	}
	wrap, err := addTorture(roster)
	if err != nil {
		return nil, err
	}
	o.Store = wrap(o.Store)
	for i, lane := range o.Lanes {
		o.Lanes[i] = wrap(lane)
	}
	return assemble(o, roster), nil
}

// assemble wires the components with the given agents.
func assemble(o Options, roster *agentSet) *Node {
	c, log := o.Config, o.Log
	agents := roster.agents
	n := &Node{agents: roster, indexer: &indexer{on: c.Search, log: log}, log: log, lock: o.Lock, duties: map[string]*duty{}, shared: o.Shared, id: c.Mark, tables: o.Tables, conversations: reservedPrefixes(c), exitWhenDown: c.WhenAllDown == config.AllDownExit}
	b, numbers := bus.New(), operate.NewMetrics()
	n.ledger = ledger.New(o.Store, ledger.Options{
		Lanes:        o.Lanes,
		DefaultAgent: c.DefaultAgent,
		Version:      func(agent string) string { return agents[agent].Version },
		Publish: func(thread string, entries []mailroom.Entry) {
			b.Publish(bus.Notice{Thread: thread, Entries: entries})
		},
		Due:       n.announceDue,
		Lease:     c.Lease,
		Deadline:  func(agent string) time.Duration { return cmp.Or(agents[agent].Deadline, c.RunDeadline) },
		Retry:     func(agent string) retry.Policy { return roster.retryOf(agent, c.Retry) },
		StopGrace: c.StopGrace, CheckOptions: roster.checkOptions, KnowsVersion: roster.knowsVersion,
		Sticky: func(agent string) bool { return agents[agent].Sticky }, StickyGrace: c.Node.StickyGrace,
		Quotas:    defaultQuotas(c),
		MaxQueued: unlimitedIfZero(c.MaxQueued),
		Reserved:  reservedPrefixes(c),
		Observe:   ledger.Observe{Operation: numbers.Operation, Commit: n.indexer.observe(numbers.Commit), RunFinished: numbers.Ended, AttemptStarted: numbers.AttemptStarted, AttemptEnded: numbers.AttemptEnded},
		Log:       log,
	})
	if o.Wire != nil {
		n.relay = bus.NewRelay(b, o.Wire, n.ledger.Nudge, log)
	}
	streams := stream.New(n.ledger, b)
	hooks := newHooks(c)
	var files chat.FileStore = o.Files
	if o.SharedFiles != nil {
		files = &sharedFiles{folder: o.Files, database: o.SharedFiles, log: log}
	}
	links := alert.NewLinks(o.Token)
	n.channels = newChannels(c, agents, func(channel string) *ledger.Ledger { return n.channelDuty(channel).restricted() }, files, streams, b, links, newSender(c, n.shared), log)
	if n.shared {
		n.receivers = newReceivers(c, n.ledger, log)
	}
	n.secretFiles = slices.Concat(secretFiles(c, n.channels), secretFiles(c, n.receivers))
	numbers.Channels(conditionNames(), n.channels.metrics)
	names := slices.Sorted(maps.Keys(agents))
	n.maintenance = n.newDuty("maintenance")
	n.janitor = &janitor{ledger: n.maintenance.restricted(), files: o.Files, shared: o.SharedFiles, oldDefinitions: roster.old, retention: c.Retention, log: log}
	alerts := &operate.Alerts{Targets: describeTargets(c), Rules: c.AlertRules(), Links: links, Test: n.testAlert, Push: pushTarget(c)}
	n.follower = newFollower(c, n.maintenance.restricted(), alerts, log)
	if n.shared { // other servers store and use versions that are not current here
		n.janitor.oldDefinitions = nil
		roster.versions.read = n.ledger.Definitions
	}
	for lane := range n.ledger.Lanes() {
		o := n.engineOptions(c, n.whileServing(laneAgents(agents, lane, n.ledger.Lanes())), laneShare(c.Runs, lane, n.ledger.Lanes()), numbers)
		o.NoLastAttempts = lane > 0
		n.engines = append(n.engines, engine.New(n.ledger.LaneWorkers(lane), b, o))
	}
	n.engine, n.lanes = n.engines[0], n.engines
	if own := n.deliveries(c, links, auth.NewOperator(o.Token), numbers); own != nil {
		n.engines = append(n.engines, engine.New(n.ledger.LaneWorkers(0), b, *own))
	}
	n.server = server.New(server.Options{
		Ledger: server.PartsOf(n.ledger), Streams: streams, Bus: b, Shared: o.Shared,
		Access: server.Access{
			Token: o.Token, Quotas: defaultQuotas(c), Hosts: c.AllHosts(), Origins: c.Origins, URL: c.Server.URL,
			TLS: o.TLS, BehindProxy: c.BehindProxy,
		},
		Agents: server.Agents{
			Names:    func() []string { return names },
			Missing:  roster.missing,
			Describe: func(name string) server.AgentInfo { return roster.describe(name, c.Retry) },
		},
		Parts: server.Parts{
			Channels: n.channels, Pairings: newPairings(c, n.ledger), Alerts: alerts, Issues: issueBoard(c),
			NoSearch: !c.Search, Metrics: numbers, Pages: web.Pages(), Protocols: protocols(hooks, log),
		},
		Limits: serverLimits(c), Ready: n.ready, Version: command.ReadVersion().Version, Log: log,
	})
	return n
}

// serverLimits returns the limits of the server's requests and connections.
func serverLimits(c *config.Config) server.Limits {
	l := c.Limits
	return server.Limits{
		HeaderTimeout: l.HeaderTimeout, BodyTimeout: l.BodyTimeout, WriteTimeout: l.WriteTimeout, IdleTimeout: l.IdleTimeout,
		Connections: l.Connections, PerAddress: l.PerAddress, Bodies: l.Bodies, Unread: l.Unread, TokenUnread: l.TokenUnread,
		MaxHeader: l.Header, MaxBody: l.Body, MaxFrame: l.Frame, MaxStreams: l.Streams,
		Submits: float64(unlimitedIfZero(l.Submits)), SubmitBurst: l.SubmitBurst,
	}
}

// deliveries returns the options of the engine that sends replies and alerts, nil if there are none. It is
// an engine of its own, so that long agent runs cannot delay them.
func (n *Node) deliveries(c *config.Config, links *alert.Links, operator *auth.Token, numbers *operate.Metrics) *engine.Options {
	agents := deliveryAgents(n.channels)
	maps.Copy(agents, alertAgents(c, n.ledger, n.channels, links, operator, knownRules(c, n.shared), n.log))
	if len(agents) == 0 {
		return nil
	}
	o := n.engineOptions(c, agents, channel.MaxDeliveries*len(n.channels)+maxAlerts*len(c.Targets), numbers)
	return &o
}

// engineOptions returns the options of an engine in this process.
func (n *Node) engineOptions(c *config.Config, agents map[string]engine.Agent, runs int, numbers *operate.Metrics) engine.Options {
	return engine.Options{
		Agents: agents, Runs: runs, Lease: c.Lease, Renew: c.Renew, Sweep: c.Sweep, Deadline: c.RunDeadline,
		StopGrace: c.StopGrace, ShutdownGrace: c.ShutdownGrace, AgentGrace: c.AgentGrace, Elsewhere: n.agents.remote, Node: c.Mark, Program: command.ReadVersion().Version, Tables: n.tables,
		Local: !n.shared, Log: n.log,
		Observe: engine.Observe{
			Started: func(s engine.Start) { numbers.Entered(s.Claimed, s.Entered) },
			Renewal: numbers.Renewal,
		},
	}
}

// ready returns why a lane starts no runs, nil if all do.
func (n *Node) ready() error {
	if n.stopping.Load() {
		return errors.New("shutting down")
	}
	for _, e := range n.lanes {
		if err := e.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// laneShare returns what one of several lanes gets of n.
func laneShare(n, lane, lanes int) int {
	share := n / lanes
	if lane < n%lanes {
		share++
	}
	return share
}

// laneAgents returns the agents that a lane serves: all but those whose limit is too small to be shared.
func laneAgents(agents map[string]engine.Agent, lane, lanes int) map[string]engine.Agent {
	served := maps.Clone(agents)
	for name, a := range served {
		if a.Limit == 0 {
			continue
		}
		if a.Limit = laneShare(a.Limit, lane, lanes); a.Limit == 0 {
			delete(served, name)
			continue
		}
		served[name] = a
	}
	return served
}

// whileServing returns agents whose runs are left to other servers, if there are any, once this one
// stops. A server without others claims until its engine stops.
func (n *Node) whileServing(agents map[string]engine.Agent) map[string]engine.Agent {
	if !n.shared {
		return agents
	}
	for name, a := range agents {
		ready := a.Ready
		a.Ready = func() bool { return !n.stopping.Load() && (ready == nil || ready()) }
		agents[name] = a
	}
	return agents
}

// announceDue tells other servers that a run of an agent is due and was not claimed here.
func (n *Node) announceDue(agent string) {
	if n.relay != nil {
		n.relay.Due(agent)
	}
}

// channelDuty makes the duty of a channel.
func (n *Node) channelDuty(channel string) *duty {
	d := n.newDuty("channel/" + channel)
	n.duties[channel] = d
	return d
}

func (n *Node) newDuty(name string) *duty {
	return &duty{name: name, ledger: n.ledger, shared: n.shared, log: n.log}
}

// serveChannel runs a channel whenever this server has its duty.
func (n *Node) serveChannel(ctx context.Context, c *channel.Runner) {
	n.duties[c.Name()].serve(ctx, n.engine, c.Run, c.Standby)
}

// work runs the engines until ctx is done or one fails.
func (n *Node) work(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, e := range n.engines {
		all.Go(func() (err error) {
			defer recovery.Error(n.log, "engine", &err)
			return e.Run(ctx)
		})
	}
	return all.Wait()
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

// defaultQuotas returns the quotas of tokens that set none.
func defaultQuotas(c *config.Config) auth.Quotas {
	return auth.Quotas{
		auth.QuotaThreads: int64(c.Limits.Threads), auth.QuotaBytes: int64(c.Limits.Stored),
		auth.QuotaWorkers: int64(c.Limits.Workers), auth.QuotaNotifications: int64(c.Limits.Notifications),
	}
}

// unlimitedIfZero maps the setting 0 (no limit) to -1, because 0 means the default in the ledger.
func unlimitedIfZero(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// Run serves ln until ctx is done or a component fails or panics. It then stops the
// components in order: the server accepts nothing more, the engines settle or release
// their runs, and the ledger commits the remaining operations. With other servers on the
// store the engines stop first, after the jobs of the duties, whose lease they have: until
// their runs have ended, the server answers, also that it is not ready, and the others run
// what it accepts. lost receives the error with which
// the store fails by itself.
func (n *Node) Run(ctx context.Context, ln net.Listener, lost <-chan error) error {
	group, ctx := errgroup.WithContext(ctx)
	lives := newPhases(ctx, n.shared, 2, &n.stopping, n.log)
	prepared := make(chan struct{})
	group.Go(func() (err error) {
		defer recovery.Error(n.log, "server", &err)
		defer lives.onEnd(lives.stopEngines)
		select {
		case <-prepared:
		case <-ctx.Done():
			return ln.Close()
		}
		return n.server.Serve(lives.server, ln)
	})
	group.Go(func() (err error) {
		defer recovery.Error(n.log, "engines", &err)
		defer lives.onEnd(lives.stopServer)
		if err := n.prepare(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		close(prepared)
		return n.work(lives.engines)
	})
	group.Go(func() (err error) {
		defer recovery.Log(n.log, "janitor") // the next start repeats its work
		defer lives.duties.Done()
		select {
		case <-prepared:
			n.agents.programs.queryVersions(ctx)
			n.maintenance.serve(ctx, n.engine, n.maintain, func(context.Context, string) {})
		case <-ctx.Done():
		}
		return nil
	})
	group.Go(func() (err error) {
		defer recovery.Log(n.log, "janitor of files") // the next start repeats its work
		n.janitor.cleanFiles(ctx)
		return nil
	})
	group.Go(func() (err error) {
		defer recovery.Error(n.log, "channels", &err)
		defer lives.duties.Done()
		select {
		case <-prepared:
			return n.channels.run(ctx, n.serveChannel, n.secretFiles, n.exitWhenDown)
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() (err error) {
		defer recovery.Error(n.log, "receivers", &err)
		select {
		case <-prepared:
			return n.receivers.run(ctx, func(ctx context.Context, c *channel.Runner) { c.Run(ctx) }, nil, false)
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() (err error) {
		defer recovery.Error(n.log, "store watcher", &err)
		select {
		case err := <-lost:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	if n.relay != nil {
		group.Go(func() (err error) {
			defer recovery.Error(n.log, "relay", &err)
			return n.relay.Run(lives.ledger) // until the last run is released, which another server may start
		})
	}
	group.Go(func() (err error) {
		defer recovery.Error(n.log, "ledger", &err)
		return n.ledger.Run(lives.ledger)
	})
	return group.Wait()
}

// endPrevious ends the leases of the previous process of this server, which the lock of the data
// folder shows to have ended.
func (n *Node) endPrevious(ctx context.Context, uncharged bool) error {
	if n.shared {
		return n.ledger.Workers().EndNodeWorkers(ctx, n.id, uncharged)
	}
	return n.ledger.Workers().EndLocalWorkers(ctx, uncharged)
}

// prepare ends the leases of the previous process. It stores the current agent versions before a run can be
// pinned to them, and where alerts begin before there is something to tell.
func (n *Node) prepare(ctx context.Context) error {
	var report []byte
	if n.lock != nil {
		var err error
		if report, err = n.lock.CrashReport(); err != nil {
			return err
		}
	}
	uncharged := recovery.OutsideRun(report)
	if err := n.endPrevious(ctx, uncharged); err != nil {
		return fmt.Errorf("end the leases of the previous process: %w", err)
	}
	if n.lock != nil {
		if err := n.keepCrash(report, uncharged); err != nil {
			return err
		}
	}
	if err := n.ledger.KeepDefinitions(ctx, n.agents.present); err != nil {
		return fmt.Errorf("store the current agent versions: %w", err)
	}
	if err := n.warnOfOwners(ctx); err != nil {
		return fmt.Errorf("read the owners of the server's threads: %w", err)
	}
	if n.follower == nil {
		return nil
	}
	if err := n.follower.Begin(ctx, alertLedger{n.ledger}); err != nil {
		return fmt.Errorf("store where alerts begin: %w", err)
	}
	return nil
}
