package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/app/config"
	"mailroom/app/storage"
	"mailroom/internal/recovery"
	"mailroom/internal/version"
)

// The first and longest pause between two tries to open the database, which doubles each time, and how often the log
// repeats what the server waits for.
const (
	minStartPause, maxStartPause = 200 * time.Millisecond, 3 * time.Second
	startNotice                  = time.Minute
)

// waiting opens the store of a server, and waits for a database that does not answer yet. Until
// then it answers requests at the server's address.
type waiting struct {
	config *config.Config
	secure *tls.Config // nil: the server speaks HTTP without TLS
	log    *slog.Logger
	say    func(string) // passed on to the service manager

	listener net.Listener // nil: the store was available at once
	server   *http.Server
	ended    sync.WaitGroup
}

// open calls try until the store is open, until start_timeout has passed, or until try fails with an error that
// waiting cannot mend. After the end of ctx it returns the error of ctx.
func (w *waiting) open(ctx context.Context, try func() (*storage.Handles, error)) (*storage.Handles, error) {
	begin, pause := time.Now(), minStartPause
	said := time.Time{}
	for {
		handles, err := try()
		most := w.config.Postgres.StartTimeout
		switch {
		case err == nil:
			if !said.IsZero() {
				w.say("preparing the store")
				w.log.Info("the database answers", "waited", time.Since(begin).Round(time.Millisecond))
			}
			return handles, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case w.config.Store.Kind != config.StorePostgres || !storage.MayAppear(err) || time.Since(begin) >= most:
			return nil, err
		}
		if err := w.listen(ctx); err != nil {
			return nil, err
		}
		if time.Since(said) >= startNotice {
			said = time.Now()
			w.say("waiting for the database")
			w.log.Warn("the database does not answer: the start waits for it", "start_timeout", most, "error", err)
		}
		select {
		case <-time.After(min(pause, max(most-time.Since(begin), 0))):
			pause = min(2*pause, maxStartPause)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// listen answers requests at the server's address until take is called.
func (w *waiting) listen(ctx context.Context) error {
	if w.listener != nil {
		return nil
	}
	ln, err := listen(ctx, w.config.Listen)
	if err != nil {
		return err
	}
	w.listener = ln
	w.server = &http.Server{
		Handler: http.HandlerFunc(answerWaiting), ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelDebug),
		ReadTimeout: w.config.Limits.HeaderTimeout, WriteTimeout: w.config.Limits.HeaderTimeout,
		MaxHeaderBytes: w.config.Limits.Header,
	}
	var serve net.Listener = &lentListener{Listener: ln}
	if w.secure != nil {
		serve = tls.NewListener(serve, w.secure)
	}
	w.ended.Go(func() {
		defer recovery.Log(w.log, "answers while the database is away")
		if err := w.server.Serve(serve); !errors.Is(err, http.ErrServerClosed) {
			w.log.Warn("cannot answer requests while the database is away; the start still waits for the database", "error", err)
		}
	})
	return nil
}

// take returns the listener for the server, and opens it if necessary.
func (w *waiting) take(ctx context.Context) (net.Listener, error) {
	if w.listener == nil {
		return listen(ctx, w.config.Listen)
	}
	ln := w.listener
	w.listener = nil
	w.end()
	return ln, ln.(*net.TCPListener).SetDeadline(time.Time{})
}

// end stops answering requests.
func (w *waiting) end() {
	if w.server != nil {
		_ = w.server.Close() // an error changes nothing: Close only sets a deadline, see lentListener
		w.ended.Wait()
		w.server = nil
	}
}

// close closes the listener if take was not called.
func (w *waiting) close() error {
	w.end()
	if w.listener == nil {
		return nil
	}
	return w.listener.Close()
}

// lentListener is a listener that stays open when the HTTP server that uses it ends.
type lentListener struct{ net.Listener }

func (l *lentListener) Close() error {
	return l.Listener.(*net.TCPListener).SetDeadline(time.Unix(1, 0)) // ends Accept
}

func (l *lentListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, net.ErrClosed
	}
	return c, err
}

// listen opens the address of the server.
func listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, explainListenError(ctx, address, err)
	}
	return ln, nil
}

// answerWaiting answers as a server whose store is not open yet: alive and not ready. The answer reveals nothing
// about the database, because anyone may ask.
func answerWaiting(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		answerJSON(w, http.StatusOK, "application/json", api.Health{Status: "ok", Version: version.Read().Version})
		return
	}
	p := api.NewProblem(mailroom.Errorf(mailroom.CodeUnavailable,
		"not ready: the server starts and waits for its database; try again later"))
	w.Header().Set("Retry-After", "1")
	answerJSON(w, p.Status, api.ProblemType, p)
}

func answerJSON(w http.ResponseWriter, status int, kind string, v any) {
	body, err := json.Marshal(v)
	if err != nil { // cannot fail: both kinds of values are plain data
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone otherwise
}
