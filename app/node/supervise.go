package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mailroom/app/command"
	"mailroom/app/config"
	"mailroom/internal/display"
	"mailroom/internal/recovery"
)

const (
	notifyTimeout = time.Second // of one notification
	readyPoll     = 50 * time.Millisecond
	reportEvery   = 5 * time.Second  // at the latest; more often if the watchdog wants it
	startExtends  = 30 * time.Second // what a starting server asks for at each report
	stopMargin    = time.Minute      // for requests and channels to end and the store to close, beside the runs
)

// notifier sends notifications to the service manager that started this process, as sd_notify(3) says.
// https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
type notifier struct {
	socket   string        // path, or a name of the abstract namespace, which begins with @
	watchdog time.Duration // the manager ends the process if it gets no WATCHDOG=1 for so long; 0: it does not
}

// newNotifier reads where the service manager expects notifications, and removes it from the environment, so that no
// child process sends any. It returns nil if there is no such manager.
func newNotifier(con *command.Console) (*notifier, error) {
	socket, every, pid := con.Env("NOTIFY_SOCKET"), con.Env("WATCHDOG_USEC"), con.Env("WATCHDOG_PID")
	if con.Unsetenv != nil {
		for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
			if err := con.Unsetenv(name); err != nil {
				return nil, fmt.Errorf("remove %s from the environment: %w", name, err)
			}
		}
	}
	if socket == "" {
		return nil, nil
	}
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return nil, fmt.Errorf("NOTIFY_SOCKET %q is no path and no abstract name; the manager is not notified", socket)
	}
	n := &notifier{socket: socket}
	if every == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) { // of another process
		return n, nil
	}
	usec, err := strconv.ParseInt(every, 10, 64)
	if err != nil || usec <= 0 || usec > int64(24*time.Hour/time.Microsecond) {
		return n, fmt.Errorf("WATCHDOG_USEC %q is no number of microseconds up to a day; no WATCHDOG=1 is sent", every)
	}
	n.watchdog = time.Duration(usec) * time.Microsecond
	return n, nil
}

// send sends one notification.
func (n *notifier) send(lines []string) error {
	conn, err := net.DialTimeout("unixgram", n.socket, notifyTimeout)
	if err != nil {
		return err
	}
	err = conn.SetWriteDeadline(time.Now().Add(notifyTimeout))
	if err == nil {
		_, err = conn.Write([]byte(strings.Join(lines, "\n")))
	}
	return errors.Join(err, conn.Close())
}

// supervised is a server that a supervision reports.
type supervised struct {
	url     string
	ready   func() error          // why the server is not ready; nil: it is
	working func(time.Time) error // why the server no longer works; nil: it does
}

// supervision notifies the service manager of what the server does, from its start to its end. A nil supervision
// does nothing.
type supervision struct {
	notify *notifier
	log    *slog.Logger
	drain  time.Duration // longest regular time from a stop to the end

	server  atomic.Pointer[supervised] // set by serves
	doing   atomic.Pointer[string]     // set by say, what the server does until then
	changed chan struct{}              // one slot; receives after serves and say
	over    chan error                 // receives the result of the server
	ended   chan struct{}              // closed at the end of run

	// Owned by run.
	web     *http.Client
	isReady bool   // READY=1 was sent
	stops   bool   // STOPPING=1 was sent
	status  string // last STATUS
	failed  bool   // a notification failed, and the log says so
	asked   time.Time
}

// supervise begins to notify the service manager, if there is one, until end is called. The end of ctx begins the
// shutdown.
func supervise(ctx context.Context, con *command.Console, c *config.Config, log *slog.Logger) *supervision {
	n, err := newNotifier(con)
	if err != nil {
		log.Warn("cannot notify the service manager as it asks", "error", err)
	}
	if n == nil {
		return nil
	}
	s := &supervision{
		notify: n, log: log, drain: c.ShutdownGrace + c.StopGrace + stopMargin,
		changed: make(chan struct{}, 1), over: make(chan error, 1), ended: make(chan struct{}),
		web: &http.Client{
			Timeout: reportEvery,
			// The request has no secret, and the certificate need not be for a loopback address.
			Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		},
	}
	s.say("opening the store")
	go func() {
		defer recovery.Log(log, "notifications of the service manager") // the watchdog then ends the server
		s.run(ctx)
	}()
	return s
}

// say sets what the server does while it starts.
func (s *supervision) say(what string) {
	if s != nil {
		s.doing.Store(&what)
		s.wake()
	}
}

// serves reports a server that is about to listen at url.
func (s *supervision) serves(url string, n *Node) {
	if s != nil {
		s.server.Store(&supervised{url: url, ready: n.ready, working: n.pulse.check})
		s.wake()
	}
}

func (s *supervision) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// end reports the result of the server and ends the supervision.
func (s *supervision) end(result error) {
	if s != nil {
		s.over <- result
		<-s.ended
	}
}

func (s *supervision) run(ctx context.Context) {
	defer close(s.ended)
	every := reportEvery
	if s.notify.watchdog > 0 {
		every = min(every, s.notify.watchdog/4)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	stop := ctx.Done()
	for {
		select {
		case err := <-s.over:
			s.stop("stopped")
			if err != nil {
				s.send("STATUS=failed: " + display.Line(err.Error()))
			}
			return
		case <-stop:
			stop = nil
			s.stop(fmt.Sprintf("stopping: runs have %s to end", s.drain-stopMargin))
		case <-s.changed:
		case <-s.poll():
		case <-tick.C:
		}
		if !s.stops && ctx.Err() == nil {
			s.report(ctx, time.Now())
		} else if s.stops && s.notify.watchdog > 0 { // the time to stop is bounded by EXTEND_TIMEOUT_USEC
			s.send("WATCHDOG=1")
		}
	}
}

// poll returns a channel that receives soon while the server is about to become ready.
func (s *supervision) poll() <-chan time.Time {
	if s.server.Load() == nil || s.isReady || s.stops {
		return nil
	}
	return time.After(readyPoll)
}

// stop says once that the server stops. A server that has not ended when that time is over hangs.
func (s *supervision) stop(status string) {
	if !s.stops {
		s.stops = true
		s.send("STOPPING=1", extend(s.drain), "STATUS="+status)
	}
}

func extend(d time.Duration) string { return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()) }

// report says what the server does now.
func (s *supervision) report(ctx context.Context, now time.Time) {
	var lines []string
	status := *s.doing.Load()
	if of := s.server.Load(); of != nil {
		status = "ready at " + of.url
		if err := s.check(ctx, of); err != nil {
			status = "not ready: " + display.Line(err.Error())
		} else if !s.isReady {
			s.isReady = true
			lines = append(lines, "READY=1")
		}
		switch err := of.working(now); {
		case !s.isReady:
		case err != nil:
			status = display.Line(err.Error())
		case s.notify.watchdog > 0:
			lines = append(lines, "WATCHDOG=1")
		}
	}
	if !s.isReady && (now.Sub(s.asked) >= reportEvery || status != s.status) {
		s.asked = now
		lines = append(lines, extend(startExtends))
	}
	if status != s.status {
		s.status = status
		lines = append(lines, "STATUS="+status)
	}
	if len(lines) > 0 {
		s.send(lines...)
	}
}

// check returns why the server is not ready. The first time it also asks as a client does, so that READY=1 means that
// the server answers at its address.
func (s *supervision) check(ctx context.Context, of *supervised) error {
	if err := of.ready(); err != nil || s.isReady {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, of.url+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := s.web.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", answer.Status)
	}
	return nil
}

func (s *supervision) send(lines ...string) {
	err := s.notify.send(lines)
	if err != nil && !s.failed {
		s.log.Warn("the service manager cannot be notified", "error", err)
	}
	s.failed = err != nil
}
