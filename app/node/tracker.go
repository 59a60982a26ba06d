package node

import (
	"log/slog"

	"mailroom/app/config"
	"mailroom/channel"
	"mailroom/engine"
	"mailroom/issues/feed"
	"mailroom/issues/tracker"
	"mailroom/ledger"
)

// newTrackerChannel returns the runner of the tracker's channel.
func newTrackerChannel(
	c *config.Config, agents map[string]engine.Agent, l *ledger.Ledger, log *slog.Logger,
) *channel.Runner {
	t := c.Tracker
	o := channel.Options{
		Name: config.TrackerChannel, Kind: feed.Kind, Ledger: l, Log: log,
	}
	w, err := feed.New(feed.Options{
		Folder: tracker.FolderAt(t.Dir()), Agent: t.Agent, Agents: t.Agents, Labels: t.Labels, Types: t.Types,
		MaxClaims: t.MaxClaims,
		KeepOpen:  t.KeepOpen, Interval: t.Interval, Project: t.Project, Projects: l.Projects(), Command: c.Command,
	})
	if err != nil {
		o.Connect = channel.Broken(err)
	} else {
		o.Connect, o.Reconnect = w.Connect, w.ReconnectPolicy()
	}
	for _, name := range append([]string{t.Agent}, t.Agents...) {
		if agents[name].Agent == nil {
			log.Warn("agent of tracker is not run by this server; its issues wait for a remote worker", "channel", o.Name,
				"agent", name)
		}
	}
	return channel.New(o)
}
