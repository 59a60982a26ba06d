package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/client"
	"mailroom/engine"
	"mailroom/internal/netguard"
	"mailroom/internal/recovery"
	"mailroom/internal/retry"
)

// Options of Serve. A zero value selects the default.
type Options struct {
	// URL is the address of the server. Defaults to MAILROOM_URL, and without that to http://127.0.0.1:8420.
	URL string
	// Token has the scope work. Defaults to MAILROOM_TOKEN.
	Token string
	// Slots is how many runs the worker has at once, of all agents together: 1 to 1000. Defaults to 4.
	Slots int
	// Grace is how long runs may take to finish once the context of Serve has ended; then they are released, and
	// another worker starts them again from their last step. Defaults to 30 s.
	Grace time.Duration
	// StopGrace is how long an agent may take to return once its context was cancelled; then its attempt ends without
	// it. Defaults to 10 s.
	StopGrace time.Duration
	// Attempts is the number of failures after which a run fails for good, unless its submit says so. RetryFirst and
	// RetryMost are the first and the longest delay of a retry, and each delay is RetryFactor times the one before.
	// OutageMost is the longest delay in an outage, and Outage how long an outage is retried. Each defaults to what the
	// server says.
	Attempts              int
	RetryFirst, RetryMost time.Duration
	RetryFactor           float64
	OutageMost, Outage    time.Duration
	// Host is the name of this machine in the list of workers. Defaults to its host name.
	Host string
	// HTTP makes the connections. Its Timeout must be 0. Defaults to a client with the proxy of the environment.
	HTTP *http.Client
	// Log gets the start and the end of the worker and each attempt's end. Defaults to slog.Default.
	Log *slog.Logger
	// OnReady is called once, when the server has registered the worker, and OnOutage once with the reason if the server
	// cannot be reached before. Both must return quickly. They default to lines of the log.
	OnReady  func()
	OnOutage func(error)
}

const (
	// defaultURL is where a server listens that was started without options.
	defaultURL = "http://127.0.0.1:8420"

	defaultSlots = 4
	maxSlots     = 1000 // most runs that a server grants in one claim

	// callTimeout bounds one call, so that a second one fits into the lease.
	callTimeout = 10 * time.Second

	// claimWait is how long a request for due runs waits at the server. An idle worker sends two requests a minute.
	claimWait = 30 * time.Second

	// renewInterval is the longest time between renewals, whose answers also stop silent agents.
	renewInterval = 2 * time.Second

	// spareConns is the number of connections for claims, renewals and live text, kept beside one for each slot.
	spareConns = 28
)

// Serve serves agents until ctx ends. Then it claims no more runs, lets the running ones finish for the grace, releases
// those that remain, and returns nil. While the server cannot be reached, Serve retries. It returns an error that says
// what to do if the server refuses the worker for good: a token that is missing, revoked or without the scope work, an
// agent that the server runs itself, an address where another program answers.
func Serve(ctx context.Context, o Options, agents map[string]mailroom.Agent) error {
	if err := o.fill(); err != nil {
		return err
	}
	served := map[string]engine.Agent{}
	for name, a := range agents {
		if f, ok := a.(mailroom.AgentFunc); a == nil || ok && f == nil {
			return mailroom.Errorf(mailroom.CodeInvalid, "agent %q has no code: give an Agent that is not nil", name)
		}
		served[name] = engine.Agent{Agent: logging{a, o.Log}}
	}
	if len(served) == 0 {
		return mailroom.Errorf(mailroom.CodeInvalid, "no agent to serve: name at least one")
	}
	b := bus.New()
	c := client.New(o.URL, o.Token, client.WithHTTPClient(o.HTTP), client.WithTimeout(callTimeout))
	defer c.CloseIdle()
	l, err := Dial(ctx, c, b, LedgerOptions{
		Agents: slices.Sorted(maps.Keys(served)), Host: o.Host, PID: os.Getpid(), Wait: claimWait,
		OnOutage: o.OnOutage, Log: o.Log,
		Retry: retry.Policy{Attempts: o.Attempts, First: o.RetryFirst, Factor: o.RetryFactor, Most: o.RetryMost,
			OutageMost: o.OutageMost, Outage: o.Outage},
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // ctx ended before the worker was registered
	case err != nil:
		return o.explain(err)
	}
	o.OnReady()
	return o.run(ctx, l, b, served)
}

// run runs the engine until ctx ends or the server refuses the worker.
func (o *Options) run(ctx context.Context, l *Ledger, b *bus.Bus, served map[string]engine.Agent) error {
	e := engine.New(l, b, engine.Options{
		Agents: served, Runs: o.Slots, ShutdownGrace: o.Grace, StopGrace: o.StopGrace, Host: o.Host, Log: o.Log,
		Blobs: l, Lease: l.LeaseTime(), Renew: min(renewInterval, l.LeaseTime()/3),
	})
	live, quit := context.WithCancel(context.WithoutCancel(ctx))
	var showing sync.WaitGroup
	showing.Go(func() {
		defer recovery.Log(o.Log, "live text sender")
		l.Run(live)
	})
	err := e.Run(ctx)
	quit()
	showing.Wait()
	if why := l.Refused(); why != nil {
		return o.explain(why)
	}
	return err
}

// fill sets the defaults, and checks the options that the server does not check.
func (o *Options) fill() error {
	o.URL = strings.TrimRight(cmp.Or(o.URL, os.Getenv("MAILROOM_URL"), defaultURL), "/")
	o.Token = cmp.Or(o.Token, os.Getenv("MAILROOM_TOKEN"))
	o.Slots = cmp.Or(o.Slots, defaultSlots)
	if o.Host == "" {
		o.Host, _ = os.Hostname() // the name is only displayed, and may be empty
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.OnReady == nil {
		o.OnReady = func() { o.Log.Info("worker serves agents", "url", o.URL, "slots", o.Slots) }
	}
	if o.OnOutage == nil {
		o.OnOutage = func(err error) { o.Log.Warn("no server yet; retrying", "url", o.URL, "error", err) }
	}
	at, err := url.Parse(o.URL)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return mailroom.Errorf(mailroom.CodeInvalid, "%q is not an address of a server: set MAILROOM_URL to one such as %s",
			o.URL, defaultURL)
	case o.Token == "":
		return mailroom.Errorf(mailroom.CodeUnauthenticated, "no token for %s: %s", o.URL, tokenHint)
	case strings.ContainsFunc(o.Token, func(c rune) bool { return c <= ' ' || c > '~' }):
		return mailroom.Errorf(mailroom.CodeUnauthenticated,
			"the token has characters other than visible ASCII: check MAILROOM_TOKEN")
	case o.Slots < 1 || o.Slots > maxSlots:
		return mailroom.Errorf(mailroom.CodeInvalid, "%d slots: use 1 to %d", o.Slots, maxSlots)
	}
	o.HTTP = workClient(o.HTTP, o.Slots+spareConns)
	if at.Scheme == "http" && !netguard.Local(at.Hostname()) {
		o.Log.Warn("the connection to the server is not encrypted, and neither is the token sent over it", "url", o.URL)
	}
	return nil
}

const tokenHint = "set MAILROOM_TOKEN to a token with the scope work, from `mailroom token create NAME --scope work`"

// explain returns the server's refusal of this worker with what to do about it.
func (o *Options) explain(err error) error {
	of, hint := mailroom.CodeOf(err), ""
	switch {
	case errors.Is(err, client.ErrForeign):
		hint = "set MAILROOM_URL to the address of a Mailroom server"
	case of == mailroom.CodeUnauthenticated:
		hint = tokenHint
	case of == mailroom.CodeNotFound:
		hint = "it is older than this worker; update the server"
	}
	text := fmt.Sprintf("the server at %s refuses this worker: %v", o.URL, err)
	if hint != "" {
		text += "; " + hint
	}
	return &mailroom.Error{Code: of, Message: text}
}

// Main serves one agent of the server that MAILROOM_URL and MAILROOM_TOKEN name, until SIGINT or SIGTERM; it is for the
// main function of a program. A second signal ends the process at once. If [Serve] fails, Main prints its error and
// exits with status 1.
func Main(name string, agent mailroom.AgentFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer context.AfterFunc(ctx, func() {
		defer recovery.Log(nil, "signal handler")
		stop()
	})()
	if err := Serve(ctx, Options{}, map[string]mailroom.Agent{name: agent}); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// attemptLog is the key of an attempt's logger in its context.
type attemptLog struct{}

// Log returns the logger of the attempt whose agent got ctx: Options.Log with the attributes run, thread, agent and
// attempt. For any other context it is slog.Default.
func Log(ctx context.Context) *slog.Logger {
	if log, ok := ctx.Value(attemptLog{}).(*slog.Logger); ok {
		return log
	}
	return slog.Default()
}

// logging is an agent whose context has a logger.
type logging struct {
	agent mailroom.Agent
	log   *slog.Logger
}

func (a logging) Run(ctx context.Context, s mailroom.Session) error {
	r := s.Run()
	log := a.log.With("run", r.ID, "thread", r.Thread, "agent", r.Agent, "attempt", r.Attempt)
	return a.agent.Run(context.WithValue(ctx, attemptLog{}, log), s)
}

// workClient returns an HTTP/1 client over h that keeps one connection for each concurrent call, so that a dead
// connection affects one call only.
func workClient(h *http.Client, conns int) *http.Client {
	through := http.DefaultTransport
	if h != nil && h.Transport != nil {
		through = h.Transport
	}
	given, ok := through.(*http.Transport)
	if !ok {
		return &http.Client{Transport: through} // a RoundTripper of the caller's own is used unchanged
	}
	transport := given.Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, conns
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	return &http.Client{Transport: transport}
}
