package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mailroom"
	"mailroom/bus"
	"mailroom/engine"
	"mailroom/entry"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/sqlite"
	"mailroom/thread"
)

// BenchmarkRuns measures complete runs: a message is submitted, claimed, passed to an agent that
// does nothing, and settled. On SQLite every acknowledged commit is synced. The submits use the threads
// in turn.
//
//   - runs/s: from the first submit to the last run's end
//   - submit-p50, submit-p99: time of one submit, in ms
//   - cpu-ms/run: processor time of the whole process
//   - start-p50, start-p99: from the submit's transaction to the agent, in ms
//
// In "saturated", each of 64 submitters submits again as soon as its last submit has returned; the other
// benchmarks have a fixed rate of submits.
func BenchmarkRuns(b *testing.B) {
	for _, s := range []struct {
		name    string
		threads int
		open    func(b *testing.B) store.Store
	}{
		{"memory", 100, func(b *testing.B) store.Store { return memory.New() }},
		{"sqlite", 10_000, func(b *testing.B) store.Store {
			store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "mailroom.db"), sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			return store
		}},
	} {
		for _, load := range []struct {
			name string
			rate int // submits per second; 0: unlimited
		}{{"saturated", 0}, {"100-a-second", 100}, {"1000-a-second", 1000}} {
			b.Run(s.name+"/"+load.name, func(b *testing.B) {
				newBench(b, s.open(b), s.threads).run(load.rate)
			})
		}
	}
}

// bench has the parts of a server and the measurements.
type bench struct {
	b       *testing.B
	store   store.Store
	ledger  *ledger.Ledger
	engine  *engine.Engine
	threads int

	next    atomic.Int64 // started submits
	ended   atomic.Int64 // completed runs
	all     chan struct{}
	submits seen[time.Duration]
	starts  seen[time.Duration]
}

func newBench(b *testing.B, store store.Store, threads int) *bench {
	m := &bench{b: b, store: store, threads: threads, all: make(chan struct{})}
	hints := bus.New()
	m.ledger = ledger.New(store, ledger.Options{Publish: func(thread string, entries []mailroom.Entry) {
		hints.Publish(bus.Notice{Thread: thread, Entries: entries})
		for _, e := range entries {
			if e.Kind == entry.KindCompleted && m.ended.Add(1) == int64(b.N) {
				close(m.all)
			}
		}
	}})
	o := serving(func(ctx context.Context, s mailroom.Session) error {
		m.starts.add(time.Since(s.Run().CreatedAt))
		return nil
	})
	o.Runs, o.Local = 128, true
	m.engine = engine.New(m.ledger.Workers(), hints, o)
	return m
}

func (m *bench) run(rate int) {
	ctx, stop := context.WithCancel(context.Background())
	var parts, submitters sync.WaitGroup
	ledgerCtx, stopLedger := context.WithCancel(context.Background())
	parts.Go(func() { m.must(m.ledger.Run(ledgerCtx)) })
	parts.Go(func() { defer stopLedger(); m.must(m.engine.Run(ctx)) })

	m.b.ResetTimer()
	used := m.cpu()
	for range 64 {
		submitters.Go(func() { m.submit(rate, time.Now()) })
	}
	submitters.Wait()
	<-m.all
	m.b.StopTimer()
	m.b.ReportMetric(float64((m.cpu()-used).Microseconds())/1000/float64(m.b.N), "cpu-ms/run")
	m.b.ReportMetric(float64(m.b.N)/m.b.Elapsed().Seconds(), "runs/s")
	m.report("submit", m.submits.all())
	m.report("start", m.starts.all())

	stop()
	parts.Wait()
	m.must(m.store.Close())
}

// cpu returns the processor time that the process has used.
func (m *bench) cpu() time.Duration {
	var u syscall.Rusage
	m.must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// submit is the loop of one submitter.
func (m *bench) submit(rate int, begin time.Time) {
	for {
		n := m.next.Add(1)
		if n > int64(m.b.N) {
			return
		}
		if rate > 0 {
			<-time.After(time.Until(begin.Add(time.Duration(n) * time.Second / time.Duration(rate))))
		}
		asked := time.Now()
		_, err := m.ledger.Submit(context.Background(), thread.Submit{
			Thread: fmt.Sprint("thread-", n%int64(m.threads)), Agent: "a",
			Messages: []thread.NewMessage{{Parts: mailroom.Text("what is the answer to this question?")}},
			Origin:   mailroom.Origin{Via: "user", Sender: "bench"}, Sender: "bench",
		})
		m.must(err)
		m.submits.add(time.Since(asked))
	}
}

func (m *bench) must(err error) {
	if err != nil {
		m.b.Error(err)
	}
}

// report adds the median and the 99th percentile, in milliseconds.
func (m *bench) report(name string, took []time.Duration) {
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		at := took[(len(took)-1)*p/100]
		m.b.ReportMetric(float64(at.Microseconds())/1000, fmt.Sprintf("%s-p%d-ms", name, p))
	}
}
