package mail_test

import (
	"net"
	"strings"
	"testing"

	"mailroom/alert/mail"
	"mailroom/alert/target"
	"mailroom/internal/machinetest"
	"mailroom/internal/setting"
)

// resolver resolves every name to a loopback address.
func resolver(t *testing.T) *net.Resolver { return machinetest.Resolver(t, [4]byte{127, 0, 0, 1}) }

func trySet(s *target.Settings, key string, value any) error {
	for _, k := range s.Keys {
		if k.Key == key {
			return k.Value.Set(value)
		}
	}
	panic("there is no key " + key)
}

func set(t *testing.T, s *target.Settings, key string, value any) {
	t.Helper()
	if err := trySet(s, key, value); err != nil {
		t.Fatalf("%s = %v: %v", key, value, err)
	}
}

// valid are settings that need nothing more.
func valid() map[string]any {
	return map[string]any{"server": "smtp.example.org", "from": "alerts@example.org", "to": []any{"ops@example.org"}}
}

func TestSettings(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("ops@example.org, ", 11), ", ")
	for name, c := range map[string]struct {
		change map[string]any
		want   string // in the error; "" is none
	}{
		"only what is required":    {},
		"a port":                   {map[string]any{"server": "smtp.example.org:2525"}, ""},
		"an address":               {map[string]any{"server": "8.8.8.8:587"}, ""},
		"an IPv6 address":          {map[string]any{"server": "[2606:2800:220:1::1]:587"}, ""},
		"an IPv6 address, no port": {map[string]any{"server": "2606:2800:220:1::1"}, ""},
		"names": {map[string]any{"from": "Mail Röom <a@example.org>",
			"to": []any{`"On, call" <b@example.org>`}}, ""},
		"a quoted address": {map[string]any{"to": []any{`"on-call team"@example.org`}},
			"address itself is ASCII"},
		"addresses with commas":    {map[string]any{"to": "ops@example.org, On call <oncall@example.org>"}, ""},
		"a user and a password":    {map[string]any{"user": "x", "password_file": "pw"}, ""},
		"no server":                {map[string]any{"server": ""}, "missing server"},
		"no from":                  {map[string]any{"from": ""}, "missing from"},
		"no to":                    {map[string]any{"to": []any{}}, "to has 0 addresses; set 1 to 10"},
		"too many":                 {map[string]any{"to": many}, "to has 11 addresses; set 1 to 10"},
		"a URL as server":          {map[string]any{"server": "smtp://smtp.example.org"}, "a mail server such as"},
		"no port after the colon":  {map[string]any{"server": "smtp.example.org:"}, "a mail server such as"},
		"a port out of range":      {map[string]any{"server": "smtp.example.org:99999"}, "a mail server such as"},
		"two servers":              {map[string]any{"server": "a.example.org b.example.org"}, "a mail server such as"},
		"a server with a newline":  {map[string]any{"server": "a.example.org\r\nQUIT"}, "a mail server such as"},
		"another tls":              {map[string]any{"tls": "maybe"}, `required`},
		"from is no address":       {map[string]any{"from": "alerts"}, "an address such as"},
		"from with a header":       {map[string]any{"from": "a@example.org\r\nBcc: b@example.org"}, "an address such as"},
		"from is not ASCII":        {map[string]any{"from": "ä@example.org"}, "the address itself is ASCII"},
		"to is no address":         {map[string]any{"to": []any{"ops@example.org", "nowhere"}}, "an address such as"},
		"to has an empty address":  {map[string]any{"to": []any{""}}, "an address such as"},
		"to has text that is none": {map[string]any{"to": "ops@example.org;b@example.org"}, "an address such as"},
		"to is not ASCII":          {map[string]any{"to": "ops@exämple.org"}, "the address itself is ASCII"},
		"a very long address": {map[string]any{"to": []any{"a@" + strings.Repeat("example.", 40) + "org"}},
			"an address such as"},
		"loopback": {map[string]any{"server": "127.0.0.1:25", "tls": "none"},
			"127.0.0.1 is a loopback address; to use it, add it to the setting allow"},
		"loopback by name":           {map[string]any{"server": "localhost:25"}, "to use it, add it to the setting allow"},
		"a private network":          {map[string]any{"server": "10.1.2.3"}, "to use it, add it to the setting allow"},
		"a private network, allowed": {map[string]any{"server": "10.1.2.3", "allow": []any{"10.0.0.0/8"}}, ""},
		"allow is no network":        {map[string]any{"allow": []any{"ten"}}, "neither an address nor a network"},
		"no TLS": {map[string]any{"tls": "none"},
			"tls is none, and smtp.example.org is another machine"},
		"no TLS, insecure": {map[string]any{"tls": "none", "insecure": true}, ""},
		"no TLS, on loopback": {map[string]any{"server": "localhost:25", "tls": "none", "allow": []any{"127.0.0.1"}},
			""},
		"a user without a password": {map[string]any{"user": "x"}, "user needs a password"},
		"a password without a user": {map[string]any{"password_env": "PW"}, "a password needs a user"},
		"a password from two sources": {map[string]any{"user": "x", "password_env": "PW", "password_file": "pw"},
			"password_env and password_file are both set"},
		"a user with a control letter": {map[string]any{"user": "x\r\ny"}, "control"},
	} {
		t.Run(name, func(t *testing.T) {
			s := mail.NewKind().New()
			all := valid()
			for key, value := range c.change {
				all[key] = value
			}
			var err error
			for key, value := range all {
				if err = trySet(s, key, value); err != nil {
					break
				}
			}
			if err == nil {
				err = setting.CheckRequired(s.Keys)
			}
			if err == nil {
				err = s.Check()
			}
			if err == nil {
				_, err = s.Open("mail")
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestAddressesInOneTextBecomeAList(t *testing.T) {
	s := mail.NewKind().New()
	set(t, s, "to", "ops@example.org, On call <oncall@example.org>")
	for _, k := range s.Keys {
		if k.Key == "to" {
			if got, want := setting.TOML(
				k.Value.Get()), `["ops@example.org", "\"On call\" <oncall@example.org>"]`; got != want && strings.ReplaceAll(got,
				"'", `"`) != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
}

// The command that adds a target asks only for settings that exist, and for a password only with a user.
func TestTheQuestionsMatchTheSettings(t *testing.T) {
	s := mail.NewKind().New()
	for _, q := range s.Setup.Questions {
		known := false
		for _, k := range s.Keys {
			known = known || k.Key == q.Key && (q.Secret != "") == (k.Secret != nil)
		}
		if !known {
			t.Errorf("question %s has no setting", q.Key)
		}
		if q.Key != "password_file" {
			continue
		}
		if words := q.Prompt(); words != "" {
			t.Errorf("without a user, it asks %q", words)
		}
		set(t, s, "user", "alerts@example.org")
		if words := q.Prompt(); words != "Password of alerts@example.org: " {
			t.Errorf("it asks %q", words)
		}
	}
}
