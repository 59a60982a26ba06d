package command

import (
	"errors"
	"io"
	"testing"

	"github.com/spf13/cobra"
)

func TestErrorsOfACommandLineSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"sned"}, `unknown command "sned" for "mail" (did you mean "send"?)`},
		{[]string{"qqqq"}, `unknown command "qqqq" for "mail"`},
		{[]string{"status", "now"}, `unexpected argument "now"`},
		{[]string{"send"}, "missing arguments; usage: mail send TEXT [flags]"},
		{[]string{"send", "a", "b"}, "too many arguments; usage: mail send TEXT [flags]"},
		{[]string{"send", "--thred", "x"}, `unknown flag: --thred (did you mean "--thread"?)`},
		{[]string{"send", "--colour", "x"}, "unknown flag: --colour"},
		{[]string{"send", "--limit", "x", "hi"}, `invalid value "x" for --limit: use a whole number`},
		{[]string{"send", "--wait", "5", "hi"}, `invalid value "5" for --wait: use a duration such as 30s or 5m`},
		{[]string{"send", "-o", "yaml", "hi"}, `invalid value "yaml" for --output: use text or json`},
		{[]string{"send", "--thread"}, "flag needs an argument: --thread"},
	} {
		root := &cobra.Command{Use: "mail", SilenceErrors: true, SilenceUsage: true}
		send := &cobra.Command{Use: "send TEXT", Args: cobra.ExactArgs(1), Run: func(*cobra.Command, []string) {}}
		send.Flags().String("thread", "", "")
		send.Flags().Int("limit", 0, "")
		send.Flags().Duration("wait", 0, "")
		FormatFlag(send)
		root.AddCommand(send, &cobra.Command{Use: "status", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {}})
		root.SetArgs(c.args)
		root.SetOut(io.Discard)
		cmd, err := root.ExecuteC()
		if err == nil {
			err = errors.New("accepted")
		} else {
			err = ExplainUsage(cmd, err)
		}
		if err.Error() != c.want {
			t.Errorf("%q: %q, want %q", c.args, err, c.want)
		}
	}
}
