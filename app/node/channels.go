package node

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"mailroom/api"
	"mailroom/app/config"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/server/operate"
)

// ChannelStates formats the states of a channel as a table.
func ChannelStates() string {
	rows := append([]channel.Description{{Condition: "STATE", Meaning: "MEANING", Action: "WHAT TO DO"}},
		channel.Descriptions()...)
	state, meaning := 0, 0
	for _, d := range rows {
		state, meaning = max(state, len(d.Condition)), max(meaning, len(d.Meaning))
	}
	var b strings.Builder
	for _, d := range rows {
		b.WriteString(fmt.Sprintf("%-*s  %-*s  %s\n", state, d.Condition, meaning, d.Meaning, d.Action))
	}
	return b.String()
}

// secretFiles returns the files that hold the secrets of the channels and boards.
func secretFiles(c *config.Config, all channelSet) (files []*secretFile) {
	for _, r := range all {
		if b := c.Boards[r.Name()]; b != nil && b.Token.File != "" {
			files = append(files, &secretFile{channel: r, file: b.Token.File})
		}
		ch := c.Channels[r.Name()]
		if ch == nil {
			continue
		}
		for _, s := range ch.Secrets() {
			if s.File != "" {
				files = append(files, &secretFile{channel: r, file: s.File})
			}
		}
	}
	return files
}

// reservedPrefixes returns the id prefixes of the threads that belong to conversations of channels. Only channels may
// create such threads.
func reservedPrefixes(c *config.Config) (prefixes []string) {
	for _, name := range append(c.ChannelNames(), c.BoardNames()...) {
		prefixes = append(prefixes, channel.Reserved(name))
	}
	return prefixes
}

// newChannels returns the runners of the configured channels.
func (a *assembly) newChannels() (runners channelSet) {
	c, agents := a.config, a.agents.agents
	sender := newSender(c, a.node.shared)
	for _, name := range c.ChannelNames() {
		ch := c.Channels[name]
		if agents[ch.Agent].Agent == nil {
			a.log.Warn("agent of channel is not run by this server; messages to it wait until a remote worker runs the agent",
				"channel", name, "agent", ch.Agent)
		}
		o := channelOptions(ch, name, a.ledgerOf(name), a.log)
		in := ch.Chat
		in.Agent, in.Command, in.Files, in.Follow, in.Commits = ch.Agent, c.Command, a.files(), a.streams, a.bus
		in.URL = c.Server.URL
		o.Connect = ch.Settings.Connect(in)
		o.Link = func(labels map[string]string) string { return a.links.SignLabels(c.Server.URL, labels) }
		o.Ended = alertEnded(o.Ledger, sender)
		runners = append(runners, channel.New(o))
	}
	if c.Tracker != nil {
		runners = append(runners, newTrackerChannel(c, agents, a.ledgerOf(config.TrackerChannel), a.log))
	}
	for _, name := range c.BoardNames() {
		runners = append(runners, newBoardChannel(c, name, agents, a.hooks, a.ledgerOf(name), a.log))
	}
	a.numbers.Channels(conditionNames(), runners.metrics)
	return runners
}

// files returns where channels store attachments.
func (a *assembly) files() chat.FileStore {
	if a.options.SharedFiles == nil {
		return a.options.Files
	}
	return &sharedFiles{folder: a.options.Files, database: a.options.SharedFiles, log: a.log}
}

// newReceivers returns the runners that receive the events of channels on every server. Deliveries, and all other
// work of a channel, are done only by the server that holds the channel's duty.
func newReceivers(c *config.Config, l *ledger.Ledger, log *slog.Logger) (receivers channelSet) {
	for _, name := range c.ChannelNames() {
		ch := c.Channels[name]
		if ch.Settings.Receive == nil {
			continue
		}
		o := channelOptions(ch, name, l, log.With("part", "receiver"))
		in := ch.Chat
		in.Agent, in.Command = ch.Agent, c.Command
		o.Connect, o.Unrecorded = ch.Settings.Receive(in), true
		receivers = append(receivers, channel.New(o))
	}
	return receivers
}

// channelOptions returns the options of a runner that do not depend on its connection.
func channelOptions(ch *config.Channel, name string, l *ledger.Ledger, log *slog.Logger) channel.Options {
	o := channel.Options{Name: name, Kind: ch.Kind.Name, Ledger: l, Log: log, Reconnect: ch.Settings.ReconnectPolicy()}
	o.Reconnect.InitialDelay, o.Reconnect.MaxDelay, o.Reconnect.ProbeInterval = ch.RetryFirst, ch.RetryMost, ch.ProbeEvery
	o.Reconnect.ParkAfter, o.Reconnect.GiveUpAfter = unlimitedIfZero(ch.Attempts), ch.GiveUpAfter
	return o
}

// deliveryAgents returns the internal agents that deliver replies, one for each channel.
// They are not listed. Each has its own limit, so that a slow platform does not delay
// the others.
func deliveryAgents(channels channelSet) map[string]engine.Agent {
	all := map[string]engine.Agent{}
	for _, c := range channels {
		all[channel.AgentName(c.Name())] = engine.Agent{
			Agent: c.Agent(), Ready: c.Connected, Deadline: deliveryDeadline, Limit: channel.MaxDeliveries,
		}
	}
	return all
}

// deliveryDeadline limits one attempt of a delivery. The calls of a platform within it have shorter timeouts.
const deliveryDeadline = 5 * time.Minute

// channelSet are the channels of a server, sorted by name.
type channelSet []*channel.Runner

// All implements [server.Channels].
func (all channelSet) All() []api.Channel {
	var out []api.Channel
	for _, c := range all {
		s := c.State()
		out = append(out, api.Channel{
			Name: s.Name, Kind: s.Kind, State: string(s.Condition), Since: timeOrNil(s.Since), Reason: stringOrNil(s.Reason),
			Attempts: s.Attempts, NextTry: timeOrNil(s.NextTry), Adapter: s.Adapter, LeftBehind: s.Stranded,
			Reconnects:     s.Reconnects,
			ConnectedSince: timeOrNil(s.ConnectedSince), DowntimeMS: s.Downtime.Milliseconds(),
			LastSuccess: timeOrNil(s.LastSuccess), LastError: stringOrNil(s.LastError), LastErrorAt: timeOrNil(s.LastErrorAt),
			LastInbound: timeOrNil(s.LastInbound), LastOutbound: timeOrNil(s.LastOutbound),
			Cursor: stringOrNil(s.Cursor), CursorLag: s.Lag, Unhandled: s.Unacked,
		})
	}
	return out
}

// Resume implements [server.Channels].
func (all channelSet) Resume(name string) bool {
	for _, c := range all {
		if c.Name() == name {
			c.Resume()
			return true
		}
	}
	return false
}

// metrics returns the metrics of the channels.
func (all channelSet) metrics() []operate.ChannelMetrics {
	var out []operate.ChannelMetrics
	for _, c := range all {
		s := c.State()
		out = append(out, operate.ChannelMetrics{
			Name: s.Name, State: string(s.Condition), Adapters: s.Adapter, LeftBehind: s.Stranded, Reconnects: s.Reconnects,
			Attempts: s.Attempts, Downtime: s.Downtime, LastSuccess: s.LastSuccess, Unhandled: s.Unacked,
		})
	}
	return out
}

// conditionNames returns the names of all channel states, for metrics.
func conditionNames() (names []string) {
	for _, c := range channel.Conditions() {
		names = append(names, string(c))
	}
	return names
}

func stringOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
