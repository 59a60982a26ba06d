package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mailroom/channel"
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
		want     Discord
		pace     channel.ReconnectPolicy
	}{
		"by itself": {"", Discord{API: discord.DefaultAPI, Beat: discord.DefaultHeartbeat}, channel.ReconnectPolicy{IdleTimeout: time.Minute, ConnectTimeout: 40 * time.Second}},
		"elsewhere": {
			"api = \"http://127.0.0.1:8000/api/v10\"\nbeat = \"1s\"", Discord{API: "http://127.0.0.1:8000/api/v10", Beat: time.Second},
			channel.ReconnectPolicy{IdleTimeout: 2 * time.Second, ConnectTimeout: 40 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := Parse("f.toml", []byte(community+c.settings))
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse("g.toml", []byte(read.TOML(true)))
			if err != nil {
				t.Fatal(err)
			}
			for _, from := range []*Config{read, again} {
				ch := from.Channels["dc"]
				if diff := cmp.Diff(&c.want, ch.Platform); diff != "" || !ch.IsChat() {
					t.Error(diff)
				}
				if dial, pace := ch.Dial(); dial == nil || pace != c.pace {
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
