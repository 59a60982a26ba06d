package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"mailroom"
	"mailroom/server"
	"mailroom/stream"
	"mailroom/thread"
)

// Fanout is the result of one run with many readers, which run in another process and
// connect over HTTP on the loopback interface.
type Fanout struct {
	Sockets          bool    `json:"sockets"` // readers use WebSockets instead of event streams
	Readers          int     `json:"readers"`
	PiecesPerSecond  float64 `json:"pieces_per_second"` // streamed by the run
	Seconds          float64 `json:"seconds"`
	DeliveriesPerSec float64 `json:"deliveries_per_second"` // events with live text, to all readers
	// ServerCores and ReaderCores are the CPU seconds per second of the server's and the
	// readers' processes.
	ServerCores float64 `json:"server_cores"`
	ReaderCores float64 `json:"reader_cores"`
	// Delay is the time from streaming a delta to its arrival at a reader.
	Delay Times `json:"delay"`
	// LostBytes is the amount of text that readers did not receive live. CutOff is the number of connections that
	// ended before the run ended.
	LostBytes int64 `json:"lost_bytes"`
	CutOff    int   `json:"cut_off"`
}

const (
	fanoutReaders = 1000
	pieceEvery    = 20 * time.Millisecond
	pieceLength   = 20 // digits of the time in ns, and a space
	maxFanoutTime = 10 * time.Minute
	fanoutThread  = "fanout"
)

// pacedAgent is the agent of the fanout part. It streams a delta every 20 ms that contains the
// current time.
type pacedAgent struct {
	begin chan struct{}
	last  time.Duration
}

func (s pacedAgent) Run(ctx context.Context, session mailroom.Session) error {
	select {
	case <-s.begin:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	began := time.Now()
	for i := range s.pieces() {
		// The deltas follow a fixed schedule, so that the agent catches up after a delay.
		if err := sleepUntil(ctx, began.Add(time.Duration(i+1)*pieceEvery)); err != nil {
			return err
		}
		if err := session.Stream(ctx, strconv.FormatInt(time.Now().UnixNano(), 10)+" "); err != nil {
			return err
		}
	}
	return nil
}

func (s pacedAgent) pieces() int { return int(s.last / pieceEvery) }

// fanout measures one run with many readers, over event streams and over WebSockets.
func (b *bench) fanout(ctx context.Context, dir string) error {
	for _, sockets := range []bool{false, true} {
		name := map[bool]string{false: "events", true: "sockets"}[sockets]
		err := b.inTempDir(filepath.Join(PartFanout, name), func(dir string) error {
			return b.measureFanout(ctx, dir, sockets)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) measureFanout(ctx context.Context, dir string, sockets bool) (err error) {
	n := b.scaled(fanoutReaders, 10)
	b.Progress("fanout: %d readers over %s of a run with 50 deltas/s", n, readerTransport(sockets))
	a := pacedAgent{begin: make(chan struct{}), last: min(b.For, maxFanoutTime)}
	ended := make(chan struct{}, 1)
	h, err := newFixture(ctx, openFile, dir, b.AgentVersion, func(*mailroom.Run) { ended <- struct{}{} })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	h.startEngine(a, b.Slots)
	in := thread.Submit{Thread: fanoutThread, Sender: "bench", Owner: "bench",
		Messages: []thread.NewMessage{{Parts: mailroom.Text("Speak.")}}}
	if _, err := h.ledger.Submit(ctx, in); err != nil {
		return err
	}
	face, err := h.serve(n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, face.close()) }()
	readers, err := b.startReaders(ctx, face, n, sockets, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, readers.kill()) }()
	began, cpu := time.Now(), cpuTime()
	close(a.begin)
	select {
	case <-ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	took, cpu := time.Since(began), cpuTime()-cpu
	got, err := readers.readResults()
	if err != nil {
		return err
	}
	b.result.Fanout = append(b.result.Fanout, Fanout{
		Sockets: sockets, Readers: n, Seconds: took.Seconds(), PiecesPerSecond: float64(a.pieces()) / took.Seconds(),
		DeliveriesPerSec: float64(got.Deltas) / took.Seconds(),
		ServerCores:      cpu.Seconds() / took.Seconds(), ReaderCores: got.CPUSeconds / took.Seconds(),
		Delay: got.Delay, CutOff: got.CutOff,
		LostBytes: int64(n)*int64(a.pieces())*pieceLength - got.Bytes,
	})
	return nil
}

// readerTransport names the transport of the readers.
func readerTransport(sockets bool) string {
	if sockets {
		return "WebSockets"
	}
	return "event streams"
}

// httpServer is the HTTP server of a fixture.
type httpServer struct {
	url, token string
	stop       context.CancelFunc
	done       chan error
}

// serve starts a server that accepts the given number of readers.
func (h *fixture) serve(readers int) (*httpServer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &httpServer{url: "http://" + ln.Addr().String(), token: "bench", stop: stop, done: make(chan error, 1)}
	s := server.New(server.Options{
		Ledger: server.PartsOf(h.ledger), Streams: stream.New(h.ledger, h.bus), Bus: h.bus,
		Log:    slog.New(slog.DiscardHandler),
		Access: server.Access{Token: f.token}, Parts: server.Parts{Metrics: h.metrics},
		Limits: server.Limits{MaxStreams: readers + 1},
	})
	go func() { f.done <- s.Serve(ctx, ln) }() // close waits for it
	return f, nil
}

func (f *httpServer) close() error {
	f.stop()
	return <-f.done
}

// startReaders starts n readers of the thread and returns when they are connected. Over
// WebSockets they read until the given number of runs has ended.
func (b *bench) startReaders(ctx context.Context, f *httpServer, n int, sockets bool, runs int) (*child, error) {
	env := []string{"MAILROOM_URL=" + f.url, "MAILROOM_TOKEN=" + f.token}
	args := []string{"readers", strconv.Itoa(n), fanoutThread}
	if sockets {
		args = append(args, "--sockets", "--runs", strconv.Itoa(runs))
	}
	c, err := b.startChild(ctx, env, false, args...)
	if err != nil {
		return nil, err
	}
	if _, err := c.waitLine(readersReady); err != nil {
		return nil, fmt.Errorf("connect %d readers: %w", n, errors.Join(err, c.kill()))
	}
	return c, nil
}
