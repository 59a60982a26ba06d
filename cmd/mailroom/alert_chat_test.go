package main

import (
	"fmt"
	"regexp"
	"testing"

	"mailroom/alert/alerttest"
	"mailroom/api"
	"mailroom/channel/chat/outbound"
	"mailroom/channel/platformtest"
	"mailroom/channel/telegram/telegramtest"
)

// chatPlace is a chat with Ann on Telegram. A message that may have arrived before is marked in the log of the
// channel's delivery thread.
func chatPlace(t *testing.T, h *fixture) place {
	tg := telegramtest.New(t)
	ann := tg.Person("Ann")
	chat := ann.Private()
	h.writeSecret("tg", "token", telegramtest.Token)
	room := fmt.Sprintf("tg:%d:%d", telegramtest.BotID, ann.ID)
	out := "out:" + room
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	return place{
		config: fmt.Sprintf(
			"kind = \"chat\"\nthread = %q\n[channels.tg]\nkind = \"telegram\"\nagent = \"tour\"\ntoken_file = %q\n%sapi = %q\npoll = \"1s\"\npreviews = false\nusers = [\"%d\"]\n",
			room, h.dir.ChannelSecret("tg", "token"), retryQuickly, tg.URL, ann.ID),
		fail: func(f alerttest.Fault) {
			switch f {
			case alerttest.HoldOpen:
				tg.Fail("sendMessage", platformtest.Fault{Hang: true})
			case alerttest.LoseAnswer:
				tg.Fail("sendMessage", platformtest.Fault{Hold: hold})
			default:
				tg.ClearFaults()
			}
		},
		seen: func() int { return len(tg.Calls("sendMessage")) },
		taken: func() (all []seenAlert) {
			for _, text := range chat.Texts() {
				all = append(all, seenAlert{deny: pressOnPage(linkOfChat(text))})
			}
			for i := range h.count(out, outbound.KindRepeated) {
				all[len(all)-1-i].repeated = true
			}
			return all
		},
		begin: func(f *alertFixture) string {
			f.waitChannel("tg", api.ChannelConnected)
			return out
		},
	}
}

// linkOfChat returns the link in a message of a chat.
func linkOfChat(text string) string {
	if found := regexp.MustCompile(`https://mail\.example\.org/decide#(\S+)`).FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}
