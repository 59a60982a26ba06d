package node

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mailroom"
	"mailroom/agent/exec"
	"mailroom/agent/exec/program"
	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/app/endpoint"
	"mailroom/internal/recovery"
	"mailroom/internal/retry"
	"mailroom/internal/setting"
	"mailroom/worker"
)

// workOptions are the options of mailroom work.
type workOptions struct {
	url, tokenFile string
	agent          string
	runs           int
	name           string
	env            []string
	attempts       string   // N[,first=DURATION][,most=DURATION]
	profile        string   // PROGRAM[,permissions=MODE]
	permissions    string   // the deprecated flag
	isolation      string   // KIND[,user=NAME]
	command        []string // command of the agent; with a profile, further arguments
}

func workCommand(con *command.Console) *cobra.Command {
	var w workOptions
	cmd := &cobra.Command{
		Use:   "work --agent NAME [flags] [--profile PROGRAM] -- COMMAND [ARG…]",
		Short: "Run an agent of a remote server on this machine",
		Long: `Run an agent of a remote server with a command on this machine.

Each run starts the command with the message text on standard input. Its standard output
is the reply, streamed as it is written. The command's environment has MAILROOM_RUN,
MAILROOM_THREAD, MAILROOM_ATTEMPT and MAILROOM_IDEMPOTENCY_KEY, basic variables of this
process such as PATH, HOME and the locale, and those that --env names.

With --profile codex or claude, that program is the command. Each thread is one session of
the program; its actions are shown, and its requests for approval become tickets. The
arguments after -- are passed on to it.

The token needs the scope work and is read from --token-file or MAILROOM_TOKEN. Without
--url the server is found in the same way as by the other commands.

A failed run is retried as the server says for the agent, or as --attempts says; a submit's own
number of attempts counts more.

If the server is unreachable, the worker keeps retrying, and continues its runs if the
outage was shorter than the lease. At SIGINT or SIGTERM, runs have 30 s to finish and the
rest are released; a second signal exits at once.`,
		Example: `  mailroom work --url https://mail.example.org --agent coder --profile codex,permissions=edit
  mailroom work --agent coder --isolation required,user=coder --attempts 3,first=10s --profile claude
  MAILROOM_TOKEN=… mailroom work --url http://127.0.0.1:8420 --agent shout -- tr a-z A-Z`,
	}
	flags := cmd.Flags()
	flags.StringVar(&w.url, "url", "",
		"server URL (default: that of --context, $MAILROOM_CONTEXT or $MAILROOM_URL, else the server of the data folder)")
	flags.StringVar(&w.tokenFile, "token-file", "", "file with the token (default $MAILROOM_TOKEN)")
	flags.StringVar(&w.agent, "agent", "", "name of the agent; the server must not run it itself")
	flags.IntVar(&w.runs, "runs", 1, "maximum number of concurrent runs")
	flags.StringVar(&w.name, "name", "", "name of this machine in the list of workers (default: its host name)")
	flags.StringVar(&w.profile, "profile", "",
		"run this program instead of a command: codex or claude, with ,permissions=MODE (ask, read, edit or all)")
	flags.StringVar(&w.permissions, "permissions", "", "use --profile PROGRAM,permissions=MODE")
	_ = flags.MarkHidden("permissions") // fails only for an unknown flag
	_ = flags.MarkHidden("name")        // the host name is enough unless a machine runs several workers
	flags.StringVar(&w.isolation, "isolation", config.IsolationAuto,
		"isolation of the command from the token and the local data folder: auto, required, namespace, landlock or none; "+
			"add ,user=NAME to run as another user")
	flags.StringVar(&w.attempts, "attempts", "",
		"failures after which a run fails for good, 1 to 100, with ,first=DURATION and ,most=DURATION for the first and "+
			"the longest time to a retry (default: those of the server; 0 is its number)")
	flags.StringSliceVar(&w.env, "env", nil, "pass this environment variable on to the command; may be repeated")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w.command = args
		switch {
		case w.agent == "":
			return command.Errorf(command.ExitUsage, "set --agent", "missing agent")
		case w.runs < 1:
			return command.Errorf(command.ExitUsage, "use 1 or more", "invalid --runs %d", w.runs)
		case w.profile == "" && len(args) == 0:
			return command.Errorf(command.ExitUsage, "write the command after --, or set --profile", "missing command")
		case w.profile == "" && w.permissions != "":
			return command.Errorf(command.ExitUsage, "use --profile PROGRAM,permissions=MODE", "--permissions needs --profile")
		}
		return runWorker(cmd.Context(), con, w)
	}
	return cmd
}

// confinement parses --isolation into the settings of a server's agent.
func (w workOptions) confinement() (config.Confinement, error) {
	kind, name, user := strings.Cut(w.isolation, ",user=")
	c := config.Confinement{Isolation: kind, User: name}
	if user && name == "" {
		return c, fmt.Errorf("--isolation %q has an empty user; use ,user=NAME or leave it out", w.isolation)
	}
	return c, config.CheckIsolation(kind)
}

// program parses --profile into the name of a program and its permissions.
func (w workOptions) program() (name, permissions string, err error) {
	name, permissions, set := strings.Cut(w.profile, ",permissions=")
	switch {
	case !set:
		return name, w.permissions, nil
	case permissions == "" || w.permissions != "":
		return "", "", fmt.Errorf("--profile %q: set permissions once, as ,permissions=MODE", w.profile)
	}
	return name, permissions, nil
}

// retries parses --attempts.
func (w workOptions) retries() (p retry.Policy, err error) {
	if w.attempts == "" {
		return p, nil
	}
	number, rest, more := strings.Cut(w.attempts, ",")
	if p.Attempts, err = strconv.Atoi(number); err != nil || p.Attempts < 0 || p.Attempts > retry.MaxAttempts {
		return p, fmt.Errorf("--attempts %q does not begin with a number from 0 to %d", w.attempts, retry.MaxAttempts)
	}
	if more {
		number := p.Attempts
		if rest == "" {
			return p, fmt.Errorf("--attempts %q ends with a comma", w.attempts)
		}
		if p, err = retry.Parse(rest); err != nil {
			return p, fmt.Errorf("--attempts %q: %w", w.attempts, err)
		}
		if p.Attempts != 0 {
			return p, fmt.Errorf("--attempts %q has two numbers of attempts", w.attempts)
		}
		p.Attempts = number
	}
	return p, nil
}

// build builds the agent.
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
			Command: w.command, EnvAllow: around.allowed(append(exec.DefaultEnvAllow(), w.env...)), Isolation: around.isolation,
			Files: around.files,
			Env:   around.env, Dir: around.dir,
		})
	}
	profile, permissions, err := w.program()
	if err != nil {
		return nil, err
	}
	p := program.Find(profile)
	if p == nil {
		var known []string
		for _, p := range program.All() {
			known = append(known, p.Name)
		}
		return nil, fmt.Errorf("unknown program %q; use %s", profile, strings.Join(known, ", "))
	}
	o := exec.ProgramOptions{
		Profile: p, Args: w.command, Permissions: program.Mode(permissions),
		EnvAllow:  around.allowed(append(exec.EnvAllow(p), w.env...)),
		Isolation: around.isolation, Files: around.files, Env: around.env, Dir: around.dir,
	}
	if err := exec.Usable(o); err != nil {
		return nil, err
	}
	return exec.NewProgram(o)
}

// runWorker runs an agent for the server until ctx is done.
func runWorker(ctx context.Context, con *command.Console, w workOptions) error {
	log := slog.New(slog.NewTextHandler(con.Stderr, nil))
	agent, err := w.build(newWorkSandbox(con, w.tokenFile, log))
	if err != nil {
		return command.Errorf(command.ExitUsage, "", "%w", err)
	}
	policy, err := w.retries()
	if err != nil {
		return command.Errorf(command.ExitUsage, "use --attempts 5, or --attempts 5,first=2s,most=1m", "%w", err)
	}
	d, err := findWorkEndpoint(con, w)
	if err != nil {
		return err
	}
	if err := hideSecrets(con, []string{"MAILROOM_TOKEN"}); err != nil {
		return command.Errorf(command.ExitFailed, "", "%w", err)
	}
	defer context.AfterFunc(ctx, func() {
		defer recovery.Log(log, "shutdown message")
		con.Stopping()
	})()
	return workError(worker.Serve(ctx, worker.Options{
		URL: d.URL, Token: d.Token, HTTP: d.HTTP, Slots: w.runs, Host: w.name, Log: log,
		Attempts: policy.Attempts, RetryFirst: policy.First, RetryFactor: policy.Factor, RetryMost: policy.Most,
		OutageMost: policy.OutageMost, Outage: policy.Outage,
		OnReady:  func() { con.Infof("running agent %s for %s", w.agent, d.URL) },
		OnOutage: func(err error) { con.Infof("no server at %s yet, retrying: %v", d.URL, err) },
	}, map[string]mailroom.Agent{w.agent: agent}))
}

// findWorkEndpoint finds the server and the token, which is never a command line argument.
func findWorkEndpoint(con *command.Console, w workOptions) (d endpoint.Endpoint, err error) {
	if w.url == "" {
		d, err = endpoint.FindNamed(con)
	} else {
		if err := endpoint.CheckURL(w.url); err != nil {
			return d, command.Errorf(command.ExitUsage, "use a URL such as https://mail.example.org", "--url %w", err)
		}
		d, err = endpoint.At(con, w.url)
	}
	if err != nil {
		return d, err
	}
	if w.tokenFile != "" {
		raw, err := setting.ReadFile(w.tokenFile)
		if err != nil {
			return d, command.Errorf(command.ExitUsage, "", "read the token: %w", err)
		}
		d.Token = strings.TrimSpace(string(raw))
	}
	if d.Token == "" {
		return d, command.Errorf(command.ExitServer, "set MAILROOM_TOKEN or --token-file", "missing token for %s", d.URL)
	}
	return d, nil
}

// workError returns an error of the worker with its exit code.
func workError(err error) error {
	switch mailroom.CodeOf(err) {
	case mailroom.CodeUnauthenticated, mailroom.CodeForbidden, mailroom.CodeQuotaExceeded, mailroom.CodeUnavailable:
		return command.Errorf(command.ExitServer, "", "%w", err)
	case mailroom.CodeConflict, mailroom.CodeInvalid, mailroom.CodeNotFound:
		return command.Errorf(command.ExitUsage, "", "%w", err)
	case "":
		return nil
	}
	return command.Errorf(command.ExitFailed, "", "%w", err)
}
