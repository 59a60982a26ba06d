package board

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"mailroom/channel"
	"mailroom/issues/workflow"
)

// Options configure the feed of a board. Kind, Open, Agent, Labels and Interval are required.
type Options struct {
	Kind  string // of the board, such as "github"
	Place string // what the board shows, such as "ann/roof"; may be ""
	Open  func() (Board, error)
	Agent string // default agent for issues
	// Agents are further agents beside Agent. An issue selects one by the label agent:NAME.
	Agents    []string
	Labels    []string      // an issue must have all of them, because strangers may open issues
	MaxClaims int           // issues in progress at once; defaults to 1
	KeepOpen  bool          // a person closes finished issues
	Interval  time.Duration // between two polls
	// Recheck is how often an issue whose run has not started, or that waits for another issue, is read again
	// without a change of the board. It defaults to 5 minutes.
	Recheck time.Duration
	// HintPause is the least time between two polls that hints ask for. It defaults to a second.
	HintPause time.Duration
	Command   string // how a person calls this program; defaults to "mailroom"
	// Workflow has the template of the prompts; nil: an agent gets the issue itself.
	Workflow *workflow.File
}

// callTime bounds how long a connected board may take between two successful polls, beside the interval.
const callTime = 2 * time.Minute

// Watcher assigns the issues of one board.
type Watcher struct {
	options Options
	wake    chan struct{} // buffered for one signal; triggers a poll

	// Owned by mu.
	mu     sync.Mutex
	left   *listing           // of the last connection; nil while a connection owns it
	noted  *workflow.Workflow // whose notes were logged
	faulty string             // the fault of the workflow that was reported
}

// New returns a watcher. It does not call the board yet.
func New(o Options) (*Watcher, error) {
	switch {
	case o.Kind == "" || o.Open == nil:
		return nil, errors.New("missing board")
	case o.Agent == "":
		return nil, errors.New("missing agent")
	case len(o.Labels) == 0:
		return nil, errors.New("missing labels")
	case o.Interval <= 0:
		return nil, errors.New("missing interval")
	}
	if o.MaxClaims == 0 {
		o.MaxClaims = 1
	}
	if o.Recheck == 0 {
		o.Recheck = 5 * time.Minute
	}
	if o.HintPause == 0 {
		o.HintPause = time.Second
	}
	if o.Command == "" {
		o.Command = "mailroom"
	}
	return &Watcher{options: o, wake: make(chan struct{}, 1)}, nil
}

// ReconnectPolicy returns the policy of a board, which is polled.
func (w *Watcher) ReconnectPolicy() channel.ReconnectPolicy {
	return channel.ReconnectPolicy{
		InitialDelay: min(w.options.Interval, 30*time.Second), MaxDelay: 5 * time.Minute, Polled: true,
		IdleTimeout: 2*w.options.Interval + callTime,
	}
}

// Connect implements [channel.Connect]. It asks the board who the account is.
func (w *Watcher) Connect(ctx context.Context, h *channel.Host) (channel.Adapter, error) {
	b, err := w.options.Open()
	if err != nil {
		return nil, channel.Fatal(err)
	}
	account, err := b.Account(ctx)
	if err != nil {
		b.Close()
		return nil, err
	}
	h.Received()
	return &connection{Watcher: w, host: h, board: b, account: account}, nil
}

// connection is a Watcher with a board of one adapter.
type connection struct {
	*Watcher
	host    *channel.Host
	board   Board
	account string
}

// Receive implements [channel.Adapter].
func (c *connection) Receive(ctx context.Context) error {
	r, err := c.newReceiver(ctx)
	if err != nil {
		return err
	}
	defer func() { c.leaveListing(r.listing) }()
	for {
		least := time.After(min(c.options.Interval, c.options.HintPause))
		again, err := r.poll(ctx)
		if err != nil {
			return err
		}
		pause := c.options.Interval
		if again {
			pause = 0
		}
		select {
		case <-time.After(pause):
		case <-c.wake:
			select {
			case <-least:
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// Maintain implements [channel.Adapter]. The adapter needs no maintenance.
func (c *connection) Maintain(context.Context) error { return nil }

// Close implements [channel.Adapter].
func (c *connection) Close() error {
	c.board.Close()
	return nil
}

// Hint polls the board without waiting for the interval. It is for a webhook, which is no proof of anything.
func (w *Watcher) Hint() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// labelAgent is the prefix of labels that select an agent.
const labelAgent = "agent:"

// agentOf returns the agent for an issue: the one that a label names, else the default.
func (w *Watcher) agentOf(it Issue) string {
	for _, name := range append([]string{w.options.Agent}, w.options.Agents...) {
		if slices.Contains(it.Labels, labelAgent+strings.ToLower(name)) {
			return name
		}
	}
	return w.options.Agent
}

// accepts reports whether an issue is for this feed: it has the labels and no other assignee than the account.
func (c *connection) accepts(it Issue) bool {
	for _, label := range c.options.Labels {
		if !slices.Contains(it.Labels, strings.ToLower(label)) {
			return false
		}
	}
	return !slices.ContainsFunc(it.Assignees, func(name string) bool { return !strings.EqualFold(name, c.account) })
}

// Thread returns the thread of an issue of a board.
func Thread(board, issue string) string { return channel.ThreadID(board, issue) }

// issueOf returns the id of the issue that a thread, or its delivery thread, belongs to.
func issueOf(board, thread string) (string, error) {
	thread = strings.TrimPrefix(thread, channel.DeliveryThreadID(""))
	escaped, ok := strings.CutPrefix(thread, channel.Reserved(board))
	id, err := url.QueryUnescape(escaped)
	if !ok || err != nil || id == "" {
		return "", fmt.Errorf("thread %q belongs to no issue", thread)
	}
	return id, nil
}
