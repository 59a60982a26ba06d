package config

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom/alert/target"
	"mailroom/app/command"
	"mailroom/app/datadir"
	"mailroom/channel"
	"mailroom/channel/kind"
	"mailroom/internal/setting"
)

// fixture runs the setup of a kind with settings of every type.
type fixture struct {
	dir    datadir.Dir
	probe  func(at kind.Place) (kind.Found, error) // nil: finds a bot
	talk   bytes.Buffer
	secret string // the probed one
}

func (f *fixture) newSettings() *kind.Settings {
	var token setting.Secret
	var room, color, user string
	var loud bool
	quiet := true
	var names []string
	return &kind.Settings{
		Keys: append(kind.Token(&token),
			setting.New("room", "A room.", setting.Text(&room)).Require("missing room"),
			setting.New("color", "A color.", setting.OneOf(&color, "", "red", "blue")),
			setting.New("loud", "Loud.", setting.Bool(&loud)), setting.New("quiet", "Quiet.", setting.Bool(&quiet)),
			setting.New("names", "Names.", setting.List(&names)),
		),
		ReconnectPolicy: func() channel.ReconnectPolicy { return channel.ReconnectPolicy{} },
		Setup: &kind.Setup{
			Short: "Connect a parrot", About: "It repeats.", Example: "--loud",
			Questions: []kind.Question{
				{Key: "room", Prompt: kind.Ask("Room: "), Resolve: func(_ context.Context, s string) (string, error) {
					if s == "nowhere" {
						return "", errors.New("no such room")
					}
					return strings.ToUpper(s), nil
				}},
				{Key: "color"}, {Key: "loud"}, {Key: "quiet", Flag: "no-quiet"}, {Key: "names"},
				{Flag: "user", Value: setting.Text(&user), Prompt: func() string {
					if token.IsSet() {
						return ""
					}
					return "User: "
				}},
				{Key: "token_file", Secret: "token", Prompt: func() string { return "Token of " + user + ": " }, Check: func(s string) error {
					if len(s) < 4 {
						return errors.New("too short")
					}
					return nil
				}},
			},
			Probe: func(_ context.Context, at kind.Place) (found kind.Found, err error) {
				if f.probe != nil {
					return f.probe(at)
				}
				f.secret, err = token.Get()
				return kind.Found{Account: []string{"it is polly"}, Next: []string{"talk to it, then " + at.Approve}}, err
			},
		},
	}
}

func (f *fixture) run(t *testing.T, stdin string, flags ...string) error {
	t.Helper()
	f.talk.Reset()
	con := &command.Console{Stdin: strings.NewReader(stdin), Stdout: io.Discard, Stderr: &f.talk,
		Env: func(string) string {
			return ""
		}, Data: string(f.dir)}
	cmd := ChannelCommands(SetupOptions{
		Console: con,
		Kinds: &target.Kinds{Channels: []kind.Kind{{Name: "parrot", New: f.newSettings},
			{Name: "fax", New: func() *kind.Settings {
				return &kind.Settings{}
			}}}},
		CheckAgent: func(*Config, string) error { return nil },
	})
	if len(cmd) != 1 {
		t.Fatalf("%d commands, want none for a kind without a setup", len(cmd))
	}
	cmd[0].SetArgs(flags)
	cmd[0].SilenceErrors, cmd[0].SilenceUsage = true, true
	return cmd[0].ExecuteContext(t.Context())
}

func TestAnswersOfEachTypeBecomeSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(" hush \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stdin         string
		flags         []string
		asked, secret string
		want          string // of the table after kind and agent
	}{
		"typed": {"\nhall\nann\nsesame\n", nil, "Agent that handles the messages [echo]: Room: User: Token of ann: ",
			"sesame", "token_file = \"DIR/channel-parrot.token\"\nroom = \"HALL\"\n"},
		"a file": {"\nhall\n", []string{"--token-file", file}, "Agent that handles the messages [echo]: Room: ", "hush",
			"token_file = \"" + file + "\"\nroom = \"HALL\"\n"},
		"an empty answer": {"\nhall\nsesame\n", []string{"--user", ""},
			"Agent that handles the messages [echo]: Room: Token of : ", "sesame",
			"token_file = \"DIR/channel-parrot.token\"\nroom = \"HALL\"\n"},
		"default": {"", []string{"--agent", "echo", "--token-file", file, "--room", "x", "--color", "", "--loud=false"}, "",
			"hush", "token_file = \"" + file + "\"\nroom = \"X\"\n"},
		"flags": {
			"", []string{"--agent", "echo", "--token-file", file, "--room", "x", "--color", "red", "--loud", "--no-quiet",
				"--names", "a b", "--names", "c"}, "", "hush",
			"token_file = \"" + file +
				"\"\nroom = \"X\"\ncolor = \"red\"\nloud = true\nquiet = false\nnames = [\"a b\", \"c\"]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{dir: datadir.Dir(t.TempDir())}
			if err := f.run(t, c.stdin, c.flags...); err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(f.dir.Config())
			want := "[channels.\"parrot\"]\nkind = \"parrot\"\nagent = \"echo\"\n" +
				strings.ReplaceAll(c.want, "DIR", string(f.dir))
			if diff := cmp.Diff(want, string(raw)); diff != "" || err != nil || f.secret != c.secret {
				t.Errorf("secret %q, %v, configuration (-want +got):\n%s", f.secret, err, diff)
			}
			asked, rest, _ := strings.Cut(f.talk.String(), "it is polly\nadded channel parrot to "+f.dir.Config()+"\n")
			if asked != c.asked || !strings.Contains(rest, "talk to it, then mailroom pair") {
				t.Errorf("output %s", f.talk.String())
			}
		})
	}
}

func TestRefusedAnswersWriteNothing(t *testing.T) {
	for name, c := range map[string]struct {
		stdin string
		flags []string
		probe error
		code  int
		want  string
	}{
		"an invalid value": {"", []string{"--color", "green"}, nil, command.ExitUsage,
			`--color: "green" is not one of , red, blue`},
		"an unresolved answer": {"nowhere\n", nil, nil, command.ExitFailed, "no such room"},
		"a missing setting":    {"\nann\nsesame\n", nil, nil, command.ExitUsage, "missing room"},
		"a bad secret":         {"hall\nann\nsez\n", nil, nil, command.ExitUsage, "too short"},
		"no answer":            {"hall\n", nil, nil, command.ExitUsage, `no answer to "User:"`},
		"a failed probe":       {"hall\nann\nsesame\n", nil, errors.New("it is gone"), command.ExitFailed, "it is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{dir: datadir.Dir(t.TempDir())}
			if c.probe != nil {
				f.probe = func(kind.Place) (kind.Found, error) { return kind.Found{}, c.probe }
			}
			err := f.run(t, c.stdin, slices.Concat([]string{"--agent", "echo"}, c.flags)...)
			if e, ok := errors.AsType[*command.Error](err); !ok || e.Code != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %#v, want code %d and %q", err, c.code, c.want)
			}
			if files, err := os.ReadDir(string(f.dir)); err != nil || len(files) > 0 {
				t.Errorf("files %v, %v; want none", files, err)
			}
		})
	}
}

func TestAProbeIsUndoneIfTheChannelCannotBeWritten(t *testing.T) {
	undone := errors.New("logged out")
	f := &fixture{dir: datadir.Dir(filepath.Join(t.TempDir(), "data"))}
	f.probe = func(kind.Place) (kind.Found, error) {
		// a file prevents the folder
		return kind.Found{Undo: func(context.Context) error { return undone }}, os.WriteFile(string(f.dir), nil, 0o600)
	}
	if err := f.run(t, "hall\nann\nsesame\n", "--agent", "echo"); !errors.Is(err, undone) {
		t.Errorf("error %v, want the error of Undo", err)
	}
}
