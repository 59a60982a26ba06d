package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"mailroom"
	"mailroom/thread"
)

// Stalled shows what readers that are connected and do not read cost a run and its active readers. Rounds with and
// without such readers alternate.
type Stalled struct {
	Readers int        `json:"readers"` // active readers, half of them over WebSockets
	Stalled int        `json:"stalled"` // stalled readers in every second round
	Without StreamLoad `json:"without"`
	With    StreamLoad `json:"with"`
	// SpeedRatio is the speed with stalled readers divided by the speed without.
	SpeedRatio float64 `json:"speed_ratio"`
	CPURatio   float64 `json:"cpu_ratio"`
	HeapRatio  float64 `json:"heap_ratio"`
	CutOff     int     `json:"cut_off"` // disconnected active readers
}

// StreamLoad is the result of runs that stream at full speed.
type StreamLoad struct {
	PiecesPerSecond float64 `json:"pieces_per_second"` // rate of the median run
	Run             Times   `json:"run"`
	// CPUPerRun is the server's CPU time for a run, until all active readers have it, in
	// milliseconds; the median of the runs.
	CPUPerRun float64 `json:"cpu_ms_per_run"`
	// Heap is the server's heap after a round and a collection, in bytes; the mean of the
	// rounds.
	Heap float64 `json:"heap_bytes"`
}

const (
	stalledReaders = 100
	stalledPairs   = 6 // pairs of rounds, the second with stalled readers
	stalledWarmup  = 1 // runs per round in which buffers fill
	stalledRuns    = 3 // measured runs per round
	stalledPieces  = 5_000
	stalledPiece   = "fifty bytes of text, which is a line or so of it. "
)

// unpacedAgent is the agent of the stalled part. It streams without a pause after a signal on
// begin.
type unpacedAgent struct {
	pieces int // per run
	begin  chan struct{}
	took   chan time.Duration
}

func (a unpacedAgent) Run(ctx context.Context, session mailroom.Session) error {
	select {
	case <-a.begin:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	began := time.Now()
	for range a.pieces {
		if err := session.Stream(ctx, stalledPiece); err != nil {
			return err
		}
	}
	a.took <- time.Since(began)
	return nil
}

// stalled measures rounds of runs with and without stalled readers.
func (b *bench) stalled(ctx context.Context, dir string) (err error) {
	n := b.scaled(stalledReaders, 4)
	rounds, each := 2*b.scaled(stalledPairs, 1), stalledWarmup+b.scaled(stalledRuns, 1)
	runs := rounds * each
	b.Progress("stalled: a run at full speed with %d readers, with and without 2 stalled readers", n)
	a := unpacedAgent{pieces: b.scaled(stalledPieces, 500), begin: make(chan struct{}), took: make(chan time.Duration, 1)}
	ended := make(chan struct{}, 1)
	h, err := newFixture(ctx, openFile, dir, b.AgentVersion, func(*mailroom.Run) { ended <- struct{}{} })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	h.startEngine(a, 1)
	for range runs + 1 { // one extra run, so that the thread does not settle early
		in := thread.Submit{Thread: fanoutThread, Sender: "bench", Owner: "bench",
			Messages: []thread.NewMessage{{Parts: mailroom.Text("Speak.")}}}
		if _, err := h.ledger.Submit(ctx, in); err != nil {
			return err
		}
	}
	f, err := h.serve(n + 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	var live []*child
	for _, sockets := range []bool{false, true} {
		c, err := b.startReaders(ctx, f, n/2, sockets, runs+1)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.kill()) }()
		live = append(live, c)
	}
	m := &stalledRounds{server: f, agent: a, ended: ended, readers: live}
	for i := range rounds {
		if err := m.round(ctx, each, i%2 == 1); err != nil {
			return err
		}
	}
	if _, err := m.runOnce(ctx); err != nil { // the extra run, which ends the readers
		return err
	}
	b.result.Stalled = m.result(n)
	for _, c := range live {
		got, err := c.readResults()
		if err != nil {
			return err
		}
		b.result.Stalled.CutOff += got.CutOff
	}
	return nil
}

// readResults waits for the readers and returns their result.
func (c *child) readResults() (got ReaderResult, err error) {
	line, err := c.waitLine("{")
	if err == nil {
		err = json.Unmarshal([]byte(line), &got)
	}
	if err != nil {
		return got, fmt.Errorf("read the readers' output: %w", err)
	}
	return got, c.finish()
}

// stalledRounds holds the state of the measurement.
type stalledRounds struct {
	server  *httpServer
	agent   unpacedAgent
	ended   chan struct{}
	readers []*child // active readers
	runs    int      // completed runs

	took  [2]histogram // times of runs, without and with stalled readers
	cpu   [2]histogram
	heaps [2][]float64
}

// round executes runs, one after the other.
func (m *stalledRounds) round(ctx context.Context, runs int, stall bool) error {
	kind := 0
	if stall {
		kind = 1
		for _, begin := range []func(context.Context) (io.Closer, error){m.openStalledEvents, m.openStalledSocket} {
			stuck, err := begin(ctx)
			if err != nil {
				return fmt.Errorf("connect a stalled reader: %w", err)
			}
			defer stuck.Close() // the error does not matter
		}
	}
	for i := range runs {
		cpu := cpuTime()
		took, err := m.runOnce(ctx)
		if err != nil {
			return err
		}
		if i >= stalledWarmup {
			m.took[kind].add(took)
			m.cpu[kind].add(cpuTime() - cpu)
		}
	}
	m.heaps[kind] = append(m.heaps[kind], float64(measureMemory().heap))
	return nil
}

// runOnce executes the next run and waits until all active readers have read its end, so that
// every run starts with idle readers.
func (m *stalledRounds) runOnce(ctx context.Context) (took time.Duration, err error) {
	select {
	case m.agent.begin <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	took = <-m.agent.took
	<-m.ended
	m.runs++
	for _, c := range m.readers {
		if _, err := c.waitLine(fmt.Sprintf(readersRead, m.runs)); err != nil {
			return 0, fmt.Errorf("read the readers' output: %w", err)
		}
	}
	return took, nil
}

func (m *stalledRounds) result(readers int) *Stalled {
	out := &Stalled{Readers: readers, Stalled: 2}
	for i, s := range []*StreamLoad{&out.Without, &out.With} {
		for _, heap := range m.heaps[i] {
			s.Heap += heap / float64(len(m.heaps[i]))
		}
		s.Run, s.CPUPerRun = m.took[i].times(), m.cpu[i].times().P50
		s.PiecesPerSecond = float64(m.agent.pieces) / (s.Run.P50 / 1000)
	}
	out.SpeedRatio = out.With.PiecesPerSecond / out.Without.PiecesPerSecond
	out.CPURatio = out.With.CPUPerRun / out.Without.CPUPerRun
	out.HeapRatio = out.With.Heap / out.Without.Heap
	return out
}

// dialSmallBuffer connects with a minimal receive buffer.
func dialSmallBuffer(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		err = conn.(*net.TCPConn).SetReadBuffer(4096) // the network is always tcp
	}
	return conn, err
}

// openStalledEvents requests an event stream and reads nothing.
func (m *stalledRounds) openStalledEvents(ctx context.Context) (io.Closer, error) {
	conn, err := dialSmallBuffer(ctx, "tcp", strings.TrimPrefix(m.server.url, "http://"))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "GET /v1/threads/%s/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
		fanoutThread, m.server.token)
	return conn, err
}

// openStalledSocket subscribes over a WebSocket and reads nothing.
func (m *stalledRounds) openStalledSocket(ctx context.Context) (io.Closer, error) {
	web := &http.Client{Transport: &http.Transport{DialContext: dialSmallBuffer}}
	conn, err := subscribe(ctx, web, ReaderOptions{URL: m.server.url, Token: m.server.token, Thread: fanoutThread})
	if err != nil {
		return nil, err
	}
	return abruptCloser{conn}, nil
}

// abruptCloser closes a WebSocket without a handshake.
type abruptCloser struct{ conn *websocket.Conn }

func (h abruptCloser) Close() error { return h.conn.CloseNow() }
