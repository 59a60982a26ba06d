package main

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

	"mailroom/entry"
)

// ReaderResult is what the readers of one process received.
type ReaderResult struct {
	Deltas     int64   `json:"deltas"`
	Bytes      int64   `json:"bytes"`   // bytes of text, without duplicates
	CutOff     int     `json:"cut_off"` // connections that ended before the run
	CPUSeconds float64 `json:"cpu_seconds"`
	Delay      Times   `json:"delay"`
}

// readersReady is printed when all readers are connected.
const readersReady = "connected"

// readersRead is printed when all readers have read the end of run n, counted from 1.
const readersRead = "read %d\n"

// MaxReaders is the maximum number of readers in one process.
const MaxReaders = 10_000

// readers holds the state of all readers of one thread.
type readers struct {
	count                                  int64 // set once
	deltas, bytes, cutOff, connected, ends atomic.Int64
	delay                                  histogram

	mu sync.Mutex
	w  io.Writer // owned by mu, once the first run has ended
}

// onRunEnd records that one reader has read the end of a run. When all readers have read that end, it prints the
// number of the run.
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

// ReaderOptions are the options of the readers of one process.
type ReaderOptions struct {
	URL, Token, Thread string
	Readers            int
	Sockets            bool // WebSockets instead of event streams
	// Runs is the number of runs that a WebSocket reader waits for. An event stream ends
	// when the thread has settled.
	Runs int
}

// RunReaders connects readers to a thread. It prints readersReady to w when all are
// connected, and their [ReaderResult] as JSON when all have finished or stdin has ended.
func RunReaders(ctx context.Context, stdin io.Reader, w io.Writer, what ReaderOptions) error {
	n := what.Readers
	if n < 1 || n > MaxReaders {
		return fmt.Errorf("invalid number of readers %d: use 1 to %d", n, MaxReaders)
	}
	ctx, stop := untilInputEnds(ctx, stdin)
	defer stop()
	all := make(chan struct{})
	r := readers{count: int64(n), w: w}
	group, connected := errgroup.WithContext(ctx)
	web := &http.Client{Transport: &http.Transport{MaxConnsPerHost: n, ReadBufferSize: 16 << 10}}
	connecting := make(chan struct{}, 16) // limited, because the backlog of a listener is short
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

// readEvents runs one event stream reader. It calls begun when it is connected.
func (r *readers) readEvents(ctx context.Context, web *http.Client, what ReaderOptions, begun func()) error {
	body, err := connect(ctx, web, what)
	if err != nil {
		return err
	}
	defer body.Close() // the error does not matter
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
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // without the body, the error still has the status
		return nil, errors.Join(fmt.Errorf("unexpected response %s: %s", resp.Status, said), resp.Body.Close())
	}
	return resp.Body, nil
}

// parseEvents parses events until the stream ends.
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
			if e.Kind != entry.KindCompleted {
				continue
			}
			if settled = true; r.onRunEnd() != nil {
				return nil // the parent process has ended
			}
		}
	}
}

// readLine reads a line of any length. The result is valid until the next call.
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

// piece is a delta.
type piece struct {
	Offset int
	Text   string
}

// delta counts the new text of a delta and returns the new position. The sum does not include text that the stream
// skipped.
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
