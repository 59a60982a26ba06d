package main

import (
	"context"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom/channel"
	"mailroom/internal/recovery"
)

// How often it is looked whether all channels are down, and whether a secret has
// changed.
const (
	channelCheckInterval = 250 * time.Millisecond
	secretCheckInterval  = 5 * time.Second
)

// run keeps the channels going until ctx ends, or, if it exits, until none of them is
// connected or may be again by itself.
func (all channelSet) run(ctx context.Context, watched []*secretFile, exits bool) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range watched {
		group.Go(func() error {
			defer recovery.Log(nil, "what watches a secret")
			s.watch(ctx, secretCheckInterval)
			return nil
		})
	}
	for _, c := range all {
		group.Go(func() (err error) {
			defer recovery.Error(nil, "a channel", &err) // a channel that only looks alive helps less than a restart: the server ends
			c.Run(ctx)
			return nil
		})
	}
	if exits && len(all) > 0 {
		group.Go(func() (err error) {
			defer recovery.Error(nil, "what looks at the channels", &err)
			return all.waitAllDown(ctx)
		})
	}
	return group.Wait()
}

// waitAllDown returns when ctx has ended, or with an error when all are down.
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

// allDown is an error if none is connected or may be again by itself. If trying again
// may help, so does starting this server again.
func (all channelSet) allDown() error {
	code, hint := exitConfig, "mend what it says, then start it again"
	var why []string
	for _, c := range all {
		s := c.State()
		if s.Condition.Alive() || !s.NextTry.IsZero() { // the second: its supervisor starts again
			return nil
		}
		if s.Condition == channel.ConditionGaveUp {
			code, hint = exitRestart, "start it again"
		}
		why = append(why, s.Name+" "+strings.ReplaceAll(string(s.Condition), "_", " ")+": "+s.Reason)
	}
	return exitErrorf(code, hint, "no channel is connected, and none is tried any more: %s", strings.Join(why, "; "))
}

// secretFile is a file with the token of a channel, which is tried when that has changed,
// unless it is connected.
type secretFile struct {
	channel *channel.Runner
	file    string

	// Owned by watch.
	seen os.FileInfo // nil: it was not there
}

// watch looks at the file until ctx ends.
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
		if s.changed() && s.channel.State().Condition != channel.ConditionConnected {
			s.channel.ConfigChanged()
		}
	}
}

// changed reports whether the file is another than at the last look.
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
