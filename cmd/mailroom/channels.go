package main

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mailroom/api"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/client"
	"mailroom/engine"
	"mailroom/internal/config"
	"mailroom/internal/console"
	"mailroom/internal/metrics"
	"mailroom/ledger"
	"mailroom/stream"
)

func channelsCommand(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "channels",
		Short: "List channels and their state",
		Long: `List channels (connections to platforms) and their state.

` + stateTable() + `
To retry a channel now: "mailroom channels resume NAME". A failed channel with a next
try panicked in the server and retries by itself; the server's log has the stack.

UNHANDLED counts messages that are not acknowledged yet, because their run or their
reply is in progress. Each state change is an entry in the thread channel:NAME.`,
		Example: `  mailroom channels
  mailroom channels -o json
  mailroom channels resume mol`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(addChannelCommand(con), resumeChannelCommand(con))
	output := console.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, _ []string) error {
		channels, err := c.Channels(cmd.Context())
		if err != nil {
			return err
		}
		return printChannels(con, channels, *output)
	})
}

// stateTable formats the states of a channel as a table.
func stateTable() string {
	rows := append([]channel.Description{{Condition: "STATE", Meaning: "MEANING", Action: "WHAT TO DO"}}, channel.Descriptions()...)
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

func resumeChannelCommand(con *console.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "Reconnect a channel now",
		Long: `Reconnect a channel now and reset its failure count. This works in every state,
also after the channel gave up or failed permanently. A connected channel is not
affected.`,
		Example: `  mailroom channels resume mol`,
		Args:    cobra.ExactArgs(1),
	}
	output := console.FormatFlag(cmd)
	return withClient(con, cmd, func(c *client.Client, args []string) error {
		ch, err := c.ResumeChannel(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if *output == console.FormatJSON {
			return con.PrintJSON(ch)
		}
		con.Infof("channel %s is %s; show its state with `%s`", ch.Name, ch.State, con.CommandLine("channels"))
		return nil
	})
}

func printChannels(con *console.Console, channels []api.Channel, output console.Format) error {
	if output == console.FormatJSON {
		return con.PrintJSON(api.Page[api.Channel]{Items: channels})
	}
	rows := [][]string{{"CHANNEL", "KIND", "STATE", "LAST SUCCESS", "LAST IN", "LAST OUT", "CURSOR", "UNHANDLED", "DOWN", "LAST ERROR"}}
	for _, c := range channels {
		trouble := "-"
		if c.LastError != nil {
			trouble = con.When(c.LastErrorAt) + " " + console.Shorten(*c.LastError, 100)
		}
		rows = append(rows, []string{
			c.Name, c.Kind, stateOf(con, c), con.When(c.LastSuccess), con.When(c.LastInbound), con.When(c.LastOutbound), cursorOf(c), fmt.Sprint(c.Unhandled),
			(time.Duration(c.DowntimeMS) * time.Millisecond).Round(time.Second).String(), trouble,
		})
	}
	if err := con.PrintList(rows, nil, "no channels: add one with `mailroom channels add`, or run `mailroom bridge`"); err != nil {
		return err
	}
	for _, c := range channels {
		switch c.State {
		case api.ChannelParked, api.ChannelGaveUp, api.ChannelFailed:
			con.Infof("channel %s needs attention; to retry it now: %s", c.Name, con.CommandLine("channels", "resume", c.Name))
		}
	}
	return nil
}

func stateOf(con *console.Console, c api.Channel) string {
	state := c.State
	if c.State == api.ChannelConnected {
		if c.Reason != nil {
			state += ": " + *c.Reason
		}
		return state
	}
	if c.Attempts > 0 {
		state += " after " + failedAttempts(c.Attempts)
	}
	if c.NextTry != nil {
		state += ", next attempt " + con.When(c.NextTry)
	}
	if c.LeftBehind > 0 {
		state += fmt.Sprintf(", %d adapters still running", c.LeftBehind)
	}
	return state
}

func failedAttempts(n int) string {
	if n == 1 {
		return "1 failed attempt"
	}
	return fmt.Sprintf("%d failed attempts", n)
}

func cursorOf(c api.Channel) string {
	cursor := orDash(c.Cursor)
	if c.CursorLag != nil {
		cursor += fmt.Sprintf(" (%d behind)", *c.CursorLag)
	}
	return cursor
}

// secretFiles returns the files that hold the secrets of the channels.
func secretFiles(c *config.Config, all channelSet) (files []*secretFile) {
	for _, r := range all {
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

// reservedPrefixes returns the prefixes of threads that only channels may create.
func reservedPrefixes(c *config.Config) (beginnings []string) {
	for _, name := range c.ChannelNames() {
		beginnings = append(beginnings, channel.Reserved(name)...)
	}
	if c.Tracker != nil {
		beginnings = append(beginnings, channel.Reserved(config.TrackerChannel)...)
	}
	return beginnings
}

// newChannels returns the runners of the configured channels.
func newChannels(c *config.Config, agents map[string]engine.Agent, l *ledger.Ledger, files chat.FileStore, streams *stream.Streams, log *slog.Logger) channelSet {
	var runners channelSet
	for _, name := range c.ChannelNames() {
		ch := c.Channels[name]
		if agents[ch.Agent].Agent == nil {
			log.Warn("agent of channel is not run by this server; its messages wait for a remote worker", "channel", name, "agent", ch.Agent)
		}
		o := channel.Options{Name: name, Kind: ch.Kind.Name, Ledger: l, Log: log, Reconnect: ch.Settings.ReconnectPolicy()}
		o.Connect = ch.Settings.Connect(chat.Options{
			Agent: ch.Agent, Access: ch.Chat.AccessPolicy(), Command: c.Command, Files: files, Follow: streams, Previews: ch.Chat.Previews,
		})
		o.Reconnect.InitialDelay, o.Reconnect.MaxDelay, o.Reconnect.ProbeInterval = ch.RetryFirst, ch.RetryMost, ch.ProbeEvery
		o.Reconnect.ParkAfter, o.Reconnect.GiveUpAfter = unlimitedIfZero(ch.Attempts), ch.GiveUpAfter
		runners = append(runners, channel.New(o))
	}
	if c.Tracker != nil {
		runners = append(runners, newTrackerChannel(c, agents, l, log))
	}
	return runners
}

// deliveryAgents returns the internal agents that deliver replies, one for each channel.
// They are not listed. Each has its own limit, so that a slow platform does not delay
// the others.
func deliveryAgents(channels channelSet) map[string]engine.Agent {
	all := map[string]engine.Agent{}
	for _, c := range channels {
		all[channel.AgentName(c.Name())] = engine.Agent{Agent: c.Agent(), Ready: c.Connected, Deadline: deliveryDeadline, Limit: channel.MaxDeliveries}
	}
	return all
}

// deliveryDeadline limits one attempt of a delivery. Its calls have shorter timeouts.
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
			Attempts: s.Attempts, NextTry: timeOrNil(s.NextTry), Adapter: s.Adapter, LeftBehind: s.Stranded, Reconnects: s.Reconnects,
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
func (all channelSet) metrics() []metrics.Channel {
	var out []metrics.Channel
	for _, c := range all {
		s := c.State()
		out = append(out, metrics.Channel{
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
