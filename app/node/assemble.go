package node

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"mailroom"
	"mailroom/agent/builtin"
	"mailroom/alert"
	"mailroom/app/config"
	"mailroom/app/manual"
	"mailroom/auth"
	"mailroom/bus"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/webhook"
	"mailroom/engine"
	"mailroom/internal/budget"
	"mailroom/internal/reserved"
	"mailroom/internal/retry"
	"mailroom/internal/version"
	"mailroom/ledger"
	"mailroom/schedule"
	"mailroom/server"
	"mailroom/server/operate"
	"mailroom/stream"
	"mailroom/web"
)

// assembly builds the parts of a node. Each method uses only parts that [assemble] has built before.
type assembly struct {
	options Options
	config  *config.Config
	agents  *agentSet
	log     *slog.Logger
	node    *Node

	// Parts that several other parts use.
	bus     *bus.Bus
	numbers *operate.Metrics
	links   *alert.Links
	alerts  *operate.Alerts
	hooks   *webhook.Hooks
	streams *stream.Streams // set by assemble

	ledgerOf func(channel string) *ledger.Ledger
}

func newAssembly(o Options, agents *agentSet) *assembly {
	c := o.Config
	n := &Node{
		agents: agents, indexer: &indexer{on: c.Search, log: o.Log}, log: o.Log, lock: o.Lock, duties: map[string]*duty{},
		shared: o.Shared, id: c.Mark, conversations: reservedPrefixes(c),
		exitWhenDown: c.WhenAllDown == config.AllDownExit, prepared: make(chan struct{}),
		pulse:     &pulse{silence: c.Renew + c.Lease},
		schedules: schedulesOf(c, o.Shared), operator: auth.NewOperator(o.Token),
	}
	a := &assembly{
		options: o, config: c, agents: agents, log: o.Log, node: n,
		bus: bus.New(), numbers: operate.NewMetrics(), links: alert.NewLinks(o.Token), hooks: newHooks(c),
	}
	a.ledgerOf = func(channel string) *ledger.Ledger { return n.channelDuty(channel).restricted() }
	a.alerts = &operate.Alerts{
		Targets: describeTargets(c), Rules: c.AlertRules(), Links: a.links, Test: n.testAlert, Push: pushTarget(c),
	}
	return a
}

func (a *assembly) newLedger() *ledger.Ledger {
	c, agents := a.config, a.agents.agents
	return ledger.New(a.options.Store, ledger.Options{
		Lanes:        a.options.Lanes,
		DefaultAgent: c.DefaultAgent,
		Version:      func(agent string) string { return agents[agent].Version },
		Publish: func(thread string, entries []mailroom.Entry) {
			a.bus.Publish(bus.Notice{Thread: thread, Entries: entries})
		},
		Due:            a.node.announceDue,
		Lease:          c.Lease,
		Deadline:       func(agent string) time.Duration { return cmp.Or(agents[agent].Deadline, c.RunDeadline) },
		LongestAttempt: func(string) time.Duration { return c.LongestRun },
		Retry:          func(agent string) retry.Policy { return a.agents.retryOf(agent, c.Retry) },
		StopGrace:      c.StopGrace,
		CheckOptions:   a.agents.checkOptions,
		CheckBudget:    a.agents.checkBudget,
		Prices:         a.agents.prices,
		KnowsVersion:   a.agents.knowsVersion,
		Sticky:         func(agent string) bool { return agents[agent].Sticky },
		StickyGrace:    c.Node.StickyGrace,
		Quotas:         defaultQuotas(c),
		MaxQueued:      unlimitedIfZero(c.MaxQueued),
		Reserved:       reservedPrefixes(c),
		Limits:         func(agent string) ledger.Limits { return limitsOf(c.Agents[agent]) },
		OwnerLimit:     c.Limits.Starts.Limit(),
		Label:          c.Label,
		Budgets:        budgetsOf(c),
		Observe: ledger.Observe{
			Operation: a.numbers.Operation, Commit: a.node.indexer.observe(a.numbers.Commit), RunFinished: a.numbers.Ended,
			AttemptStarted: a.numbers.AttemptStarted, AttemptEnded: a.numbers.AttemptEnded,
			AttemptUsed: a.numbers.AttemptUsed,
		},
		Log: a.log,
	})
}

func (a *assembly) newRelay() *bus.Relay {
	if a.options.Wire == nil {
		return nil
	}
	return bus.NewRelay(a.bus, a.options.Wire, a.node.ledger.Nudge, a.log)
}

func (a *assembly) newReceivers() channelSet {
	if !a.node.shared {
		return nil
	}
	return newReceivers(a.config, a.node.ledger, a.log)
}

func (a *assembly) newSecretFiles() []*secretFile {
	return slices.Concat(secretFiles(a.config, a.node.channels), secretFiles(a.config, a.node.receivers))
}

func (a *assembly) newJanitor() *janitor {
	k := &janitor{
		ledger: a.node.maintenance.restricted(), files: a.options.Files, shared: a.options.SharedFiles,
		oldDefinitions: a.agents.old, retention: a.config.Retention, keepAudit: a.config.KeepAudit,
		log: a.log,
	}
	if a.node.shared { // on a shared store, other servers store and use versions that are not current here
		k.oldDefinitions = nil
		a.agents.versions.read = a.node.ledger.Definitions
	}
	return k
}

func (a *assembly) newFollower() *alert.Follower {
	return newFollower(a.config, a.node.maintenance.restricted(), a.alerts, a.log)
}

// newLanes returns the engines of the agents, one for each lane of the ledger.
func (a *assembly) newLanes() (lanes []*engine.Engine) {
	n := a.node
	for lane := range n.ledger.Lanes() {
		agents := n.whileServing(laneAgents(a.agents.agents, lane, n.ledger.Lanes()))
		o := a.engineOptions(agents, laneShare(a.config.Runs, lane, n.ledger.Lanes()))
		o.NoLastAttempts = lane > 0
		lanes = append(lanes, engine.New(n.ledger.LaneWorkers(lane), a.bus, o))
	}
	return lanes
}

// maxSchedules is how many schedules are brought up to date at the same time. Each takes a few commits.
const maxSchedules = 16

// maxAskers is how many questions about budgets are asked at the same time. A question that waits takes no place.
const maxAskers = 2

// newDeliveries returns the engine of the server's own agents, which send replies, alerts and the messages of
// schedules, and open pull requests. They have their own engine, so that long runs of agents cannot delay them.
func (a *assembly) newDeliveries() *engine.Engine {
	n := a.node
	agents := deliveryAgents(n.channels)
	maps.Copy(agents, a.alertAgents())
	agents[reserved.Scheduler] = engine.Agent{
		Agent: a.newScheduler(), Deadline: deliveryDeadline, Limit: maxSchedules,
	}
	agents[reserved.Asker] = engine.Agent{Agent: builtin.NewRaise(), Deadline: deliveryDeadline, Limit: maxAskers}
	agents[reserved.Puller] = engine.Agent{Agent: a.newPullKeeper(), Deadline: pullDeadline, Limit: maxPulls}
	runs := channel.MaxDeliveries*len(n.channels) + maxAlerts*len(a.config.Targets) + maxSchedules + maxAskers +
		maxPulls
	return engine.New(n.ledger.LaneWorkers(0), a.bus, a.engineOptions(agents, runs))
}

// newScheduler returns the agent of schedules.
func (a *assembly) newScheduler() *schedule.Agent {
	policies := map[string]*chat.AccessPolicy{}
	for _, name := range a.config.ChannelNames() {
		policies[name] = &a.config.Channels[name].Chat.Access
	}
	return schedule.New(a.node.ledger, a.node.operator).Admit(func(ctx context.Context, user string) (bool, error) {
		return chat.Admits(ctx, a.node.ledger, policies, user)
	})
}

// engineOptions returns the options of an engine in this process.
func (a *assembly) engineOptions(agents map[string]engine.Agent, runs int) engine.Options {
	c, beat := a.config, a.node.pulse.follow()
	return engine.Options{
		Agents: agents, Runs: runs, Lease: c.Lease, Renew: c.Renew, Sweep: c.Sweep, Deadline: c.RunDeadline,
		StopGrace: c.StopGrace, ShutdownGrace: c.ShutdownGrace, AgentGrace: c.AgentGrace, Elsewhere: a.agents.remote,
		Node: c.Mark, Program: version.Read().Version, Tables: a.options.Tables, Local: !a.node.shared, Log: a.log,
		Blobs: a.node.ledger.Workers(),
		Observe: engine.Observe{
			Started: func(s engine.Start) { a.numbers.Entered(s.Claimed, s.Entered) },
			Renewal: func(err error) { a.numbers.Renewal(err); beat(err) },
		},
	}
}

func (a *assembly) newServer() *server.Server {
	c, n, o := a.config, a.node, a.options
	names := slices.Sorted(maps.Keys(a.agents.agents))
	return server.New(server.Options{
		Ledger: server.PartsOf(n.ledger), Streams: a.streams, Bus: a.bus, Shared: o.Shared,
		Access: server.Access{
			Token: o.Token, Quotas: defaultQuotas(c), Hosts: c.AllHosts(), Origins: c.Origins, URL: c.Server.URL,
			TLS: o.TLS, BehindProxy: c.BehindProxy,
		},
		Agents: server.Agents{
			Names:    func() []string { return names },
			Missing:  a.agents.missing,
			Describe: func(name string) server.AgentInfo { return a.agents.describe(name, c.Retry) },
		},
		Parts: server.Parts{
			Channels: n.channels, Pairings: newPairings(c, n.ledger), Alerts: a.alerts, Issues: issueBoard(c),
			NoSearch: !c.Search, Label: c.Label, Metrics: a.numbers, Pages: pages(o.Manual), Page: web.Page,
			Protocols: protocols(a.hooks, a.log),
		},
		Limits: serverLimits(c), Ready: n.ready, Version: version.Read().Version, Log: a.log,
	})
}

// pages returns the pages for browsers, and the manual if it is not nil.
func pages(m *manual.Manual) map[string]http.Handler {
	all := web.Pages()
	if m != nil {
		maps.Copy(all, m.Handlers())
	}
	return all
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

// defaultQuotas returns the quotas of tokens that set none.
func defaultQuotas(c *config.Config) auth.Quotas {
	return auth.Quotas{
		auth.QuotaThreads: int64(c.Limits.Threads), auth.QuotaBytes: int64(c.Limits.Stored),
		auth.QuotaWorkers: int64(c.Limits.Workers), auth.QuotaNotifications: int64(c.Limits.Notifications),
	}
}

// limitsOf returns the limits of an agent, which has none if it is not configured.
func limitsOf(a *config.Agent) ledger.Limits {
	if a == nil {
		return ledger.Limits{}
	}
	return ledger.Limits{Agent: a.Starts.Limit(), Key: a.Keys.Limit(), KeyFrom: a.KeyFrom}
}

// unlimitedIfZero maps the setting 0 (no limit) to -1, because 0 means the default in the ledger.
func unlimitedIfZero(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// budgetsOf returns the budgets of days and months that the configuration sets.
func budgetsOf(c *config.Config) ledger.Budgets {
	b := ledger.Budgets{Zone: c.BudgetZone, Agent: map[string]budget.Limits{}}
	for name, a := range c.Agents {
		if !a.Budget.IsZero() {
			b.Agent[name] = a.Budget
		}
	}
	return b
}
