package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/chat/adapter"
	"mailroom/channel/httpcall"
	"mailroom/channel/kind"
	"mailroom/internal/netguard"
	"mailroom/internal/setting"
)

// NewKind returns the platform of programs that send and receive webhooks.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, Programs: true, New: newSettings,
		Connection: "signed requests in both directions", AfterCrash: "once for a receiver that deduplicates by id",
		Capabilities: capabilities(),
	}
}

func newSettings() *kind.Settings {
	token := new(setting.Secret)
	o := &Options{Secret: token.Get, Anybody: true}
	return &kind.Settings{
		Options: o,
		Keys: append(kind.Token(token),
			setting.New("url", "HTTPS URL to post replies to; empty means that replies are only in the log.", o.urlValue()),
			setting.New("insecure", "Allow http URLs of other machines.", setting.Bool(&o.Insecure)),
			setting.New("allow", "Private networks and addresses that url may use, such as \"10.0.0.0/8\".", o.networks()),
			setting.New("edits", "The program supports edits: it gets previews, and updates of answered questions.",
				setting.Bool(&o.Edits)),
			setting.New("anybody",
				"Every user that a signed request names may talk; false applies admins, users, chats and pairing.",
				setting.Bool(&o.Anybody)),
		),
		Check: func() error {
			err := o.Check()
			if errors.Is(err, netguard.ErrRefused) {
				return fmt.Errorf("%w; to use it, add it to the setting allow", err)
			}
			return err
		},
		Connect: func(in chat.Options) channel.Connect {
			in.Access = o.AccessPolicy(in.Access)
			return adapter.Connect(in, o.Dial)
		},
		Receive: func(in chat.Options) channel.Connect {
			in.Access = o.AccessPolicy(in.Access)
			return adapter.ConnectReceiver(in, o.DialReceiver)
		},
		ReconnectPolicy: func() channel.ReconnectPolicy { return o.ReconnectPolicy() },
		Setup: &kind.Setup{
			Short: "Connect a program to an agent with webhooks",
			About: `The program posts its messages to /v1/hooks/NAME on this server, and the server posts
replies to --url. A shared secret signs both; the command generates one unless
--token-file is given. Without --url, replies are only in the thread's log.`,
			Access:  "every user that a signed request names, unless the table sets anybody = false.",
			Example: "--name ci --url http://10.1.2.3:9000/ --insecure --allow 10.0.0.0/8",
			Questions: []kind.Question{
				{Key: "url", Usage: "URL to post replies to"},
				{Key: "allow", Usage: "private network or address that --url may use; may be repeated"},
				{Key: "insecure", Usage: "allow http in --url"},
				{Key: "edits", Usage: "the program supports edits of messages"},
				{Key: "token_file", Secret: "token", Usage: "use the secret in this file; the file is not copied",
					Generate: httpcall.NewSecret, Check: httpcall.CheckSecret},
			},
			Probe: func(_ context.Context, at kind.Place) (found kind.Found, err error) { // there is no connection
				secret, err := token.Get()
				found.Account = []string{"the secret is stored in " + token.File}
				found.Next = []string{
					fmt.Sprintf("to send a test message to %s, run this in a shell on this machine:\n", at.Agent),
					curlExample(at.URL, at.Channel, token.File, httpcall.IsBase64Secret(secret)),
				}
				if o.URL == "" {
					found.Next = append(found.Next, "no --url is set: replies are in the log and are not sent")
				}
				return found, err
			},
		},
	}
}

// AccessPolicy returns p, with access for all if Anybody is set.
func (o *Options) AccessPolicy(p chat.AccessPolicy) chat.AccessPolicy {
	p.AllowAll = o.Anybody
	return p
}

// urlValue is the URL. Errors never show it, because it can contain a secret.
func (o *Options) urlValue() setting.Value {
	return setting.Value{
		Set: func(v any) error {
			s, isText := v.(string)
			if !isText {
				return setting.Invalid(v, `a URL such as "https://example.org/hook"`)
			}
			if _, err := netguard.URL(s, true); s != "" && err != nil {
				return err
			}
			o.URL = s
			return nil
		},
		Get: func() any { return o.URL },
	}
}

// networks is the list of networks in the policy, as it was written.
func (o *Options) networks() setting.Value {
	var texts []string
	v := setting.List(&texts)
	return setting.Value{
		Set: func(given any) (err error) {
			if err = v.Set(given); err == nil {
				o.Policy.Allow, err = netguard.Prefixes(texts)
			}
			return err
		},
		Get: v.Get,
	}
}

// curlExample returns a shell command that signs and sends a message. It contains the path
// of the secret's file, not the secret; coded reports whether the secret is Base64.
func curlExample(server, channel, file string, coded bool) string {
	key := `head -n 1 FILE | tr -d '\n'`
	if coded {
		key += ` | sed s/^whsec_// | base64 -d`
	}
	quote := func(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
	return strings.NewReplacer("FILE", quote(file), "URL", quote(server+"/v1/hooks/"+url.PathEscape(channel))).Replace(
		strings.ReplaceAll(`body='{"room":"test","user":{"id":"me"},"text":"hello"}' id=try-$(date +%s) at=$(date +%s)
key=$(KEY | od -An -v -tx1 | tr -d ' \n')
signature=$(printf %s "$id.$at.$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
curl -sS URL -H 'Content-Type: application/json' --data-binary "$body" \
  -H "webhook-id: $id" -H "webhook-timestamp: $at" -H "webhook-signature: v1,$signature"
`, "KEY", key))
}
