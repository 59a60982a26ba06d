package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/netguard"
	"mailroom/internal/setting"
)

// NewKind returns the platform of programs that send and receive webhooks.
func NewKind() kind.Kind {
	return kind.Kind{
		Name: Kind, Chat: true, New: func() kind.Settings { return newSettings() },
		Connection: "signed requests in both directions", AfterCrash: "once for a receiver that deduplicates by id", Capabilities: capabilities(),
	}
}

// Settings are those of one program.
type Settings struct {
	Token    setting.Secret // the signing secrets
	Anybody  bool           // every user that a signed request names may talk
	Networks []string       // that the policy of the options allows
	Options  Options
}

func newSettings() *Settings {
	s := &Settings{Anybody: true}
	s.Options.Secret = s.Token.Get
	return s
}

// Keys implements [kind.Settings].
func (s *Settings) Keys() []setting.Setting {
	o := &s.Options
	return append(kind.Token(&s.Token),
		setting.New("url", "HTTPS URL to post replies to; empty means that replies are only in the log.", postURL(&o.URL)),
		setting.New("insecure", "Allow http URLs of other machines.", setting.Bool(&o.Insecure)),
		setting.New("allow", "Private networks and addresses that url may use, such as \"10.0.0.0/8\".", s.allowed()),
		setting.New("edits", "The program supports edits: it gets previews, and updates of answered questions.", setting.Bool(&o.Edits)),
		setting.New("anybody", "Every user that a signed request names may talk; false applies admins, users, chats and pairing.", setting.Bool(&s.Anybody)),
	)
}

// postURL is a URL to post to. Errors never show it, because it can contain a secret.
func postURL(p *string) setting.Value {
	return setting.Value{
		Set: func(v any) error {
			s, isText := v.(string)
			if !isText {
				return setting.Invalid(v, `a URL such as "https://example.org/hook"`)
			}
			if _, err := netguard.URL(s, true); s != "" && err != nil {
				return err
			}
			*p = s
			return nil
		},
		Get: func() any { return *p },
	}
}

// allowed is the list of networks in the policy.
func (s *Settings) allowed() setting.Value {
	v := setting.List(&s.Networks)
	return setting.Value{
		Set: func(given any) (err error) {
			if err = v.Set(given); err == nil {
				s.Options.Policy.Allow, err = netguard.Prefixes(s.Networks)
			}
			return err
		},
		Get: v.Get,
	}
}

// Check implements [kind.Settings].
func (s *Settings) Check() error {
	err := s.Options.Check()
	if errors.Is(err, netguard.ErrRefused) {
		return fmt.Errorf("%w; to allow it, add it to allow", err)
	}
	return err
}

// Connect implements [kind.Settings].
func (s *Settings) Connect(o chat.Options) channel.Connect {
	o.Access = s.AccessPolicy(o.Access)
	return chat.Connect(o, s.Options.Dial)
}

// AccessPolicy returns p, with access for all if the settings say so.
func (s *Settings) AccessPolicy(p chat.AccessPolicy) chat.AccessPolicy {
	p.AllowAll = s.Anybody
	return p
}

// Setup implements [kind.Settings].
func (s *Settings) Setup() *kind.Setup {
	return &kind.Setup{
		Short: "Connect a program to an agent with webhooks",
		Long: `The program posts its messages to this server, and the server posts replies to --url.
A shared secret signs both. Without --url, replies are only in the thread's log. The
command generates a secret unless --token-file is given, stores it in a file of the data
folder that only the owner can read, and adds a table [channels.NAME] to mailroom.toml
there. NAME is part of the URL on this server. Restart a running server to load the
channel.

Access: every user that a signed request names, unless the table sets anybody = false.`,
		Example: `  mailroom channels add webhook --agent codex --url https://app.example.org/agent
  mailroom channels add webhook --name ci --url http://10.1.2.3:9000/ --insecure --allow 10.0.0.0/8`,
		Questions: []kind.Question{
			{Key: "url", Usage: "URL to post replies to"},
			{Key: "allow", Usage: "private network or address that --url may use; may be repeated"},
			{Key: "insecure", Usage: "allow http in --url"},
			{Key: "edits", Usage: "the program supports edits of messages"},
			{Key: "token_file", Secret: "token", Usage: "use the secret in this file; the file is not copied", Generate: NewSecret, Check: CheckSecret},
		},
		Probe: s.probe,
	}
}

// probe makes no request: there is no connection.
func (s *Settings) probe(_ context.Context, at kind.Place) (found kind.Found, err error) {
	secret, err := s.Token.Get()
	if err != nil {
		return found, err
	}
	found.Account = []string{"the secret is stored in " + s.Token.File}
	found.Next = []string{
		fmt.Sprintf("to send a test message to %s, run this in a shell on this machine:\n", at.Agent),
		curlExample(at.URL, at.Channel, s.Token.File, IsBase64(secret)),
	}
	if s.Options.URL == "" {
		found.Next = append(found.Next, "no --url is set: replies are in the log and are not sent")
	}
	return found, nil
}

// curlExample returns a shell command that signs and sends a message. It contains the path
// of the secret's file, not the secret; coded reports whether the secret is Base64.
func curlExample(server, channel, file string, coded bool) string {
	key := `head -n 1 FILE | tr -d '\n'`
	if coded {
		key += ` | sed s/^whsec_// | base64 -d`
	}
	return strings.NewReplacer("FILE", quote(file), "URL", quote(server+"/v1/hooks/"+url.PathEscape(channel))).Replace(
		strings.ReplaceAll(`body='{"room":"test","user":{"id":"me"},"text":"hello"}' id=try-$(date +%s) at=$(date +%s)
key=$(KEY | od -An -v -tx1 | tr -d ' \n')
signature=$(printf %s "$id.$at.$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
curl -sS URL -H 'Content-Type: application/json' --data-binary "$body" \
  -H "webhook-id: $id" -H "webhook-timestamp: $at" -H "webhook-signature: v1,$signature"
`, "KEY", key))
}

// quote quotes a word for a shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
