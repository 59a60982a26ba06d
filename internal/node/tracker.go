package node

import (
	"log/slog"

	"mailroom/channel"
	"mailroom/engine"
	"mailroom/internal/config"
	"mailroom/issues/feed"
	"mailroom/issues/tracker"
	"mailroom/ledger"
)

// newTrackerChannel makes the runner of the tracker's channel.
func newTrackerChannel(c *config.Config, agents map[string]engine.Agent, l *ledger.Ledger, log *slog.Logger) *channel.Runner {
	in := c.Tracker.Options
	in.Folder, in.Command, in.Projects = tracker.FolderAt(c.Tracker.Dir()), c.Command, l
	o := channel.Options{
		Name: config.TrackerChannel, Kind: feed.Kind, Ledger: l, Log: log,
	}
	w, err := feed.New(in)
	if err != nil {
		o.Connect = channel.Broken(err)
	} else {
		o.Connect, o.Reconnect = w.Connect, w.ReconnectPolicy()
	}
	for _, name := range append([]string{in.Agent}, in.Agents...) {
		if agents[name].Agent == nil {
			log.Warn("agent of tracker is not run by this server; its issues wait for a remote worker", "channel", o.Name, "agent", name)
		}
	}
	return channel.New(o)
}
