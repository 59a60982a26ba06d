package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/cmd/mailroom/internal/config"
	"mailroom/engine"
	"mailroom/internal/recovery"
	"mailroom/remote"
)

const (
	// workCallTimeout bounds one call of a worker, so that there is time for another
	// within a lease.
	workCallTimeout = 10 * time.Second
	// workRenewInterval is how soon a command that says nothing hears of a stop.
	workRenewInterval = 2 * time.Second
	// workMaxIdleConns is how many connections to the server are kept.
	workMaxIdleConns = 32
)

// workOptions is what mailroom work was asked to do.
type workOptions struct {
	url, tokenFile string
	agent          string
	runs           int
	name           string
	env            []string
	profile        string
	permissions    string
	isolation      string   // KIND[,user=NAME]
	command        []string // of a profile, further arguments
}

func (m *Main) workCommand() *cobra.Command {
	var w workOptions
	cmd := &cobra.Command{
		Use:   "work --agent NAME [flags] [--profile PROGRAM] -- COMMAND [ARG…]",
		Short: "Run an agent of a server elsewhere, with a command on this machine",
		Long: `Run an agent of a server elsewhere, with a command on this machine.

Each run starts the command with the text of its message on standard input; what
it writes to standard output is the reply, shown as it is written. It finds
MAILROOM_RUN, MAILROOM_THREAD, MAILROOM_ATTEMPT and MAILROOM_IDEMPOTENCY_KEY in its
environment, of ours PATH, HOME, the language and the like, and what --env names.

With --profile codex or claude the command is that program: a thread is one of its
sessions, what it does is shown, and what it asks is a ticket. What follows -- are
further arguments for it.

The token needs the scope work. It is read from --token-file or MAILROOM_TOKEN;
without --url the server is found as by the other commands.

While the server is away, this waits for it, and goes on with its runs if that was
shorter than a lease. SIGINT and SIGTERM let runs finish for 30 s and give back the
rest; a second one ends it at once.`,
		Example: `  mailroom work --url https://mail.example.org --agent coder --profile codex --permissions edit
  mailroom work --agent coder --isolation required,user=coder --profile claude
  MAILROOM_TOKEN=… mailroom work --url http://127.0.0.1:8420 --agent shout -- tr a-z A-Z`,
	}
	flags := cmd.Flags()
	flags.StringVar(&w.url, "url", "", "address of the server (default $MAILROOM_URL, else the one of the data folder)")
	flags.StringVar(&w.tokenFile, "token-file", "", "file with the token (default $MAILROOM_TOKEN)")
	flags.StringVar(&w.agent, "agent", "", "name of the agent, which the server must not run itself")
	flags.IntVar(&w.runs, "runs", 1, "runs at once")
	flags.StringVar(&w.name, "name", "", "how this machine is called in the list of workers (default its own name)")
	flags.StringVar(&w.profile, "profile", "", "run this program, codex or claude, instead of a command")
	flags.StringVar(&w.permissions, "permissions", "", "what the program may do: ask, read, edit or all (default what it has)")
	flags.StringVar(&w.isolation, "isolation", config.IsolationAuto, "what keeps the command from the token and the data folder here: auto, required, namespace, landlock or none, and ,user=NAME for another user")
	flags.StringSliceVar(&w.env, "env", nil, "variable of ours that the command may see too; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w.command = args
		switch {
		case w.agent == "":
			return exitErrorf(exitUsage, "name one with --agent", "no agent is named")
		case w.runs < 1:
			return exitErrorf(exitUsage, "give 1 or more", "--runs is %d", w.runs)
		case w.profile == "" && len(args) == 0:
			return exitErrorf(exitUsage, "write it behind --, or name a program with --profile", "there is no command")
		case w.profile == "" && w.permissions != "":
			return exitErrorf(exitUsage, "", "--permissions goes with --profile")
		}
		return m.work(cmd.Context(), w)
	}
	return cmd
}

// confinement reads --isolation: the same settings as those of an agent of the server.
func (w workOptions) confinement() (config.Confinement, error) {
	kind, name, user := strings.Cut(w.isolation, ",user=")
	c := config.Confinement{Isolation: kind, User: name}
	if user && name == "" {
		return c, fmt.Errorf("--isolation %q names no user; write ,user=NAME or leave it out", w.isolation)
	}
	return c, config.CheckIsolation(kind)
}

// build makes the agent that is served.
func (w workOptions) build(s *sandbox) (mailroom.Agent, error) {
	how, err := w.confinement()
	if err != nil {
		return nil, err
	}
	around, err := s.confine(w.agent, &config.Agent{EnvAllow: w.env, Confinement: how})
	if err != nil {
		return nil, err
	}
	s.warnUnisolated()
	if w.profile == "" {
		return exec.New(exec.Options{
			Command: w.command, EnvAllow: append(exec.DefaultEnvAllow(), w.env...), Isolation: around.isolation, Files: around.files,
			Env: around.env, Dir: around.dir,
		})
	}
	p := program.Find(w.profile)
	if p == nil {
		var known []string
		for _, p := range program.All() {
			known = append(known, p.Name)
		}
		return nil, fmt.Errorf("no program %q is known; known: %s", w.profile, strings.Join(known, ", "))
	}
	o := exec.ProgramOptions{
		Profile: p, Args: w.command, Permissions: program.Mode(w.permissions), EnvAllow: append(exec.EnvAllow(p), w.env...),
		Isolation: around.isolation, Files: around.files, Env: around.env, Dir: around.dir,
	}
	if err := exec.Usable(o); err != nil {
		return nil, err
	}
	return exec.NewProgram(o)
}

// work serves an agent until ctx ends.
func (m *Main) work(ctx context.Context, w workOptions) error {
	log := slog.New(slog.NewTextHandler(m.Stderr, nil))
	agent, err := w.build(m.newWorkSandbox(w.tokenFile, log))
	if err != nil {
		return exitErrorf(exitUsage, "", "%w", err)
	}
	d, err := m.findWorkEndpoint(w)
	if err != nil {
		return err
	}
	if err := m.hideSecrets([]string{"MAILROOM_TOKEN"}); err != nil {
		return exitErrorf(exitFailed, "", "%w", err)
	}
	if w.name == "" {
		w.name, _ = os.Hostname() // only shown; "" if the system does not know
	}
	if u, err := url.Parse(d.url); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		m.infof("nothing encrypts what goes to %s, the token neither", d.url)
	}
	b := bus.New()
	l, err := remote.Dial(ctx, client.New(d.url, d.token, client.WithHTTPClient(workClient(d.web)), client.WithTimeout(workCallTimeout)), b, remote.Options{
		Agents: []string{w.agent}, Host: w.name, PID: os.Getpid(), Log: log,
		OnOutage: func(err error) { m.infof("no server at %s yet, trying until it is there: %v", d.url, err) },
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was told to end before there was anything to do
		}
		return explainWorkError(err)
	}
	e := engine.New(l, b, engine.Options{
		Agents: map[string]engine.Agent{w.agent: {Agent: agent}}, Runs: w.runs, Host: w.name, Log: log,
		Lease: l.LeaseTime(), Renew: min(workRenewInterval, l.LeaseTime()/3),
	})
	defer context.AfterFunc(ctx, func() {
		defer recovery.Log(log, "the end of a command")
		m.printStopping()
	})()
	m.infof("serving agent %s of %s", w.agent, d.url)
	live, quit := context.WithCancel(context.WithoutCancel(ctx))
	var showing sync.WaitGroup
	showing.Go(func() {
		defer recovery.Log(log, "what sends live text")
		l.Run(live)
	})
	err = e.Run(ctx)
	quit()
	showing.Wait()
	if why := l.Refused(); why != nil {
		return explainWorkError(why)
	}
	if err != nil {
		return exitErrorf(exitFailed, "", "%w", err)
	}
	return nil
}

// findWorkEndpoint finds the server, and a token that is not on the command line.
func (m *Main) findWorkEndpoint(w workOptions) (d endpoint, err error) {
	if w.url == "" {
		d, err = m.findEndpoint()
	} else if d.url = w.url; !isAddress(w.url) {
		return d, exitErrorf(exitUsage, "give an address such as https://mail.example.org", "--url is %q, which is no address of a server", w.url)
	} else {
		m.url, d.token = w.url, m.Env("MAILROOM_TOKEN")
		d.web, err = clientTrusting(m.Env("MAILROOM_CA"))
	}
	if err != nil {
		return d, err
	}
	if w.tokenFile != "" {
		raw, err := os.ReadFile(w.tokenFile)
		if err != nil {
			return d, exitErrorf(exitUsage, "", "read the token: %w", err)
		}
		d.token = strings.TrimSpace(string(raw))
	}
	if d.token == "" {
		return d, exitErrorf(exitServer, "set MAILROOM_TOKEN, or name a file that holds it with --token-file", "there is no token for %s", d.url)
	}
	return d, nil
}

// explainWorkError says what to do about a server that does not want this worker.
func explainWorkError(err error) error {
	switch mailroom.CodeOf(err) {
	case mailroom.CodeForbidden:
		return exitErrorf(exitServer, "it needs the scope work, and the agent among those that it may work for", "this token may not do that: %w", err)
	case mailroom.CodeConflict, mailroom.CodeInvalid:
		return exitErrorf(exitUsage, "", "%w", err)
	}
	return err
}

// workClient gives a worker connections that it can keep: as many as it has calls
// at a time, and one call each, so that a dead one takes no other with it.
func workClient(web *http.Client) *http.Client {
	transport, ok := web.Transport.(*http.Transport)
	if !ok {
		transport = http.DefaultTransport.(*http.Transport).Clone() // the standard library's own
	}
	transport.MaxIdleConnsPerHost = workMaxIdleConns
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	return &http.Client{Transport: transport}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
