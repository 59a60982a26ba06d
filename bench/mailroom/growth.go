package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/thread"
)

// Growth is the cost of a long log and of long queues.
type Growth struct {
	// Short and Long are threads of one store, measured in turn.
	Short ThreadLoad `json:"short_log"`
	Long  ThreadLoad `json:"long_log"`
	// LogRatio is the median run time on the long log divided by that on the short log.
	// LogCPURatio is the same ratio for the CPU time.
	LogRatio    float64 `json:"log_ratio"`
	LogCPURatio float64 `json:"log_cpu_ratio"`

	// Few and Many are the results on stores with a constant number of queued runs, because as many runs are
	// submitted as end.
	Few  QueueLoad `json:"few_queued"`
	Many QueueLoad `json:"many_queued"`
	// QueueRatio is the rate with few queued runs divided by the rate with many.
	// UrgentRatio is the time to the start of an urgent run with many queued runs divided
	// by the time with few.
	QueueRatio  float64 `json:"queue_ratio"`
	UrgentRatio float64 `json:"urgent_ratio"`

	// OneKey and ManyKeys are the results with concurrency keys: almost all queued runs wait for their key. KeyRatio is the
	// rate with one key divided by the rate with many.
	OneKey   QueueLoad `json:"one_key"`
	ManyKeys QueueLoad `json:"many_keys"`
	KeyRatio float64   `json:"key_ratio"`
}

// ThreadLoad is the result of single runs on threads with logs of one length.
type ThreadLoad struct {
	Entries int64 `json:"entries"` // entries of one thread at the start
	Run     Times `json:"run"`     // times from submit to end
	// Page is the time to read the last 20 messages of the transcript.
	Page      Times   `json:"page"`
	CPUPerRun float64 `json:"cpu_ms_per_run"`
}

// QueueLoad is the result of a load with a backlog.
type QueueLoad struct {
	Queued int `json:"queued"`
	Load
}

// Sizes of the growth part.
const (
	shortLog    = 1_000 // entries
	longLog     = 100_000
	fewQueued   = 1_000 // runs
	manyQueued  = 1_000_000
	keyedQueued = 200_000
	manyKeys    = 1_000
	urgentRate  = 50 // a second
	batchRuns   = 25 // consecutive runs on one thread
	shortCount  = 20 // threads with a short log; several, so that each log stays short
	longestTurn = 40 // maximum number of turns
)

// growth measures the cost of a long log and of long queues.
func (b *bench) growth(ctx context.Context, dir string) error {
	g := &Growth{}
	if err := b.logGrowth(ctx, filepath.Join(dir, "log"), g); err != nil {
		return err
	}
	oneKey := load{backlog: b.scaled(keyedQueued, 40), limitKeys: 1, keyLimit: max(b.Slots/2, 1)}
	keys := load{backlog: oneKey.backlog, limitKeys: b.scaled(manyKeys, 4), keyLimit: 1}
	for _, level := range []struct {
		what   string
		load   load
		result *QueueLoad
	}{
		{"", load{backlog: b.scaled(fewQueued, 20), urgent: urgentRate}, &g.Few},
		{"", load{backlog: b.scaled(manyQueued, 40), urgent: urgentRate}, &g.Many},
		{", 1 key", oneKey, &g.OneKey}, {fmt.Sprintf(", %d keys", keys.limitKeys), keys, &g.ManyKeys},
	} {
		err := b.inTempDir(filepath.Join("growth", strconv.Itoa(level.load.backlog)), func(dir string) error {
			b.Progress("growth: %d queued runs%s", level.load.backlog, level.what)
			l, err := b.measureLoad(ctx, dir, level.load)
			if err != nil {
				return err
			}
			*level.result = QueueLoad{Queued: level.load.backlog, Load: *l}
			return nil
		})
		if err != nil {
			return err
		}
	}
	g.KeyRatio = ratio(g.OneKey.RunsPerSecond, g.ManyKeys.RunsPerSecond)
	g.LogRatio = ratio(g.Long.Run.P50, g.Short.Run.P50)
	g.LogCPURatio = ratio(g.Long.CPUPerRun, g.Short.CPUPerRun)
	g.QueueRatio = ratio(g.Few.RunsPerSecond, g.Many.RunsPerSecond)
	g.UrgentRatio = ratio(g.Many.Urgent.P50, g.Few.Urgent.P50)
	b.result.Growth = g
	return nil
}

// ratio returns a/b, or 0 if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// logGrowth measures runs on short and long logs in turn.
func (b *bench) logGrowth(ctx context.Context, dir string, g *Growth) (err error) {
	if err := mkdir(dir); err != nil {
		return err
	}
	a := &submitter{waiting: map[string]chan struct{}{}}
	a.fixture, err = newFixture(ctx, openFile, dir, b.AgentVersion, a.onRunEnd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.fixture.close()) }()
	a.fixture.startEngine(newTimedAgent(func(mailroom.RunView) {}), b.Slots)
	short, long := b.scaled(shortLog, 10), b.scaled(longLog, 20)
	b.Progress("growth: logs of %d and %d entries", short, long)
	if err := b.growLogs(ctx, a, short, long); err != nil {
		return err
	}
	var shortTurns, longTurns threadMeasurement
	began := time.Now()
	for turn := range longestTurn {
		if turn > 0 && time.Since(began) > b.For {
			break
		}
		if err := shortTurns.measure(ctx, a, shortThread(turn%b.scaled(shortCount, 1)), b.scaled(batchRuns, 4)); err != nil {
			return err
		}
		if err := longTurns.measure(ctx, a, longThread, b.scaled(batchRuns, 4)); err != nil {
			return err
		}
	}
	g.Short, g.Long = shortTurns.result(), longTurns.result()
	return nil
}

const longThread = "long"

func shortThread(i int) string { return "short-" + strconv.Itoa(i) }

// growLogs creates the threads. Most entries are messages, because one submit can have
// many.
func (b *bench) growLogs(ctx context.Context, a *submitter, short, long int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.Producers)
	grow := func(thread string, entries int) {
		const perRun = mailroom.MaxMessages + 4 // plus the entries queued, started, reply and completed
		for left := entries; left > 0; left -= perRun {
			n := min(mailroom.MaxMessages, left)
			group.Go(func() error { return a.submitAndWait(ctx, thread, n) })
		}
	}
	for i := range b.scaled(shortCount, 1) {
		grow(shortThread(i), short)
	}
	grow(longThread, long)
	return group.Wait()
}

// threadMeasurement sums up the measurements on threads with logs of one length.
type threadMeasurement struct {
	entries   int64
	runs      int
	cpu       time.Duration
	run, page histogram
}

// measure executes runs on a thread, one after another.
func (o *threadMeasurement) measure(ctx context.Context, a *submitter, thread string, runs int) error {
	if o.entries == 0 {
		err := a.fixture.store.View(ctx, func(r store.Reader) error {
			found, err := r.Threads(store.ThreadQuery{IDs: []string{thread}})
			for _, t := range found {
				o.entries = t.LastSeq
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	cpu := cpuTime()
	for range runs {
		began := time.Now()
		if err := a.submitAndWait(ctx, thread, 1); err != nil {
			return err
		}
		o.run.add(time.Since(began))
	}
	o.cpu += cpuTime() - cpu
	o.runs += runs
	for range runs {
		began := time.Now()
		if _, _, err := a.fixture.ledger.Transcript(ctx, ledger.TranscriptQuery{Thread: thread, Limit: 20}); err != nil {
			return err
		}
		o.page.add(time.Since(began))
	}
	return nil
}

func (o *threadMeasurement) result() ThreadLoad {
	return ThreadLoad{
		Entries: o.entries, Run: o.run.times(), Page: o.page.times(),
		CPUPerRun: float64(o.cpu.Microseconds()) / 1000 / float64(o.runs),
	}
}

// submitter submits runs and waits for their end.
type submitter struct {
	fixture *fixture

	mu      sync.Mutex
	next    int
	waiting map[string]chan struct{} // owned by mu; by request id
}

// submitAndWait submits a run with the given number of messages and waits until it has ended.
func (a *submitter) submitAndWait(ctx context.Context, threadID string, messages int) error {
	ended := make(chan struct{})
	a.mu.Lock()
	a.next++
	id := strconv.Itoa(a.next)
	a.waiting[id] = ended
	a.mu.Unlock()
	in := thread.Submit{
		Thread: threadID, Sender: "bench", Owner: "bench",
		Origin: mailroom.Origin{Via: "user", Sender: "bench", RequestID: id},
	}
	for i := range messages {
		in.Messages = append(in.Messages,
			thread.NewMessage{Parts: mailroom.Text(fmt.Sprintf("What is the answer to question %s.%d?", id, i))})
	}
	if _, err := a.fixture.ledger.Submit(ctx, in); err != nil {
		return fmt.Errorf("submit to %s: %w", threadID, err)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// onRunEnd records the durable end of a run.
func (a *submitter) onRunEnd(r *mailroom.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ended, ok := a.waiting[r.Origin.RequestID]; ok {
		close(ended)
		delete(a.waiting, r.Origin.RequestID)
	}
}
