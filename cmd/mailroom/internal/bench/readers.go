package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
)

// ReaderResult are what the readers of one process got.
type ReaderResult struct {
	Deltas     int64   `json:"deltas"`
	Bytes      int64   `json:"bytes"`   // of text, each once
	CutOff     int     `json:"cut_off"` // connections that ended before the run
	CPUSeconds float64 `json:"cpu_seconds"`
	Delay      Times   `json:"delay"`
}

// readersReady is the line that says that all are connected.
const readersReady = "connected"

// readersRead is the line that says that all have read the ends of so many runs.
const readersRead = "read %d\n"

// MaxReaders of one process.
const MaxReaders = 10_000

// readers are many readers of one thread.
type readers struct {
	count                                  int64 // set once
	deltas, bytes, cutOff, connected, ends atomic.Int64
	delay                                  histogram

	mu sync.Mutex
	w  io.Writer // owned by mu, from the first end of a run on
}

// onRunEnd notes that one reader has read the end of a run. When all have read the
// same number of them, it says how many.
func (r *readers) onRunEnd() error {
	n := r.ends.Add(1)
	if n%r.count != 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := fmt.Fprintf(r.w, readersRead, n/r.count)
	return err
}

// ReaderOptions says what the readers of one process do.
type ReaderOptions struct {
	URL, Token, Thread string
	Readers            int
	Sockets            bool // over WebSockets, not streams of events
	// Runs is how many of the thread's runs a reader over a WebSocket waits
	// for. A stream of events ends when the thread has settled.
	Runs int
}

// RunReaders connects readers to a thread. When all are connected it says so on w; when
// they have come to their end it writes their [Readings] there. It returns then,
// or when stdin ends.
func RunReaders(ctx context.Context, stdin io.Reader, w io.Writer, what ReaderOptions) error {
	n := what.Readers
	if n < 1 || n > MaxReaders {
		return fmt.Errorf("%d readers: choose 1 to %d", n, MaxReaders)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		// It ends with the process: a read of standard input cannot be
		// interrupted. Its error means the same as its end.
		_, _ = io.Copy(io.Discard, stdin)
		stop()
	}()
	all := make(chan struct{})
	r := readers{count: int64(n), w: w}
	group, connected := errgroup.WithContext(ctx)
	web := &http.Client{Transport: &http.Transport{MaxConnsPerHost: n, ReadBufferSize: 16 << 10}}
	connecting := make(chan struct{}, 16) // not all at once: the backlog of a listener is short
	for range n {
		group.Go(func() error {
			begun := func() {
				<-connecting
				if r.connected.Add(1) == int64(n) {
					close(all)
				}
			}
			connecting <- struct{}{}
			if what.Sockets {
				return r.readSocket(connected, what, begun)
			}
			return r.readEvents(connected, web, what, begun)
		})
	}
	var cpu time.Duration
	group.Go(func() error {
		select {
		case <-all:
			cpu = cpuTime()
			_, err := fmt.Fprintln(w, readersReady)
			return err
		case <-connected.Done():
			return context.Cause(connected)
		}
	})
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return json.NewEncoder(w).Encode(ReaderResult{
		Deltas: r.deltas.Load(), Bytes: r.bytes.Load(), CutOff: int(r.cutOff.Load()),
		CPUSeconds: (cpuTime() - cpu).Seconds(), Delay: r.delay.times(),
	})
}

// readEvents is one reader of a stream of events. begun is called once it is
// connected.
func (r *readers) readEvents(ctx context.Context, web *http.Client, what ReaderOptions, begun func()) error {
	body, err := connect(ctx, web, what)
	if err != nil {
		return err
	}
	defer body.Close() // nothing depends on how the reading side is closed
	begun()
	return r.parseEvents(body)
}

func connect(ctx context.Context, web *http.Client, what ReaderOptions) (io.ReadCloser, error) {
	target := what.URL + "/v1/threads/" + url.PathEscape(what.Thread) + "/stream?until=settled"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+what.Token)
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // the status says enough
		return nil, errors.Join(fmt.Errorf("the stream was answered with %s: %s", resp.Status, said), resp.Body.Close())
	}
	return resp.Body, nil
}

// parseEvents reads events until the stream ends.
func (r *readers) parseEvents(body io.Reader) error {
	lines := bufio.NewReader(body)
	event, upto, settled := "", 0, false
	for {
		line, err := readLine(lines)
		if err != nil {
			if !settled {
				r.cutOff.Add(1)
			}
			return nil
		}
		if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			event = string(name)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		switch {
		case !ok:
		case event == "delta":
			var d piece
			if err := json.Unmarshal(data, &d); err != nil {
				return fmt.Errorf("read a delta: %w", err)
			}
			upto = r.delta(d, upto)
		case event == "entry":
			var e struct{ Kind string }
			if err := json.Unmarshal(data, &e); err != nil {
				return fmt.Errorf("read an entry: %w", err)
			}
			if e.Kind != mailroom.KindCompleted {
				continue
			}
			if settled = true; r.onRunEnd() != nil {
				return nil // nobody listens any more
			}
		}
	}
}

// readLine reads a line of any length; it is good until the next.
func readLine(r *bufio.Reader) ([]byte, error) {
	part, err := r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return bytes.TrimSuffix(part, []byte("\n")), err
	}
	long := bytes.Clone(part)
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = r.ReadSlice('\n')
		long = append(long, part...)
	}
	return bytes.TrimSuffix(long, []byte("\n")), err
}

// piece is live text.
type piece struct {
	Offset int
	Text   string
}

// delta counts a piece of text that begins at upto or before; what lies beyond
// is not counted, so that it is missing in the sum.
func (r *readers) delta(d piece, upto int) int {
	now := time.Now()
	r.deltas.Add(1)
	end := d.Offset + len(d.Text)
	if end <= upto {
		return upto
	}
	r.bytes.Add(int64(end - max(upto, d.Offset)))
	if len(d.Text) >= pieceLength {
		if ns, err := strconv.ParseInt(d.Text[:pieceLength-1], 10, 64); err == nil {
			r.delay.add(now.Sub(time.Unix(0, ns)))
		}
	}
	return end
}
