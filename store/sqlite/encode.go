package sqlite

import (
	"sync"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/store"
	"mailroom/store/internal/format"
)

const (
	// encodeBeside is the number of runs and lists of entries from which a goroutine encodes them while the writer
	// writes the threads. Fewer are encoded in less time than the goroutine needs to start and to be waited for.
	encodeBeside = 8

	// maxKept bounds the buffers of an encoder that the next Write uses again, in bytes.
	maxKept = 1 << 20
)

// encoder encodes the bodies of the runs and the lines of the entries of a Write. It only reads the Changes.
type encoder struct {
	shrinker *format.Shrinker
	lines    []byte // of the last list of entries, in clear
	buffer   []byte // has the runs and entries one behind the other

	runs    [][]byte // bodies of Changes.Runs
	entries [][]byte // rows of Changes.Entries

	beside sync.WaitGroup // the goroutine that encodes; the fields above are its own until it ends
	failed error          // why it ended early
}

// start begins to encode the runs and entries of c. The caller calls end before it returns.
func (e *encoder) start(c *store.Changes) {
	if len(c.Runs)+len(c.Entries) < encodeBeside {
		e.failed = e.encode(c)
		return
	}
	e.beside.Go(func() {
		defer recovery.Handle(nil, "encoding rows", func(p *recovery.Panic) { e.failed = p })
		e.failed = e.encode(c)
	})
}

// wait waits until runs and entries are encoded. After it, the caller owns the encoder.
func (e *encoder) wait() error {
	e.beside.Wait()
	return e.failed
}

func (e *encoder) encode(c *store.Changes) error {
	for _, r := range c.Runs {
		from := len(e.buffer)
		e.buffer = format.AppendRun(e.buffer, r)
		e.runs = append(e.runs, e.buffer[from:])
	}
	for _, list := range c.Entries {
		if err := e.encodeEntries(list); err != nil {
			return err
		}
	}
	return nil
}

// encodeEntries encodes the entries of one thread.
func (e *encoder) encodeEntries(list []mailroom.Entry) (err error) {
	if len(list) == 0 {
		e.entries = append(e.entries, nil)
		return nil
	}
	if e.lines, err = format.AppendEntries(e.lines[:0], list); err != nil {
		return err
	}
	from := len(e.buffer)
	e.buffer = e.shrinker.Append(e.buffer, e.lines, list[0].Thread, list[0].Run)
	e.entries = append(e.entries, e.buffer[from:])
	return nil
}

// end waits and makes the encoder ready for the next Write.
func (e *encoder) end() {
	e.beside.Wait()
	clear(e.runs)
	clear(e.entries)
	e.runs, e.entries, e.failed = e.runs[:0], e.entries[:0], nil
	e.lines, e.buffer = kept(e.lines), kept(e.buffer)
}

// kept returns an empty buffer with the memory of b, unless that is too large to be kept.
func kept(b []byte) []byte {
	if cap(b) > maxKept {
		return nil
	}
	return b[:0]
}
