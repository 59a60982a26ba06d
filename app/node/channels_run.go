package node

import (
	"context"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom/app/command"
	"mailroom/channel"
	"mailroom/internal/recovery"
)

// How often the server checks whether all channels are down, and whether a secret file has changed.
const (
	channelCheckInterval = 250 * time.Millisecond
	secretCheckInterval  = 5 * time.Second
)

// run runs each channel with serve until ctx is done. If exits is set, it also returns when no
// channel is connected and none will reconnect by itself.
func (all channelSet) run(
	ctx context.Context, serve func(context.Context, *channel.Runner), watched []*secretFile, exits bool,
) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range watched {
		group.Go(func() error {
			defer recovery.Log(nil, "secret file watcher")
			s.watch(ctx, secretCheckInterval)
			return nil
		})
	}
	for _, c := range all {
		group.Go(func() (err error) {
			// A panic of a channel ends the server, because a restart is better than a channel that only looks alive.
			defer recovery.Error(nil, "channel", &err)
			serve(ctx, c)
			return nil
		})
	}
	if exits && len(all) > 0 {
		group.Go(func() (err error) {
			defer recovery.Error(nil, "channel watchdog", &err)
			return all.waitAllDown(ctx)
		})
	}
	return group.Wait()
}

// runReceivers runs the receivers of this server.
func (n *Node) runReceivers(ctx context.Context) error {
	return n.receivers.run(ctx, func(ctx context.Context, c *channel.Runner) { c.Run(ctx) }, nil, false)
}

// waitAllDown returns nil when ctx is done, and an error when all channels are down.
func (all channelSet) waitAllDown(ctx context.Context) error {
	turn := time.NewTicker(channelCheckInterval)
	defer turn.Stop()
	for {
		select {
		case <-turn.C:
		case <-ctx.Done():
			return nil
		}
		if err := all.allDown(); err != nil {
			return err
		}
	}
}

// allDown returns an error if no channel is connected and none is expected to reconnect by itself. The slow probes of
// a channel that has failed do not count as reconnecting. If at least one channel gave up, the exit code asks for a
// restart.
func (all channelSet) allDown() error {
	code, hint := command.ExitConfig, "fix the cause, then restart the server"
	var why []string
	for _, c := range all {
		s := c.State()
		if s.Condition.Alive() {
			return nil
		}
		if s.Condition == channel.ConditionGaveUp {
			code, hint = command.ExitRestart, "restart the server"
		}
		why = append(why, s.Name+" "+strings.ReplaceAll(string(s.Condition), "_", " ")+": "+s.Reason)
	}
	return command.Errorf(code, hint, "all channels are down and none will reconnect: %s", strings.Join(why, "; "))
}

// secretFile watches a file with a channel's token and reports changes to the channel.
type secretFile struct {
	channel *channel.Runner
	file    string

	// Owned by the goroutine of watch.
	seen os.FileInfo // state of the file when it was read; nil: the file did not exist
}

// watch polls the file until ctx is done.
func (s *secretFile) watch(ctx context.Context, every time.Duration) {
	s.changed()
	turn := time.NewTicker(every)
	defer turn.Stop()
	for {
		select {
		case <-turn.C:
		case <-ctx.Done():
			return
		}
		if s.changed() {
			s.channel.SecretChanged()
		}
	}
}

// changed reports whether the file changed since the last call.
func (s *secretFile) changed() bool {
	before := s.seen
	now, err := os.Stat(s.file)
	if err != nil {
		now = nil
	}
	s.seen = now
	switch {
	case before == nil || now == nil:
		return before != now
	}
	return !os.SameFile(before, now) || !before.ModTime().Equal(now.ModTime()) || before.Size() != now.Size()
}
