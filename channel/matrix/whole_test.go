package matrix_test

import (
	"sync"
	"testing"
	"time"

	"mailroom/channel"
	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/matrix"
	"mailroom/channel/matrix/matrixtest"
)

// TestMatrixIsAChannel plays what all channels keep to, from what somebody says to the
// reply.
func TestMatrixIsAChannel(t *testing.T) {
	everywhere(t, func(t *testing.T, url string) {
		n := 0
		channeltest.Run(t, func(t *testing.T) *channeltest.Platform {
			n++
			way := matrixtest.NewWay(t, url)
			name := string(rune('a'+n)) + "-"
			bot, ann := matrixtest.Enter(t, url, name+"bot", "Bot"), matrixtest.Enter(t, url, name+"ann", "Ann")
			room := ann.Room(true, bot)
			bot.Joins(room)
			var mu sync.Mutex
			down, hangs, denied := false, false, false
			o := matrix.Options{
				Homeserver: way.URL, Poll: time.Second, Gap: time.Millisecond, EditGap: time.Millisecond,
				Token: func() (string, error) {
					mu.Lock()
					defer mu.Unlock()
					return bot.Token, nil
				},
			}
			return &channeltest.Platform{
				Kind:    matrix.Kind,
				Connect: chat.Connect(chat.Options{Agent: channeltest.Agent, Talk: chat.Talk{Users: []string{ann.ID}}}, o.Dial),
				Pace: channel.Pace{
					First: 10 * time.Millisecond, Most: 50 * time.Millisecond, Attempts: -1, Fresh: 3 * time.Second, Connect: 2 * time.Second, Close: time.Second,
				},
				Say: func(id, text string) {
					ann.SendsAs(room, "m.room.message", map[string]any{"msgtype": "m.text", "body": text}, "say-"+id)
				},
				Sent: func() []string { return ann.Texts(room, bot) },
				Down: func() { down = true; way.Down() },
				Hang: func() { hangs = true; way.Freeze() },
				Deny: func() { denied = true; bot.Logout() },
				Mend: func() {
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
				History: true,
			}
		})
	})
}
