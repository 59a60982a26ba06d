package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"mailroom/channel/channeltest"
	"mailroom/channel/chat"
	"mailroom/channel/webhook"
	"mailroom/channel/webhook/webhooktest"
)

// TestAWebhookIsAChannelOverABadNetwork has faults between the adapter and a receiver that
// deduplicates by id.
func TestAWebhookIsAChannelOverABadNetwork(t *testing.T) {
	t.Parallel()
	channeltest.RunNetfaults(t, func(t *testing.T, through func(addr string) string) *channeltest.Platform {
		receiver := webhooktest.NewReceiver(t)
		hooks := webhook.NewHooks()
		o := webhook.Options{
			Secret: func() (string, error) { return webhooktest.Secret, nil }, Hooks: hooks,
			URL: through(receiver.URL), Policy: loopback(), Timeout: 500 * time.Millisecond,
		}
		pace := o.ReconnectPolicy()
		pace.InitialDelay, pace.MaxDelay = 10*time.Millisecond, 50*time.Millisecond
		face := hooks.Protocol()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.SetPathValue("channel", "c")
			w.WriteHeader(http.StatusAccepted)
			if _, err := face.Answer(r); err != nil {
				t.Errorf("what is posted is not taken: %v", err)
			}
		}))
		t.Cleanup(server.Close)
		program := webhooktest.Program{URL: server.URL, Key: webhooktest.Key}
		return &channeltest.Platform{
			Kind: webhook.Kind, Reconnect: pace, Connect: chat.Connect(chat.Options{Agent: channeltest.Agent, Access: chat.AccessPolicy{AllowAll: true}}, o.Dial),
			Post: func(id, text string) {
				if _, err := program.Post("c", id, webhooktest.Message("r", "ann", text), nil); err != nil {
					t.Error(err)
				}
			},
			Sent: receiver.Texts, History: true, ExactlyOnce: true,
		}
	})
}
