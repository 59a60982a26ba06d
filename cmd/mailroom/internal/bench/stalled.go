package bench

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
)

// Stalled is what readers that are connected and take nothing cost a run and the
// readers beside them. Both kinds of rounds are measured in turn.
type Stalled struct {
	Readers int        `json:"readers"` // that read; half of them over WebSockets
	Stalled int        `json:"stalled"` // beside them in every second round
	Without StreamLoad `json:"without"`
	With    StreamLoad `json:"with"`
	// The second divided by the first.
	SpeedRatio float64 `json:"speed_ratio"`
	CPURatio   float64 `json:"cpu_ratio"`
	HeapRatio  float64 `json:"heap_ratio"`
	CutOff     int     `json:"cut_off"` // of those that read
}

// StreamLoad is a run that writes as fast as it can.
type StreamLoad struct {
	PiecesPerSecond float64 `json:"pieces_per_second"` // of the run of middle length
	Run             Times   `json:"run"`
	// CPUPerRun is the processor's time of the server for a run, until all
	// that read have it, in milliseconds; the middle of the runs.
	CPUPerRun float64 `json:"cpu_ms_per_run"`
	// Heap is the server's at the end of a round, when all has been read and
	// after a collection, in bytes; the mean of the rounds.
	Heap float64 `json:"heap_bytes"`
}

const (
	stalledReaders = 100
	stalledPairs   = 6 // of rounds, the second with readers that stall
	stalledWarmup  = 1 // runs of a round in which buffers fill
	stalledRuns    = 3 // of a round after that
	stalledPieces  = 5_000
	stalledPiece   = "fifty bytes of text, which is a line or so of it. "
)

// unpacedAgent is the agent: it writes without a pause, once it may begin.
type unpacedAgent struct {
	pieces int // of a run
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

// stalled measures rounds of runs with and without readers that stall.
func (b *bench) stalled(ctx context.Context, dir string) (err error) {
	n := b.scaled(stalledReaders, 4)
	rounds, each := 2*b.scaled(stalledPairs, 1), stalledWarmup+b.scaled(stalledRuns, 1)
	runs := rounds * each
	b.Progress("stalled: a run that writes as fast as it can, with %d readers and in turn with 2 more that take nothing", n)
	a := unpacedAgent{pieces: b.scaled(stalledPieces, 500), begin: make(chan struct{}), took: make(chan time.Duration, 1)}
	ended := make(chan struct{}, 1)
	h, err := newFixture(ctx, dir, b.AgentVersion, func(*mailroom.Run) { ended <- struct{}{} })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	h.startEngine(a, 1)
	for range runs + 1 { // the last keeps the thread from settling before the end
		in := mailroom.Submit{Thread: fanoutThread, Sender: "bench", Owner: "bench", Messages: []mailroom.NewMessage{{Parts: mailroom.Text("Speak.")}}}
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
	if _, err := m.runOnce(ctx); err != nil { // the last one, with which those that read end
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

// readResults waits for the end of readers, and returns what they got.
func (c *child) readResults() (got ReaderResult, err error) {
	line, err := c.waitLine("{")
	if err == nil {
		err = json.Unmarshal([]byte(line), &got)
	}
	if err != nil {
		return got, fmt.Errorf("hear from the readers: %w", err)
	}
	return got, c.finish()
}

// stalledRounds measures the rounds.
type stalledRounds struct {
	server  *httpServer
	agent   unpacedAgent
	ended   chan struct{}
	readers []*child // those that read
	runs    int      // that have written

	took  [2]histogram // of runs, without and with readers that stall
	cpu   [2]histogram
	heaps [2][]float64
}

// round has some runs write, one after the other.
func (m *stalledRounds) round(ctx context.Context, runs int, stall bool) error {
	kind := 0
	if stall {
		kind = 1
		for _, begin := range []func(context.Context) (io.Closer, error){m.openStalledEvents, m.openStalledSocket} {
			stuck, err := begin(ctx)
			if err != nil {
				return fmt.Errorf("connect a reader that stalls: %w", err)
			}
			defer stuck.Close() // nothing depends on how the reading side is closed
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

// runOnce lets the next run write, and those that read come to its end, so that
// every run finds them at rest.
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
			return 0, fmt.Errorf("hear from the readers: %w", err)
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

// dialSmallBuffer connects with room for next to nothing that is not read.
func dialSmallBuffer(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		err = conn.(*net.TCPConn).SetReadBuffer(4096) // the only kind that this network makes
	}
	return conn, err
}

// openStalledEvents asks for a stream of events and reads nothing of it.
func (m *stalledRounds) openStalledEvents(ctx context.Context) (io.Closer, error) {
	conn, err := dialSmallBuffer(ctx, "tcp", strings.TrimPrefix(m.server.url, "http://"))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "GET /v1/threads/%s/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", fanoutThread, m.server.token)
	return conn, err
}

// openStalledSocket subscribes over a WebSocket and reads nothing of it.
func (m *stalledRounds) openStalledSocket(ctx context.Context) (io.Closer, error) {
	web := &http.Client{Transport: &http.Transport{DialContext: dialSmallBuffer}}
	conn, err := subscribe(ctx, web, ReaderOptions{URL: m.server.url, Token: m.server.token, Thread: fanoutThread})
	if err != nil {
		return nil, err
	}
	return abruptCloser{conn}, nil
}

// abruptCloser closes a WebSocket without a word.
type abruptCloser struct{ conn *websocket.Conn }

func (h abruptCloser) Close() error { return h.conn.CloseNow() }
