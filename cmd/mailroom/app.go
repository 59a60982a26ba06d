package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"mailroom/client"
	"mailroom/internal/datadir"
)

// Main is one invocation of the program. Data goes to Stdout, messages for people to Stderr.
type Main struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Env    func(string) string // as os.Getenv
	// Unsetenv removes a variable from the environment of the process, so that child
	// processes do not inherit it. nil: does nothing.
	Unsetenv func(name string) error
	Name     string // os.Args[0], for hints; "" means mailroom

	// set by Run, from the flags
	data    string
	url     string // of the server, set by connect
	parsed  bool   // the command line was valid
	midLine bool   // Stdout is in the middle of a line
}

// Run runs the command in args and returns its exit code. Cancelling ctx
// means Ctrl-C.
func (m *Main) Run(ctx context.Context, args []string) int {
	root := m.rootCommand()
	root.SetArgs(args)
	root.SetIn(m.Stdin)
	root.SetOut(m.Stdout)
	root.SetErr(m.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !m.parsed {
		err = &usageError{command: cmd.CommandPath(), err: err}
	}
	if err != nil {
		return m.reportError(ctx, err)
	}
	return exitDone
}

func (m *Main) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "mailroom",
		Short:         "A durable mailbox for agents",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			m.parsed = true
		},
	}
	root.PersistentFlags().StringVar(&m.data, "data", "", "data folder of the server (default $MAILROOM_DATA, else mailroom in $XDG_DATA_HOME)")
	root.AddCommand(
		m.serveCommand(), m.statusCommand(), m.stopCommand(), m.bridgeCommand(), m.sendCommand(), m.attachCommand(), m.threadsCommand(), m.runsCommand(),
		m.runCommand(), m.interruptCommand(), m.ticketsCommand(), m.approveCommand(), m.denyCommand(), m.answerCommand(),
		m.agentsCommand(), m.channelsCommand(), m.pairCommand(), m.workersCommand(), m.workCommand(), m.mcpCommand(), m.issueCommand(), m.projectCommand(), m.tokenCommand(), m.configCommand(), m.doctorCommand(), m.restoreCommand(), m.benchCommand(), m.versionCommand(),
	)
	root.AddCommand(m.moreCommands()...)
	return root
}

const rootHelp = `A durable mailbox for agents.

Start a server with "mailroom serve", then send a message to an agent with
"mailroom send". Accepted messages are never lost: the run continues when you
close the terminal, and "mailroom attach" shows it again. "mailroom send --agent
tour hello" demonstrates what a run can do, without a model or an API key.

Exit codes: 0 success, 1 failed or cancelled, 2 invalid usage or input, 3 waiting
for a decision, 4 no server or not authorized, 130 interrupted by Ctrl-C. A server
whose channels are all down exits with 75 (restart it) or 78 (fix its configuration).`

// findEndpoint is the address of a server with its credentials.
type endpoint struct {
	url, token string
	web        *http.Client
}

// connect returns a client for the server.
func (m *Main) connect() (*client.Client, error) {
	d, err := m.findEndpoint()
	if err != nil {
		return nil, err
	}
	return client.New(d.url, d.token, client.WithHTTPClient(d.web), client.WithOutage(m.printConnectionState)), nil
}

// findEndpoint finds the server: from --data, else from MAILROOM_URL and
// MAILROOM_TOKEN, else from the default data folder. A folder's token is sent
// only to the server of that folder.
func (m *Main) findEndpoint() (d endpoint, err error) {
	if m.data == "" {
		d.url, d.token = m.Env("MAILROOM_URL"), m.Env("MAILROOM_TOKEN")
	}
	if d.url != "" {
		if !isAddress(d.url) {
			return d, exitErrorf(exitUsage, "set it to an address such as http://127.0.0.1:8420", "MAILROOM_URL %q is not a server address", d.url)
		}
		if d.token == "" {
			return d, exitErrorf(exitServer, "set it to the token of that server", "MAILROOM_URL is set, but MAILROOM_TOKEN is not")
		}
		m.url = d.url
		d.web, err = clientTrusting(m.Env("MAILROOM_CA"))
		return d, err
	}
	dir, err := datadir.Find(m.data, m.Env)
	if err != nil {
		return d, exitErrorf(exitUsage, "", "%w", err)
	}
	address, err := dir.Address()
	if err != nil {
		return d, noServer(err, dir, m.commandLine("serve"))
	}
	if d.token == "" {
		if d.token, err = dir.Token(); err != nil {
			return d, exitErrorf(exitServer, "", "%w", err)
		}
	}
	m.url, d.url, d.web = address.URL, address.URL, pinnedClient(address.Cert)
	return d, nil
}

func isAddress(at string) bool {
	u, err := url.Parse(at)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// commandLine returns a shell command for the same data folder, for hints.
func (m *Main) commandLine(words ...string) string {
	line := []string{m.programName(), words[0]}
	if m.data != "" {
		line = append(line, "--data", quote(m.data))
	}
	for _, w := range words[1:] {
		line = append(line, quote(w))
	}
	return strings.Join(line, " ")
}

// programName returns the name to use for this program in hints.
func (m *Main) programName() string {
	if strings.ContainsRune(m.Name, os.PathSeparator) {
		return quote(m.Name) // started by path, so it may not be in PATH
	}
	return "mailroom"
}

// quote quotes word for a shell.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,+", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
