package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"mailroom"
	"mailroom/thread"
)

// Memory is the memory and disk use of idle objects. Each value is the difference between
// many and few objects, divided by their number.
type Memory struct {
	Thread Footprint `json:"idle_thread"` // a thread with one completed run
	Run    Footprint `json:"queued_run"`
	Reader Footprint `json:"idle_reader"`
	Worker Footprint `json:"idle_worker"` // a worker that waits for a run
}

// Footprint is the use of one object, in bytes.
type Footprint struct {
	Count int     `json:"count"`
	Heap  float64 `json:"heap_bytes"`
	// Resident is the resident memory of the whole process. It includes SQLite's cache
	// (at most 64 MiB) and memory that the collector has not returned. 0: unknown.
	Resident float64 `json:"resident_bytes"`
	Disk     float64 `json:"disk_bytes"`
}

const (
	memoryThreads = 100_000
	memoryRuns    = 100_000
	memoryReaders = 1000
	memoryFew     = 1000 // created before, so that one-time allocations are not counted
)

// memoryUse is the memory use of this process.
type memoryUse struct{ heap, resident int64 }

func measureMemory() memoryUse {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memoryUse{heap: int64(m.HeapAlloc), resident: resident()}
}

// footprint returns the memory per object, for n objects that were created after before was measured.
func (before memoryUse) footprint(n int) Footprint {
	now := measureMemory()
	f := Footprint{Count: n, Heap: float64(now.heap-before.heap) / float64(n)}
	if before.resident > 0 {
		f.Resident = float64(now.resident-before.resident) / float64(n)
	}
	return f
}

// memory measures this process, so it must run before the other parts.
func (b *bench) memory(ctx context.Context, dir string) error {
	m := &Memory{}
	for _, kind := range []struct {
		name    string
		measure func(ctx context.Context, dir string) (Footprint, error)
		into    *Footprint
	}{
		{"idle threads", b.threadMemory, &m.Thread},
		{"queued runs", b.queueMemory, &m.Run},
		{"idle readers", b.readerMemory, &m.Reader},
		{"idle workers", b.workerMemory, &m.Worker},
	} {
		b.Progress("memory: of %s", kind.name)
		sub := filepath.Join(dir, "of")
		err := b.inTempDir(filepath.Join("memory", "of"), func(string) (err error) {
			*kind.into, err = kind.measure(ctx, sub)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	b.result.Memory = m
	return nil
}

// threadMemory creates threads with one completed run each.
func (b *bench) threadMemory(ctx context.Context, dir string) (f Footprint, err error) {
	n, few := b.scaled(memoryThreads, 20), b.scaled(memoryFew, 10)
	d, err := b.newDriver(ctx, dir, load{})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, d.fixture.close()) }()
	d.threads = n + few
	d.fixture.startEngine(newTimedAgent(d.onAgentStart), b.Slots)
	return d.footprint(ctx, n, few, func() error { return d.drain(ctx) })
}

// footprint creates few runs that are not counted, and then n runs whose use of memory it measures.
func (d *driver) footprint(ctx context.Context, n, few int, settle func() error) (f Footprint, err error) {
	if err := errors.Join(d.fill(ctx, few), settle()); err != nil {
		return f, err
	}
	pages, err := d.fixture.databaseSize(ctx)
	if err != nil {
		return f, err
	}
	before := measureMemory()
	if err := errors.Join(d.fill(ctx, n), settle()); err != nil {
		return f, err
	}
	f = before.footprint(n)
	more, err := d.fixture.databaseSize(ctx)
	f.Disk = float64(more-pages) / float64(n)
	return f, err
}

// queueMemory creates runs that stay queued.
func (b *bench) queueMemory(ctx context.Context, dir string) (f Footprint, err error) {
	n, few := b.scaled(memoryRuns, 20), b.scaled(memoryFew, 10)
	d, err := b.newDriver(ctx, dir, load{backlog: n + few})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, d.fixture.close()) }()
	return d.footprint(ctx, n, few, func() error { return nil })
}

// readerMemory connects readers to an idle thread.
func (b *bench) readerMemory(ctx context.Context, dir string) (f Footprint, err error) {
	n, few := b.scaled(memoryReaders, 10), b.scaled(memoryFew, 10)/10
	h, err := newFixture(ctx, openFile, dir, b.AgentVersion, func(*mailroom.Run) {})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	in := thread.Submit{Thread: fanoutThread, Sender: "bench", Owner: "bench",
		Messages: []thread.NewMessage{{Parts: mailroom.Text("Wait.")}}}
	if _, err := h.ledger.Submit(ctx, in); err != nil {
		return f, err
	}
	s, err := h.serve(n + few)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	first, err := b.startReaders(ctx, s, few, false, 0)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, first.finish()) }()
	before := measureMemory()
	readers, err := b.startReaders(ctx, s, n, false, 0)
	if err != nil {
		return f, err
	}
	f = before.footprint(n)
	return f, readers.finish()
}
