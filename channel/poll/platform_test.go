package poll_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/poll"
	"mailroom/channel/poll/polltest"
)

func TestABridgeIsAChannel(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
		return newPlatform(t, func(addr string) string { return addr })
	})
}

func TestABridgeIsAChannelOverABadNetwork(t *testing.T) {
	channeltest.RunNetfaults(t, newPlatform)
}

// newPlatform returns a platform for the suite. through maps the address that the bridge connects to.
func newPlatform(t *testing.T, through func(addr string) string) *channeltest.Platform {
	p := polltest.New(t)
	bridge, err := poll.New(poll.Options{
		URL: through(p.URL), Workspace: polltest.Workspace, Agent: channeltest.Agent, Token: polltest.Token,
		Interval: 5 * time.Millisecond, Timeout: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	down := false
	return &channeltest.Platform{
		Kind:    poll.Kind,
		Connect: bridge.Connect,
		Reconnect: channel.ReconnectPolicy{InitialDelay: 10 * time.Millisecond, MaxDelay: 20 * time.Millisecond,
			IdleTimeout: 3 * time.Second},
		Post: func(id, text string) { p.Add(polltest.Canvas(id, text)) },
		Sent: func() (texts []string) {
			for _, r := range p.Traffic().Replies {
				texts = append(texts, r.Text)
			}
			return texts
		},
		Outages: channeltest.Outages{
			Down: func() {
				mu.Lock()
				defer mu.Unlock()
				p.Down()
				down = true
			},
			HangReason: "request timed out",
			Hang: func() {
				for _, endpoint := range []string{polltest.Activity, polltest.Ack, polltest.Notify, polltest.Heartbeat} {
					p.Fail(endpoint, slices.Repeat([]polltest.Fault{{Hang: true}}, 1000)...)
				}
			},
			Restore: func() {
				mu.Lock()
				defer mu.Unlock()
				if p.ClearFaults(); down {
					p.Up(t)
					down = false
				}
			},
		},
		Credentials: channeltest.Credentials{
			Reject: func() { p.Fail(polltest.Activity, slices.Repeat([]polltest.Fault{{Status: 401}}, 1000)...) },
		},
		Events: channeltest.Events{
			History: true,
		},
	}
}
