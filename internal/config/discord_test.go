package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/discord"
)

const community = `[channels.dc]
kind = "discord"
agent = "echo"
token_env = "HUSH"
`

func TestABotOfDiscordIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		settings string
		want     discord.Options
		pace     channel.ReconnectPolicy
	}{
		"by itself": {"", discord.Options{API: discord.DefaultAPI, Heartbeat: discord.DefaultHeartbeat}, channel.ReconnectPolicy{IdleTimeout: time.Minute, ConnectTimeout: 40 * time.Second}},
		"elsewhere": {
			"api = \"http://127.0.0.1:8000/api/v10\"\nbeat = \"1s\"", discord.Options{API: "http://127.0.0.1:8000/api/v10", Heartbeat: time.Second},
			channel.ReconnectPolicy{IdleTimeout: 2 * time.Second, ConnectTimeout: 40 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := parse("f.toml", []byte(community+c.settings))
			if err != nil {
				t.Fatal(err)
			}
			again, err := parse("g.toml", []byte(read.TOML(true)))
			if err != nil {
				t.Fatal(err)
			}
			for _, from := range []*Config{read, again} {
				ch := from.Channels["dc"]
				if diff := cmp.Diff(c.want, *ch.Settings.Options.(*discord.Options), cmpopts.IgnoreFields(discord.Options{}, "Token")); diff != "" || !ch.Kind.Chat {
					t.Error(diff)
				}
				if pace := ch.Settings.ReconnectPolicy(); ch.Settings.Connect(chat.Options{}) == nil || pace != c.pace {
					t.Errorf("it is kept going as %+v", pace)
				}
			}
		})
	}
}

func TestWhatIsWrongWithABotOfDiscordIsNamed(t *testing.T) {
	for setting, want := range map[string]string{
		`beats = "1s"`:            `f.toml:5: channels.dc.beats: unknown key (did you mean "beat"?)`,
		`beat = "1ms"`:            `f.toml:5: channels.dc.beat: "1ms" is not a duration from 100ms to 10m, such as "1m30s"`,
		`api = "discord.com"`:     `f.toml:5: channels.dc.api: "discord.com" is not an address, such as "https://platform.example.org"`,
		`api = "https://u:p@x.y"`: `f.toml:5: channels.dc.api: "…@…" is not an address, such as "https://platform.example.org"`,
		`token_file = "b"`:        `f.toml:1: channels.dc: missing token; set either token_env or token_file (the configuration never contains the token itself)`,
	} {
		refused(t, community+setting, want)
	}
}
