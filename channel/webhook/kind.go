package webhook

import (
	"errors"
	"fmt"

	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/channel/kind"
	"mailroom/internal/netguard"
	"mailroom/internal/setting"
)

// NewKind returns the platform of programs that send and receive webhooks.
func NewKind() kind.Kind {
	return kind.Kind{Name: Kind, Chat: true, New: func() kind.Settings { return newSettings() }}
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
	if err := s.Token.CheckToken(); err != nil {
		return err
	}
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

// ReconnectPolicy implements [kind.Settings].
func (s *Settings) ReconnectPolicy() channel.ReconnectPolicy { return s.Options.ReconnectPolicy() }
