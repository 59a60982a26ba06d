package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"
	_ "time/tzdata" // rules name time zones, which the machine may not have

	"mailroom"
	"mailroom/alert"
	"mailroom/app/config"
	"mailroom/auth"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/httpcall"
	"mailroom/engine"
	"mailroom/ledger"
	"mailroom/server/operate"
	"mailroom/store"
	"mailroom/thread"
)

// maxAlerts is how many alerts of one target are sent at the same time, each to a different subscriber.
const maxAlerts = 16

// alertAgents returns the internal agents that send alerts, one for each target. They are not listed.
func (a *assembly) alertAgents() map[string]engine.Agent {
	all := map[string]engine.Agent{}
	c, rules, operator := a.config, knownRules(a.config, a.node.shared), auth.NewOperator(a.options.Token)
	for _, name := range c.TargetNames() {
		t := c.Targets[name]
		o := alert.Options{
			Name: name, Ledger: alertLedger{a.node.ledger}, URL: c.Server.URL, LinkLife: t.LinkLife,
			MaxBody: t.Settings.MaxBody, Text: t.Text, Zone: t.Zone,
			Tokens: t.Tokens, Operator: operator, Place: t.Place(), Rules: rules,
			Targets: c.TargetNames(),
		}
		if t.Decide {
			o.Links = a.links
		}
		var err error
		if o.Target, err = openTarget(c, name, a.node.ledger, a.node.channels); err != nil {
			a.log.Error("alerts of a target wait until its configuration is corrected", "target", name, "error", err)
			o.Target = brokenTarget{err}
		}
		all[alert.AgentName(name)] = engine.Agent{Agent: alert.New(o), Deadline: deliveryDeadline, Limit: maxAlerts}
	}
	return all
}

// knownRules returns the rules of the configuration. It returns nil if other servers share the store, because they
// may have other rules.
func knownRules(c *config.Config, shared bool) []alert.Rule {
	if shared {
		return nil
	}
	return append([]alert.Rule{}, c.AlertRules()...)
}

// newSender returns the sender, which decides whether an alert that waits for the channel of a chat is still sent.
func newSender(c *config.Config, shared bool) alert.Sender {
	s := alert.Sender{Targets: alert.Allowed{}, Places: map[string]string{}, Rules: knownRules(c, shared)}
	for _, t := range describeTargets(c) {
		s.Targets[t.Name], s.Places[t.Name] = t.Tokens, t.Place
	}
	return s
}

// alertEnded returns a function that asks the sender whether an alert in a channel's thread need not be sent any
// more.
func alertEnded(l channel.Viewer, s alert.Sender) func(context.Context, map[string]string) (string, error) {
	return func(ctx context.Context, labels map[string]string) (why string, err error) {
		if labels[alert.LabelAlert] == "" {
			return "", nil
		}
		err = l.View(ctx, func(r store.Reader) (err error) {
			why, err = s.Ended(r, labels, time.Now())
			return err
		})
		return why, err
	}
}

func openTarget(c *config.Config, target string, l *ledger.Ledger, channels channelSet) (alert.Target, error) {
	t := c.Targets[target]
	if t.Settings.Chat == nil {
		return t.Settings.Open(target)
	}
	name, words, err := chat.RoomOfConversation(*t.Settings.Chat)
	if err != nil {
		return nil, err
	}
	return chatTarget{target: target, ledger: l, channel: name, room: words, condition: channels.condition}, nil
}

// brokenTarget is a target that cannot be opened. Its alerts are retried, so that they are still sent if the server
// is restarted with a correct configuration within a day.
type brokenTarget struct{ err error }

func (t brokenTarget) Send(context.Context, alert.Message) (string, error) {
	return "", httpcall.Unavailable(t.err)
}

// chatTarget is a chat of a channel. An alert is a message of the channel itself, which its delivery thread
// sends.
type chatTarget struct {
	target    string
	ledger    channel.Ledger
	channel   string
	room      []string
	condition func(channel string) channel.Condition
}

// errNotConnected reports that a chat cannot be reached at the moment.
var errNotConnected = errors.New("the channel is not connected")

// Send implements [alert.Target]. It fails while the channel is down, so that another target can take over.
func (t chatTarget) Send(ctx context.Context, m alert.Message) (string, error) {
	if is := t.condition(t.channel); is != channel.ConditionConnected && is != channel.ConditionStandby {
		return "", httpcall.Unavailable(fmt.Errorf("%w: %s is %s", errNotConnected, t.channel, is))
	}
	words := m.Title
	if m.Body != "" {
		words += "\n" + m.Body
	}
	// The link that decides the ticket is signed only when the channel sends the message, because a token that reads
	// the log must not get a signed link.
	link, labels := m.URL, maps.Clone(m.Labels)
	if labels == nil {
		labels = map[string]string{alert.LabelAlert: t.target}
	}
	if m.Decides != nil {
		link = ""
		maps.Copy(labels, m.Decides.Labels())
	}
	// The key makes the submit of a repeated attempt a duplicate, so that the alert is sent once.
	err := channel.SendAnswer(ctx, t.ledger, t.channel, channel.Answer{
		Room: t.room, Key: m.Key, Verbatim: words, Text: link, Later: true, Metadata: labels,
	})
	if err != nil && mailroom.CodeOf(err) == mailroom.CodeInvalid {
		return "", httpcall.Permanent(err)
	}
	return "", err
}

// condition returns the state of a channel.
func (all channelSet) condition(name string) channel.Condition {
	for _, c := range all {
		if c.Name() == name {
			return c.State().Condition
		}
	}
	return ""
}

// alertLedger is the part of the ledger that alerts use.
type alertLedger struct{ all *ledger.Ledger }

func (l alertLedger) View(ctx context.Context, f func(store.Reader) error) error {
	return l.all.View(ctx, f)
}

func (l alertLedger) SubmitAll(ctx context.Context, all []thread.Submit, c store.Cursor) error {
	return l.all.Duties().SubmitAll(ctx, all, c)
}

// newFollower returns the follower that submits the alerts of the rules, nil without targets.
func newFollower(c *config.Config, l *ledger.Ledger, all *operate.Alerts, log *slog.Logger) *alert.Follower {
	if len(c.Targets) == 0 {
		return nil
	}
	channels := append(c.ChannelNames(), c.BoardNames()...)
	if c.Tracker != nil {
		channels = append(channels, config.TrackerChannel)
	}
	return &alert.Follower{
		Ledger: alertLedger{l}, Rules: c.AlertRules(), Targets: all.Allowed(), Channels: channels, Log: log,
	}
}

// testAlert asks the agent of a target to send a test message, and returns the run.
func (n *Node) testAlert(ctx context.Context, target string) (run string, err error) {
	return alert.Test(ctx, n.ledger, target, time.Now())
}

// describeTargets returns the targets for the API, sorted by name.
func describeTargets(c *config.Config) (all []operate.Target) {
	for _, name := range c.TargetNames() {
		t := c.Targets[name]
		all = append(all, operate.Target{Name: name, Kind: t.Kind.Name, Decide: t.Decide, Tokens: t.Tokens, Place: t.Place()})
	}
	return all
}

// pushTarget returns the target that browsers can subscribe to, or nil. The configuration allows
// one.
func pushTarget(c *config.Config) operate.PushTarget {
	for _, name := range c.TargetNames() {
		t := c.Targets[name]
		if t.Settings.Open == nil {
			continue
		}
		opened, err := t.Settings.Open(name)
		if p, ok := opened.(operate.PushTarget); ok && err == nil { // alertAgents reports the error
			return p
		}
	}
	return nil
}
