package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"mailroom/channel"
	"mailroom/channel/poll"
	"mailroom/client"
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/engine"
)

func (m *Main) channelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "channels",
		Short: "List the connections to platforms, and how they are",
		Long: `List the connections to platforms, and how they are.

connected is said only while the last success is fresh; a silent channel fails
nowhere and hears nothing; a queued one failed and is tried again; a failed one
needs somebody who mends what its reason says. UNHANDLED counts messages that the
platform was not told to be done: they are being run, or their reply is under way.`,
		Example: `  mailroom channels
  mailroom channels -o json`,
		Args: cobra.NoArgs,
	}
	output := formatFlag(cmd)
	return m.calling(cmd, func(c *client.Client, _ []string) error {
		channels, err := c.Channels(cmd.Context())
		if err != nil {
			return err
		}
		return m.printChannels(channels, *output)
	})
}

func (m *Main) printChannels(channels []client.Channel, output format) error {
	if output == asJSON {
		return m.printJSON(client.Page[client.Channel]{Items: channels})
	}
	rows := [][]string{{"CHANNEL", "KIND", "STATE", "LAST SUCCESS", "CURSOR", "UNHANDLED", "LAST ERROR"}}
	for _, c := range channels {
		state := c.State
		if c.State == client.ChannelQueued && c.NextTry != nil {
			state += fmt.Sprintf(", next try %s", m.when(c.NextTry))
		}
		trouble := "-"
		if c.LastError != nil {
			trouble = m.when(c.LastErrorAt) + " " + cut(*c.LastError, 100)
		}
		if c.State == client.ChannelConnected && c.Reason != nil {
			state += ": " + *c.Reason
		}
		rows = append(rows, []string{
			c.Name, c.Kind, state, m.when(c.LastSuccess), orDash(c.Cursor), fmt.Sprint(c.Unhandled), trouble,
		})
	}
	return m.printList(rows, nil, "no channels: `mailroom bridge` runs one, and [channels.NAME] in the configuration makes one of this server's")
}

// reserved are the threads that only channels make.
func reserved(c *config.Config) (beginnings []string) {
	for _, name := range c.ChannelNames() {
		beginnings = append(beginnings, channel.Reserved(name)...)
	}
	return beginnings
}

// newChannels makes the runners of a configuration's channels. One that cannot
// work is there too: it says why.
func newChannels(c *config.Config, agents map[string]engine.Agent, l channel.Ledger, log *slog.Logger) []*channel.Runner {
	var runners []*channel.Runner
	for _, name := range c.ChannelNames() {
		ch := c.Channels[name]
		o := channel.Options{Name: name, Kind: ch.Kind, Ledger: l, Log: log}
		bridge, err := newPoll(ch, c.Command)
		if err != nil {
			o.Adapter = channel.Broken(err)
		} else {
			o.Adapter, o.Fresh = bridge, bridge.Fresh()
		}
		if agents[ch.Agent].Agent == nil {
			log.Warn("this server does not run the agent of a channel: its messages wait for a worker elsewhere", "channel", name, "agent", ch.Agent)
		}
		runners = append(runners, channel.New(o))
	}
	return runners
}

func newPoll(ch *config.Channel, command string) (*poll.Bridge, error) {
	token, err := ch.Token()
	if err != nil {
		return nil, err
	}
	return poll.New(poll.Options{
		URL: ch.URL, Workspace: ch.Workspace, Agent: ch.Agent, Token: token, Interval: ch.Interval, Command: command,
	})
}

// couriers are the agents that deliver for channels. Nobody is offered these: they
// send what a conversation says, and nothing else.
func couriers(channels []*channel.Runner) map[string]engine.Agent {
	all := map[string]engine.Agent{}
	for _, c := range channels {
		all[channel.AgentName(c.Name())] = engine.Agent{Agent: c.Agent(), Deadline: deliveryDeadline}
	}
	return all
}

// deliveryDeadline is for one attempt of a delivery, whose calls end sooner.
const deliveryDeadline = 5 * time.Minute

func describeChannels(channels []*channel.Runner) []client.Channel {
	var out []client.Channel
	for _, c := range channels {
		s := c.State()
		out = append(out, client.Channel{
			Name: s.Name, Kind: s.Kind, State: string(s.Condition), Reason: textOf(s.Reason),
			LastSuccess: moment(s.LastSuccess), LastError: textOf(s.LastError), LastErrorAt: moment(s.LastErrorAt),
			LastInbound: moment(s.LastInbound), LastOutbound: moment(s.LastOutbound), Cursor: textOf(s.Cursor),
			Unhandled: s.Unhandled, NextTry: moment(s.NextTry), ConnectedSince: moment(s.ConnectedSince), Failures: s.Failures,
		})
	}
	return out
}

func textOf(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
