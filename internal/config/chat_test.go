package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/channel/chat"
)

const chatting = `[channels.net]
kind = "irc"
agent = "echo"
server = "irc.example.org"
nick = "bot"
`

func TestAccessIsReadFromTheTable(t *testing.T) {
	for file, want := range map[string]chat.AccessPolicy{
		chatting: {Pairing: true, BusyMode: mailroom.ModeQueue, MaxFileSize: 20 << 20},
		chatting + `admins = ["a"]
users = ["b", "c"]
chats = ["#d"]
pairing = false
busy = "steer"
groups = "everything"
per_user = true
max_file = "1MiB"`: {Admins: []string{"a"}, Users: []string{"b", "c"}, Chats: []string{"#d"}, BusyMode: mailroom.ModeSteer, AllGroupMessages: true, PerUser: true, MaxFileSize: 1 << 20},
	} {
		c, err := parse("f.toml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.Channels["net"].Chat.Access); diff != "" {
			t.Errorf("of %s (-want +got):\n%s", file, diff)
		}
	}
	refused(t, chatting+`busy = "reject"`, `f.toml:6: channels.net.busy: "reject" is not one of queue, steer, interrupt, collect`)
	refused(t, chatting+`groups = "some"`, `f.toml:6: channels.net.groups: "some" is not one of addressed, everything`)
}
