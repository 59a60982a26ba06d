package slackgo

import (
	"context"
	"testing"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
	"github.com/slack-go/slack/socketmode"

	"mailroom/channel/slack/slacktest"
)

// TestSlackGoClientWorksWithTheFake connects slack-go to the fake, receives a message and sends
// one.
func TestSlackGoClientWorksWithTheFake(t *testing.T) {
	sl := slacktest.New(t)
	ann := sl.Person("Ann")
	api := slack.New(slacktest.Token, slack.OptionAPIURL(sl.URL+"/"), slack.OptionAppLevelToken(slacktest.AppToken))
	who, err := api.AuthTestContext(t.Context())
	if err != nil || who.UserID != slacktest.BotID || who.TeamID != slacktest.TeamID {
		t.Fatalf("bot %+v, %v", who, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	socket := socketmode.New(api)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = socket.RunContext(ctx) // ends with ctx
	}()
	sent := ann.Sends(ann.Private(), "hello")
	for e := range socket.Events {
		if e.Type == socketmode.EventTypeConnectionError || e.Type == socketmode.EventTypeInvalidAuth {
			t.Fatalf("connection error: %+v", e.Data)
		}
		outer, ok := e.Data.(slackevents.EventsAPIEvent)
		if !ok {
			continue
		}
		message := outer.InnerEvent.Data.(*slackevents.MessageEvent)
		if message.Text != "hello" || message.TimeStamp != sent || message.ChannelType != "im" || message.User != ann.ID {
			t.Errorf("received %+v", message)
		}
		if err := socket.Ack(*e.Request); err != nil {
			t.Fatal(err)
		}
		break
	}
	sl.WaitFor(t, "the acknowledgement", func() bool { return sl.Pending() == 0 })
	cancel()
	<-done
	channel, ts, err := api.PostMessageContext(t.Context(), ann.Private().ID, slack.MsgOptionText("a & b", true),
		slack.MsgOptionMetadata(slack.SlackMetadata{EventType: "t", EventPayload: map[string]any{"key": "k"}}))
	if err != nil || channel != ann.Private().ID {
		t.Fatalf("sent %s in %s, %v", ts, channel, err)
	}
	history, err := api.GetConversationHistoryContext(t.Context(), &slack.GetConversationHistoryParameters{
		ChannelID: channel, Oldest: sent, Limit: 5, IncludeAllMetadata: true,
	})
	if err != nil || len(history.Messages) != 1 || history.Messages[0].Metadata.EventPayload["key"] != "k" ||
		history.Messages[0].Timestamp != ts {
		t.Errorf("history %+v, %v", history, err)
	}
	if texts := ann.Private().Texts(); len(texts) != 1 || texts[0] != "a & b" {
		t.Errorf("Ann got %q", texts)
	}
}
