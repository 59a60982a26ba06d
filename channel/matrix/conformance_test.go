package matrix_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/matrix"
	"mailroom/channel/matrix/matrixtest"
)

// TestMatrixIsAChannel runs the conformance suite of channels.
func TestMatrixIsAChannel(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		var n atomic.Int64
		channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
			return newPlatform(t, url, n.Add(1), func(addr string) string { return addr })
		})
	})
}

// TestMatrixIsAChannelOverABadNetwork runs the conformance suite with network faults.
func TestMatrixIsAChannelOverABadNetwork(t *testing.T) {
	forEachServer(t, func(t *testing.T, url string) {
		var n atomic.Int64
		channeltest.RunNetfaults(t, func(t *testing.T, through func(addr string) string) *channeltest.Platform {
			return newPlatform(t, url, n.Add(1), through)
		})
	})
}

// newPlatform returns the fixture for the conformance suite, with accounts numbered n. through maps
// the address that the adapter connects to.
func newPlatform(t *testing.T, url string, n int64, through func(addr string) string) *channeltest.Platform {
	way := matrixtest.NewProxy(t, url)
	bot, ann := matrixtest.NewPerson(t, url, fmt.Sprintf("bot%d", n), "Bot"), matrixtest.NewPerson(t, url, fmt.Sprintf("ann%d", n), "Ann")
	room := ann.NewRoom(true, bot)
	bot.Joins(room)
	var mu sync.Mutex
	down, hangs, denied := false, false, false
	o := matrix.Options{
		Homeserver: through(way.URL), Poll: time.Second, Gap: time.Millisecond, EditGap: time.Millisecond,
		Token: func() (string, error) {
			mu.Lock()
			defer mu.Unlock()
			return bot.Token, nil
		},
	}
	return &channeltest.Platform{
		Kind:    matrix.Kind,
		Connect: chat.Connect(chat.Options{Agent: channeltest.Agent, Access: chat.AccessPolicy{Users: []string{ann.ID}}}, o.Dial),
		Reconnect: channel.ReconnectPolicy{
			InitialDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond, ParkAfter: -1, IdleTimeout: 3 * time.Second, ConnectTimeout: 2 * time.Second, CloseTimeout: time.Second,
		},
		Post: func(id, text string) {
			ann.SendsAs(room, "m.room.message", map[string]any{"msgtype": "m.text", "body": text}, "say-"+id)
		},
		Sent:        func() []string { return ann.Texts(room, bot) },
		Down:        func() { down = true; way.Down() },
		Hang:        func() { hangs = true; way.Freeze() },
		RejectLogin: func() { denied = true; bot.Logout() },
		Restore: func() {
			if denied {
				denied = false
				mu.Lock()
				bot.Login()
				mu.Unlock()
			}
			if hangs {
				hangs = false
				way.Thaw()
			}
			if down {
				down = false
				way.Up(t)
			}
		},
		History: true, ExactlyOnce: true,
	}
}
