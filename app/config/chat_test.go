package config

import (
	"testing"
	"time"

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
		chatting: {Pairing: true, BusyMode: mailroom.ModeQueue, Join: time.Second, MaxFileSize: 20 << 20},
		chatting + `admins = ["a"]
users = ["b", "c"]
chats = ["#d"]
pairing = false
busy = "steer"
groups = "everything"
per_user = true
join_within = "2s"
max_file = "1MiB"`: {Admins: []string{"a"}, Users: []string{"b", "c"}, Chats: []string{"#d"},
			BusyMode: mailroom.ModeSteer, Join: 2 * time.Second, AllGroupMessages: true, PerUser: true, MaxFileSize: 1 << 20},
	} {
		c, err := parse("f.toml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, c.Channels["net"].Chat.Access); diff != "" {
			t.Errorf("of %s (-want +got):\n%s", file, diff)
		}
	}
	refused(t, chatting+`busy = "reject"`,
		`f.toml:6: channels.net.busy: "reject" is not one of queue, steer, interrupt, collect`)
	refused(t, chatting+`join_within = "6s"`,
		`f.toml:6: channels.net.join_within: "6s" is not a duration from 0s to 5s, such as "1m30s"`)
	refused(t, chatting+`groups = "some"`, `f.toml:6: channels.net.groups: "some" is not one of addressed, everything`)
}

func TestATargetOfKindChatMustNameAConversationOfAChannel(t *testing.T) {
	const target = chatting + "[targets.ops]\nkind = \"chat\"\n"
	if c, err := parse("f.toml", []byte(target+`thread = "net:bot:%23ops"`)); err != nil ||
		*c.Targets["ops"].Settings.Chat != "net:bot:%23ops" {
		t.Errorf("got %v", err)
	}
	refused(t, target,
		"f.toml:6: targets.ops: missing thread; set the id of a conversation of a channel, as `mailroom threads` shows it")
	refused(t, target+`thread = "demo"`,
		`f.toml:6: targets.ops: thread "demo" is not a conversation of a channel, whose id has the channel, the bot and the chat`)
	refused(t, target+`thread = "other:bot:ann"`,
		`f.toml:8: targets.ops.thread: "other:bot:ann" is of the channel "other", which is not a chat channel of this server`)
}

// Each request of a webhook is a run of its own, unless the channel's table sets join_within.
func TestAWebhookJoinsNoMessagesByDefault(t *testing.T) {
	const hook = "[channels.net]\nkind = \"webhook\"\nagent = \"echo\"\ntoken_env = \"SECRET\"\n"
	for table, want := range map[string]time.Duration{hook: 0, hook + "join_within = \"1s\"\n": time.Second} {
		c, err := parse("f.toml", []byte(table))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Channels["net"].Chat.Access.Join; got != want {
			t.Errorf("join_within of %s is %s, want %s", table, got, want)
		}
	}
}
