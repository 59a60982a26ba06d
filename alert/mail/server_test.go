package mail_test

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"mailroom"
	"mailroom/alert"
	"mailroom/alert/alerttest"
	"mailroom/alert/mail"
	"mailroom/channel/kind"
	"mailroom/internal/netguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	key    = "0123456789abcdef0123456789abcdef"
	ops    = "ops@" + alerttest.Domain
	onCall = "oncall@" + alerttest.Domain
)

func loopback() netguard.Policy {
	return netguard.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
}

// options are those of a target of a server.
func options(s *alerttest.Server, to ...string) mail.Options {
	return mail.Options{
		Server: s.Addr, TLS: mail.TLSRequired, Policy: loopback(), User: alerttest.User, Roots: s.Roots,
		Password: func() (string, error) { return alerttest.Password, nil },
		From:     "Mailroom <alerts@" + alerttest.Domain + ">", To: to,
	}
}

func send(t *testing.T, o mail.Options, m alert.Message) (string, error) {
	t.Helper()
	target, err := mail.New(o)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := target.Send(t.Context(), m)
	for _, text := range []string{receipt, errorText(err)} {
		if strings.Contains(text, alerttest.Password) || strings.ContainsAny(text, "\r\n\x1b") {
			t.Errorf("a receipt or an error has the password or several lines: %q", text)
		}
	}
	return receipt, err
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// wantFailure checks the class of an error and that its text says want.
func wantFailure(t *testing.T, err error, class mailroom.Class, unknown bool, want string) {
	t.Helper()
	if err == nil || mailroom.AsFailure(err).Class != class || errors.Is(err, mailroom.ErrUnknown) != unknown ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want class %s, unknown %t and %q", err, class, unknown, want)
	}
}

func TestAMessageArrivesWithBothParts(t *testing.T) {
	const body = "first line\n.\n..two dots\nGrüße 世界\n\t<b>&</b>"
	message := alert.Message{Key: key, Title: "coder asks: Grüße?", Body: body,
		URL: "https://mail.example.org/decide#abc.def"}
	for name, c := range map[string]struct {
		server alerttest.Options
		change func(*mail.Options, *alerttest.Server)
	}{
		"STARTTLS": {change: func(*mail.Options, *alerttest.Server) {}},
		"STARTTLS by name": {change: func(o *mail.Options, _ *alerttest.Server) {
			o.Server = strings.Replace(o.Server, "127.0.0.1", "localhost", 1)
		}},
		"TLS from the start": {change: func(o *mail.Options, s *alerttest.Server) {
			o.TLS, o.Server = mail.TLSImplicit, s.TLSAddr
		}},
		"AUTH LOGIN": {alerttest.Options{Login: true}, func(*mail.Options, *alerttest.Server) {}},
		"no TLS": {alerttest.Options{NoTLS: true}, func(o *mail.Options, _ *alerttest.Server) {
			o.TLS = mail.TLSNone
		}},
		"no TLS, AUTH LOGIN": {alerttest.Options{NoTLS: true, Login: true}, func(o *mail.Options, _ *alerttest.Server) {
			o.TLS = mail.TLSNone
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := alerttest.Start(t, c.server)
			o := options(s, ops, "On call <"+onCall+">")
			c.change(&o, s)
			receipt, err := send(t, o, message)
			if err != nil || !strings.HasPrefix(receipt, "OK id=") {
				t.Fatalf("receipt %q, error %v", receipt, err)
			}
			for _, user := range []string{"ops", "oncall"} {
				header, parts := parse(t, s.Wait(user, 1)[0])
				if got := header.Get("Message-Id"); got != "<"+key+"@"+alerttest.Domain+">" {
					t.Errorf("Message-ID %s", got)
				}
				if got := header.Get("Subject"); got != message.Title {
					t.Errorf("subject %q", got)
				}
				if want := message.Title + "\n\n" + body + "\n\nOpen:\n" + message.URL + "\n"; parts["text/plain"] != want {
					t.Errorf("text %q, want %q", parts["text/plain"], want)
				}
				if got := parts["text/html"]; !strings.Contains(got, "<a href=\""+message.URL+"\"") ||
					!strings.Contains(got, "\t&lt;b&gt;&amp;&lt;/b&gt;</pre>") {
					t.Errorf("HTML %s", got)
				}
			}
		})
	}
}

// parse returns the header of a message, whose subject is decoded, and its parts by their media type.
func parse(t *testing.T, raw string) (netmail.Header, map[string]string) {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	m.Header["Subject"] = []string{subject}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if err == io.EOF {
			return m.Header, parts
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		media, _, _ := strings.Cut(p.Header.Get("Content-Type"), ";")
		parts[media] = string(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")))
	}
}

func TestARepeatedMailHasTheSameMessageIDAndAMark(t *testing.T) {
	s := alerttest.Start(t, alerttest.Options{})
	m := alert.Message{Key: key, Title: "coder failed"}
	var ids, subjects []string
	for _, m.Repeated = range []bool{false, true} {
		if _, err := send(t, options(s, ops), m); err != nil {
			t.Fatal(err)
		}
		all := s.Wait("ops", len(ids)+1)
		ids = nil
		for _, raw := range all {
			header, _ := parse(t, raw)
			ids, subjects = append(ids, header.Get("Message-Id")), append(subjects, header.Get("Subject"))
		}
	}
	if len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("Message-IDs %q, want the same twice", ids)
	}
	if got := strings.Join(subjects, ", "); !strings.Contains(got, "(repeated) coder failed") {
		t.Errorf("subjects %s, want one that says that it is repeated", got)
	}
}

func TestAWrongPasswordIsAnOutageUntilItIsCorrected(t *testing.T) {
	s := alerttest.Start(t, alerttest.Options{})
	o := options(s, ops)
	password := "wrong"
	o.Password = func() (string, error) { return password, nil }
	target, err := mail.New(o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = target.Send(t.Context(), alert.Message{Key: key, Title: "x"})
	wantFailure(t, err, mailroom.ClassUnavailable, false,
		"sign in as mailroom: 127.0.0.1 answered 535 Incorrect authentication data")
	if strings.Contains(errorText(err), password) {
		t.Errorf("the error has the password: %v", err)
	}
	password = alerttest.Password
	if _, err := target.Send(t.Context(), alert.Message{Key: key, Title: "x"}); err != nil {
		t.Error(err)
	}
	o.Password = func() (string, error) { return "", errors.New("no such file") }
	_, err = send(t, o, alert.Message{Key: key, Title: "x"})
	wantFailure(t, err, mailroom.ClassUnavailable, false, "no such file")
}

func TestRefusedRecipients(t *testing.T) {
	s := alerttest.Start(t, alerttest.Options{})
	const unknown, busy = "missing@" + alerttest.Domain, "busy@" + alerttest.Domain
	sent := 0
	for _, c := range []struct {
		name    string
		to      []string
		receipt string // "" is an error
		class   mailroom.Class
		want    string
	}{
		{"unknown", []string{unknown}, "", mailroom.ClassPermanent, "recipient <" + unknown + ">: 127.0.0.1 answered 550 unknown user"},
		{"all unknown", []string{unknown, "x@elsewhere.example"}, "", mailroom.ClassPermanent, "550"},
		{"refused for now", []string{busy}, "", mailroom.ClassUnavailable, "451 mailbox busy"},
		{"refused, one for now", []string{busy, unknown}, "", mailroom.ClassUnavailable, "451 mailbox busy"},
		{"one accepted", []string{unknown, ops, busy}, "not to " + unknown + ": 550 unknown user; not to " + busy +
			": 451 mailbox busy, try later; OK id=", "", ""},
	} {
		receipt, err := send(t, options(s, c.to...), alert.Message{Key: key, Title: "x"})
		if c.receipt == "" {
			wantFailure(t, err, c.class, false, c.want)
			continue
		}
		sent++
		if err != nil || !strings.HasPrefix(receipt, c.receipt) {
			t.Errorf("%s: receipt %q, error %v", c.name, receipt, err)
		}
	}
	if got := len(s.Wait("ops", sent)); got != sent {
		t.Errorf("%d messages arrived, want %d", got, sent)
	}
}

func TestARefusedContentIsPermanent(t *testing.T) {
	s := alerttest.Start(t, alerttest.Options{})
	_, err := send(t, options(s, ops), alert.Message{Key: key, Title: alerttest.RefusedSubject})
	wantFailure(t, err, mailroom.ClassPermanent, false, "550 content refused")
}

func TestAServerThatIsDownIsAnOutage(t *testing.T) {
	s := alerttest.Start(t, alerttest.Options{})
	s.Stop()
	_, err := send(t, options(s, ops), alert.Message{Key: key, Title: "x"})
	wantFailure(t, err, mailroom.ClassUnavailable, false, "connection refused")
	s.Up()
	if _, err := send(t, options(s, ops), alert.Message{Key: key, Title: "x"}); err != nil {
		t.Error(err)
	}
}

func TestWithoutTLSNothingIsSent(t *testing.T) {
	m := alert.Message{Key: key, Title: "x"}
	plain := alerttest.Start(t, alerttest.Options{NoTLS: true})
	_, err := send(t, options(plain, ops), m)
	wantFailure(t, err, mailroom.ClassUnavailable, false, "does not offer STARTTLS, so nothing was sent")

	s := alerttest.Start(t, alerttest.Options{})
	o := options(s, ops)
	o.TLS = mail.TLSImplicit
	_, err = send(t, o, m)
	wantFailure(t, err, mailroom.ClassUnavailable, false,
		"does not use TLS from the start: correct the port, or set tls to required")

	o = options(s, ops)
	o.TLS = mail.TLSNone
	_, err = send(t, o, m) // this server takes passwords on encrypted connections only
	wantFailure(t, err, mailroom.ClassUnavailable, false, "does not offer to sign in on this connection")
	if got := append(plain.Mail("ops"), s.Mail("ops")...); len(got) != 0 {
		t.Errorf("arrived: %q", got)
	}
}

func TestACertificateThatIsNotTrustedIsNamed(t *testing.T) {
	s := alerttest.Start(t, alerttest.Options{})
	for mode, at := range map[mail.TLS]string{mail.TLSRequired: s.Addr, mail.TLSImplicit: s.TLSAddr} {
		o := options(s, ops)
		o.TLS, o.Server, o.Roots = mode, at, nil
		_, err := send(t, o, alert.Message{Key: key, Title: "x"})
		wantFailure(t, err, mailroom.ClassUnavailable, false, "the certificate of "+at+
			" is not trusted: tls: failed to verify certificate: x509: ")
	}
	o := options(s, ops)
	o.Server = strings.Replace(s.Addr, "127.0.0.1", "mail.localhost", 1)
	o.Policy.Resolver = resolver(t)
	_, err := send(t, o, alert.Message{Key: key, Title: "x"})
	wantFailure(t, err, mailroom.ClassUnavailable, false, "not mail.localhost")
}

func TestTheProbeSendsATestMessage(t *testing.T) {
	s := alerttest.Start(t, alerttest.Options{NoTLS: true})
	settings := mail.NewKind().New()
	for key, value := range map[string]any{
		"server": s.Addr, "tls": "none", "user": alerttest.User, "from": "alerts@" + alerttest.Domain,
		"to": ops + ", " + onCall, "allow": []any{"127.0.0.0/8"},
	} {
		set(t, settings, key, value)
	}
	for _, k := range settings.Keys {
		if k.Key == "password_file" {
			k.Secret.File = "smtp.password"
			k.Secret.Hold(alerttest.Password)
		}
	}
	if err := settings.Check(); err != nil {
		t.Fatal(err)
	}
	found, err := settings.Setup.Probe(t.Context(), kind.Place{Channel: "ops"})
	if err != nil || len(found.Account) != 1 || !strings.HasPrefix(found.Account[0], "the server took a test message for "+
		ops+", "+onCall+" (OK id=") {
		t.Fatalf("found %+v, error %v", found, err)
	}
	header, parts := parse(t, s.Wait("oncall", 1)[0])
	if header.Get("Subject") != "Test of Mailroom" ||
		!strings.Contains(parts["text/plain"], "Alerts for ops arrive here.") {
		t.Errorf("subject %q, text %q", header.Get("Subject"), parts["text/plain"])
	}
}
