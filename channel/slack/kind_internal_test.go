package slack

import (
	"strings"
	"testing"

	"mailroom/channel/slack/slacktest"
)

func TestTheBotIsKnownWithItsMissingScopes(t *testing.T) {
	t.Parallel()
	sl := slacktest.New(t)
	sl.RemoveScopes("files:read", "im:history")
	o := Options{API: sl.URL, Token: func() (string, error) {
		return slacktest.Token, nil
	}, AppToken: func() (string, error) {
		return slacktest.AppToken, nil
	}}
	bot, err := identify(t.Context(), o)
	if err != nil || bot.ID != slacktest.BotID || bot.Team != "Work" ||
		strings.Join(bot.MissingScopes, ",") != "files:read,im:history" {
		t.Errorf("the bot is %+v, %v", bot, err)
	}
	sl.WaitFor(t, "the end of all sockets", func() bool { return sl.Sockets() == 0 })
}
