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
	Readers int    `json:"readers"` // that read; half of them over WebSockets
	Stalled int    `json:"stalled"` // beside them in every second round
	Without Speech `json:"without"`
	With    Speech `json:"with"`
	// The second divided by the first.
	SpeedRatio float64 `json:"speed_ratio"`
	CPURatio   float64 `json:"cpu_ratio"`
	HeapRatio  float64 `json:"heap_ratio"`
	CutOff     int     `json:"cut_off"` // of those that read
}

// Speech is a run that writes as fast as it can.
type Speech struct {
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

// rusher is the agent: it writes without a pause, once it may begin.
type rusher struct {
	pieces int // of a run
	begin  chan struct{}
	took   chan time.Duration
}

func (a rusher) Run(ctx context.Context, session mailroom.Session) error {
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
	b.Tell("stalled: a run that writes as fast as it can, with %d readers and in turn with 2 more that take nothing", n)
	a := rusher{pieces: b.scaled(stalledPieces, 500), begin: make(chan struct{}), took: make(chan time.Duration, 1)}
	ended := make(chan struct{}, 1)
	h, err := open(ctx, dir, b.AgentVersion, func(*mailroom.Run) { ended <- struct{}{} })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	h.work(a, 1)
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
	m := &stalling{face: f, agent: a, ended: ended, live: live}
	for i := range rounds {
		if err := m.round(ctx, each, i%2 == 1); err != nil {
			return err
		}
	}
	if _, err := m.speak(ctx); err != nil { // the last one, with which those that read end
		return err
	}
	b.result.Stalled = m.result(n)
	for _, c := range live {
		got, err := c.readings()
		if err != nil {
			return err
		}
		b.result.Stalled.CutOff += got.CutOff
	}
	return nil
}

// readings waits for the end of readers, and returns what they got.
func (c *child) readings() (got Readings, err error) {
	line, err := c.line("{")
	if err == nil {
		err = json.Unmarshal([]byte(line), &got)
	}
	if err != nil {
		return got, fmt.Errorf("hear from the readers: %w", err)
	}
	return got, c.finish()
}

// stalling measures the rounds.
type stalling struct {
	face  *face
	agent rusher
	ended chan struct{}
	live  []*child // those that read
	runs  int      // that have written

	took  [2]histogram // of runs, without and with readers that stall
	cpu   [2]histogram
	heaps [2][]float64
}

// round has some runs write, one after the other.
func (m *stalling) round(ctx context.Context, runs int, stall bool) error {
	kind := 0
	if stall {
		kind = 1
		for _, begin := range []func(context.Context) (io.Closer, error){m.stuckEvents, m.stuckSocket} {
			stuck, err := begin(ctx)
			if err != nil {
				return fmt.Errorf("connect a reader that stalls: %w", err)
			}
			defer stuck.Close() // nothing depends on how the reading side is closed
		}
	}
	for i := range runs {
		cpu := cpuTime()
		took, err := m.speak(ctx)
		if err != nil {
			return err
		}
		if i >= stalledWarmup {
			m.took[kind].add(took)
			m.cpu[kind].add(cpuTime() - cpu)
		}
	}
	m.heaps[kind] = append(m.heaps[kind], float64(memoryNow().heap))
	return nil
}

// speak lets the next run write, and those that read come to its end, so that
// every run finds them at rest.
func (m *stalling) speak(ctx context.Context) (took time.Duration, err error) {
	select {
	case m.agent.begin <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	took = <-m.agent.took
	<-m.ended
	m.runs++
	for _, c := range m.live {
		if _, err := c.line(fmt.Sprintf(readersRead, m.runs)); err != nil {
			return 0, fmt.Errorf("hear from the readers: %w", err)
		}
	}
	return took, nil
}

func (m *stalling) result(readers int) *Stalled {
	out := &Stalled{Readers: readers, Stalled: 2}
	for i, s := range []*Speech{&out.Without, &out.With} {
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

// tight connects with room for next to nothing that is not read.
func tight(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		err = conn.(*net.TCPConn).SetReadBuffer(4096) // the only kind that this network makes
	}
	return conn, err
}

// stuckEvents asks for a stream of events and reads nothing of it.
func (m *stalling) stuckEvents(ctx context.Context) (io.Closer, error) {
	conn, err := tight(ctx, "tcp", strings.TrimPrefix(m.face.url, "http://"))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "GET /v1/threads/%s/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", fanoutThread, m.face.token)
	return conn, err
}

// stuckSocket subscribes over a WebSocket and reads nothing of it.
func (m *stalling) stuckSocket(ctx context.Context) (io.Closer, error) {
	web := &http.Client{Transport: &http.Transport{DialContext: tight}}
	conn, err := subscribe(ctx, web, Reading{URL: m.face.url, Token: m.face.token, Thread: fanoutThread})
	if err != nil {
		return nil, err
	}
	return hangUp{conn}, nil
}

// hangUp closes a WebSocket without a word.
type hangUp struct{ conn *websocket.Conn }

func (h hangUp) Close() error { return h.conn.CloseNow() }
