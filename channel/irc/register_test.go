package irc

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/channel"
)

func isFatal(err error) bool { return reflect.TypeOf(err) == reflect.TypeOf(channel.Fatal(nil)) }

// runScript runs a registration against a script. Lines of the server begin with "<", lines of the
// client with ">".
func runScript(t *testing.T, r *registration, script string) error {
	t.Helper()
	said, want := r.firstLines(), []string{}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "> "); ok {
			want = append(want, text)
			continue
		}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Fatalf("before %q: %s", line, diff)
		}
		m, ok := parseMessage(strings.TrimPrefix(line, "< "))
		if !ok {
			t.Fatalf("invalid line %q", line)
		}
		say, err := r.handle(m)
		if err != nil {
			return err
		}
		said, want = say, nil
		if r.done {
			return nil
		}
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Fatalf("lines at the end: %s", diff)
	}
	return nil
}

func TestTheBotRegisters(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		secrets Secrets
		script  string
		nick    string
		caps    []string
	}{
		"a small server": {Options{Nick: "bot", Name: "A bot"}, Secrets{}, `
			> CAP LS 302
			> NICK bot
			> USER bot 0 * :A bot
			< :s CAP * LS :multi-prefix
			> CAP END
			< PING :x y
			> PONG :x y
			< :s 001 bot :Welcome
			< :s 005 bot CASEMAPPING=ascii CHANTYPES=#& CHANNELLEN=64 NICKLEN=9 :are supported
			< :s 376 bot :End of MOTD
			> USERHOST bot
			< :s 302 bot :bot=+~bot@host.example`, "bot", nil},
		"without capabilities": {Options{Nick: "bot"}, Secrets{Server: "s e"}, `
			> CAP LS 302
			> PASS :s e
			> NICK bot
			> USER bot 0 * :
			< :s 421 * CAP :Unknown command
			< :s 001 bot :Welcome
			< :s 422 bot :No MOTD
			> USERHOST bot
			< :s 421 bot USERHOST :Unknown command`, "bot", nil},
		"with an account": {Options{Nick: "bot", Account: "acc"}, Secrets{Account: "pw"}, `
			> CAP LS 302
			> NICK bot
			> USER bot 0 * :
			< :s CAP * LS * :sasl=EXTERNAL,PLAIN account-tag
			> CAP REQ :account-tag
			< :s CAP * LS :server-time away-notify
			> CAP REQ :server-time
			> CAP REQ :sasl
			< :s CAP * ACK :account-tag
			< :s CAP * NAK :server-time
			< :s CAP * ACK :sasl
			> AUTHENTICATE PLAIN
			< AUTHENTICATE +
			> AUTHENTICATE YWNjAGFjYwBwdw==
			< :s 900 bot bot!b@h acc :You are now logged in
			< :s 903 bot :SASL successful
			> CAP END
			< :s 001 bot :Welcome
			< :s 376 bot :End of MOTD
			> USERHOST bot
			< :s 302 bot :bot=+b@h`, "bot", []string{"account-tag", "sasl"}},
		"with a nick that is taken": {Options{Nick: "bot"}, Secrets{}, `
			> CAP LS 302
			> NICK bot
			> USER bot 0 * :
			< :s 433 * bot :Nickname is already in use
			> NICK bot_
			< :s 432 * bot_ :too long
			> NICK bot__
			< :s 437 * bot__ :unavailable
			> NICK bo_
			< :s 001 bo_ :Welcome
			< :s 376 bo_ :End of MOTD
			> USERHOST bo_
			< :s 302 bo_ :bo_=+b@h`, "bo_", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistration(c.options, c.secrets)
			if err := runScript(t, r, strings.TrimSpace(c.script)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.caps, r.server.caps); !r.done || r.self.nick != c.nick || diff != "" {
				t.Errorf("done is %v, the nick is %s; %s", r.done, r.self.nick, diff)
			}
		})
	}
}

// TestLoginErrorsAreClassified matters because retrying a bad password gets the bot banned, and
// giving up on a busy server makes it unreachable.
func TestLoginErrorsAreClassified(t *testing.T) {
	account := Options{Nick: "bot", Account: "acc"}
	for name, c := range map[string]struct {
		options Options
		lines   []string // sent by the server
		fatal   bool
		says    string
	}{
		"banned": {lines: []string{":s 465 bot :You are banned: spam"}, fatal: true,
			says: "banned from the server: You are banned: spam"},
		"a bad server password": {lines: []string{":s 464 * :Password incorrect"}, fatal: true,
			says: "password: Password incorrect"},
		"a bad account": {account, []string{":s 904 bot :SASL authentication failed"}, true,
			"account or its password: SASL auth"},
		"a locked account":       {account, []string{":s 902 bot :You must use a nick assigned to you"}, true, "account"},
		"another mechanism":      {account, []string{"AUTHENTICATE xyz"}, true, "PLAIN"},
		"no SASL at all":         {account, []string{":s 421 bot CAP :Unknown command"}, true, "has no SASL"},
		"no SASL now":            {account, []string{":s CAP * LS :account-tag"}, false, "no SASL PLAIN"},
		"SASL refused":           {account, []string{":s CAP * LS :sasl", ":s CAP * NAK :sasl"}, false, "refused SASL"},
		"let in without account": {account, []string{":s 001 bot :Welcome"}, false, "without its account"},
		"an invalid nick": {lines: []string{":s 432 * bot :Erroneous nickname"}, fatal: true,
			says: "the nick bot: Erroneous"},
		"all nicks are taken": {lines: strings.Split(strings.Repeat(":s 433 * x :in use\n", 7), "\n")[:7],
			says: "its alternatives are taken"},
		"a password without 464": {lines: []string{"ERROR :Access denied: Bad password?"}, fatal: true,
			says: "password: Access"},
		"banned without 465": {lines: []string{"ERROR :K-Line: spam"}, fatal: true, says: "banned from the server"},
		"a server that is full": {lines: []string{"ERROR :Closing Link: (Too many connections)"},
			says: "Too many connections"},
		"an unknown host": {lines: []string{":s 463 bot :Your host isn't among the privileged"}, fatal: true,
			says: "from this host"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.options.Nick == "" {
				c.options.Nick = "bot"
			}
			r := newRegistration(c.options, Secrets{Account: "secret"})
			var err error
			for i, line := range c.lines {
				m, ok := parseMessage(line)
				if !ok {
					t.Fatalf("invalid line %q", line)
				}
				if _, err = r.handle(m); err != nil && i != len(c.lines)-1 {
					t.Fatalf("after %q: %v", line, err)
				}
			}
			if err == nil || isFatal(err) != c.fatal || !strings.Contains(err.Error(), c.says) ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, fatal %v", err, isFatal(err))
			}
		})
	}
}

func TestALongPasswordIsSentInChunks(t *testing.T) {
	var whole string
	for i, line := range saslPlain("a", strings.Repeat("x", 296)) { // exactly 400 bytes, then an empty chunk
		text := strings.TrimPrefix(line, "AUTHENTICATE ")
		if i == 0 && len(text) != 400 || i == 1 && text != "+" || i > 1 {
			t.Errorf("chunk %d is %q", i, text)
		}
		whole += text
	}
	if len(whole) != 401 {
		t.Errorf("%d bytes", len(whole))
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	good := Options{Server: "irc.example.org", Nick: "bot"}
	for name, c := range map[string]struct {
		change func(o *Options)
		says   string
	}{
		"no server":         {func(o *Options) { o.Server = "" }, "irc.example.org:6697"},
		"an address":        {func(o *Options) { o.Server = "ircs://irc.example.org/x" }, "invalid server"},
		"no nick":           {func(o *Options) { o.Nick = "" }, "missing nick"},
		"two nicks":         {func(o *Options) { o.Nick = "a b" }, "use one word"},
		"a command in it":   {func(o *Options) { o.Nick = "a\r\nQUIT" }, "use one word"},
		"a number":          {func(o *Options) { o.Nick = "9a" }, "begin with a letter"},
		"no channel":        {func(o *Options) { o.Join = []string{"dev"} }, `"#name key"`},
		"two channels":      {func(o *Options) { o.Join = []string{"#a,#b"} }, "invalid channel"},
		"a name of two":     {func(o *Options) { o.Name = "a\nb" }, "one line"},
		"an account of two": {func(o *Options) { o.Account = "a b" }, "use one word"},
		"no password":       {func(o *Options) { o.Account = "a" }, "missing password for account a"},
		"a password for all": {func(o *Options) {
			o.Plain, o.Secrets = true, staticSecrets(Secrets{Server: "x"})
		}, "remove tls = false"},
		"two passwords": {func(o *Options) { o.Secrets = staticSecrets(Secrets{Server: "x\ny"}) }, "must be one line"},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			c.change(&o)
			_, err := o.dial(t.Context(), &hostRecorder{})
			if err == nil || !strings.Contains(err.Error(), c.says) || !isFatal(err) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	for server, want := range map[string]string{
		"irc.example.org": "irc.example.org:6697", "irc.example.org:7000": "irc.example.org:7000", "::1": "[::1]:6697",
		"[::1]": "[::1]:6697", "[::1]:1": "[::1]:1",
	} {
		if got, _, err := (Options{Server: server}).hostPort(); err != nil || got != want {
			t.Errorf("%s is %s, %v", server, got, err)
		}
	}
}

func staticSecrets(s Secrets) func() (Secrets, error) {
	return func() (Secrets, error) { return s, nil }
}
