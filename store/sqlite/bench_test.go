package sqlite_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/store/storetest"
)

func BenchmarkOpen(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		dir := b.TempDir()
		for i := 0; b.Loop(); i++ {
			if err := open(b, filepath.Join(dir, fmt.Sprint(i))).Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("old", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "mail.db")
		for b.Loop() {
			if err := open(b, path).Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWrite writes a typical batch: 64 threads, each with its row, the row of a run, and two
// entries.
func BenchmarkWrite(b *testing.B) {
	const threads, batch = 10_000, 64
	for _, kind := range []string{"new runs", "same runs"} {
		b.Run(kind, func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "mail.db"))
			defer func() {
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}()
			w := newWork(b, s, threads)
			b.ReportAllocs()
			for b.Loop() {
				w.write(b, s, batch, kind == "new runs")
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// BenchmarkRun measures 64 runs that start at once: one transaction submits and claims them, the
// next one writes a step of each, and the last one settles them.
func BenchmarkRun(b *testing.B) {
	const threads, batch = 10_000, 64
	s := open(b, filepath.Join(b.TempDir(), "mail.db"))
	defer func() {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}()
	w := newWork(b, s, threads)
	for _, row := range w.threads {
		row.Due = mailroom.Due{}
	}
	if err := s.Update(b.Context(), func(tx store.Tx) error {
		return tx.Write(&store.Changes{Threads: w.threads})
	}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		ids := make([]string, batch)
		for i := range ids {
			w.at++
			ids[i] = w.threads[w.at*31%threads].ID
		}
		var runs []*mailroom.Run
		for _, status := range []mailroom.Status{mailroom.StatusRunning, "", mailroom.StatusCompleted} {
			err := s.Update(b.Context(), func(tx store.Tx) error {
				_, rows, err := storetest.Lock(tx, nil, ids)
				if err != nil {
					return err
				}
				c := &store.Changes{Threads: rows}
				for i, row := range rows {
					w.now = w.now.Add(time.Millisecond)
					switch status {
					case mailroom.StatusRunning:
						row.Worker, row.Due = "0199d6ff-0000-7000-8000-000000000001", mailroom.Due{At: w.now}
						runs = append(runs, &mailroom.Run{
							ID: fmt.Sprintf("%012x-7000-8000-%012x", w.now.UnixMicro(), w.at), Thread: row.ID, Agent: "echo",
							AgentVersion: "0123456789ab", Mode: mailroom.ModeQueue, Priority: 128, Place: row.NextPlace,
							Origin: mailroom.Origin{Via: "user", Sender: "bench"}, MaxAttempts: 5, FirstSeq: row.LastSeq + 1,
							CreatedAt: w.now, StartedAt: w.now, ClaimEnds: w.now,
						})
						runs[i].Status = mailroom.StatusRunning
					case mailroom.StatusCompleted:
						row.Worker, row.Due = "", mailroom.Due{}
						runs[i].Status = mailroom.StatusCompleted
					}
					row.LastSeq++
					e, err := entry.New(row.ID, row.LastSeq, entry.KindMessage, runs[i].ID, 0, w.now, w.body)
					if err != nil {
						return err
					}
					c.Entries = append(c.Entries, []mailroom.Entry{e})
				}
				c.Runs = runs
				return tx.Write(c)
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*batch), "µs/run")
}

func BenchmarkLock(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "mail.db"))
			defer func() {
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}()
			w := newWork(b, s, 1000)
			ids := make([]string, n)
			for i := range ids {
				ids[i] = w.threads[i*7].ID
			}
			b.ReportAllocs()
			for b.Loop() {
				err := s.Update(b.Context(), func(tx store.Tx) error {
					_, _, err := storetest.Lock(tx, nil, ids)
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDue asks for the due threads of one agent among very many in backoff, whose number must
// not affect the cost.
func BenchmarkDue(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "mail.db"))
			defer func() {
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}()
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			for from := 0; from < n; from += 10_000 {
				c := &store.Changes{}
				for i := from; i < min(n, from+10_000); i++ {
					due := mailroom.Due{Agent: fmt.Sprint(i % 3), Priority: 100 + i%5, At: now.Add(time.Duration(i+1) * time.Second)}
					if i%(n/10) == 0 {
						due = mailroom.Due{Agent: "1", Priority: 102, At: now}
					}
					c.Threads = append(c.Threads, &mailroom.Thread{ID: fmt.Sprintf("thread-%d", i), Due: due})
				}
				if err := s.Update(b.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
					b.Fatal(err)
				}
			}
			err := s.Update(b.Context(), func(tx store.Tx) error {
				for b.Loop() {
					due, _, err := storetest.Due(tx, now, []store.Capacity{{Agent: "1", Slots: 64}})
					if err != nil {
						return err
					}
					if len(due) != 10 {
						b.Errorf("got %d due threads, want 10", len(due))
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// work makes batches for a store.
type work struct {
	threads []*mailroom.Thread
	runs    []*mailroom.Run // the last one of each thread
	at      int
	body    json.RawMessage
	now     time.Time
}

func newWork(b *testing.B, s store.Store, threads int) *work {
	b.Helper()
	w := &work{
		runs: make([]*mailroom.Run, threads),
		body: json.RawMessage(
			`{"id":"0199d6ff-0000-7000-8000-000000000000","role":"user","sender":"bench","text":"please have a look at the failing build of the main branch and tell me what is wrong with it"}`),
		now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	for i := range threads {
		id := fmt.Sprintf("conversation-%d-%d", i*7919%threads, i)
		w.threads = append(w.threads, &mailroom.Thread{ID: id, Agent: "echo", Owner: "bench", FirstSeq: 1, NextPlace: 1,
			CreatedAt: w.now, UpdatedAt: w.now})
	}
	err := s.Update(b.Context(), func(tx store.Tx) error { return tx.Write(&store.Changes{Threads: w.threads}) })
	if err != nil {
		b.Fatal(err)
	}
	for w.at < threads {
		w.write(b, s, min(1000, threads-w.at), true)
	}
	return w
}

func (w *work) write(b *testing.B, s store.Store, batch int, fresh bool) {
	b.Helper()
	c := &store.Changes{}
	for range batch {
		i := w.at * 31 % len(w.threads)
		w.at++
		w.now = w.now.Add(time.Millisecond)
		row := w.threads[i]
		if fresh || w.runs[i] == nil {
			w.runs[i] = &mailroom.Run{
				ID: fmt.Sprintf("%012x-7000-8000-%012x", w.now.UnixMicro(), w.at), Thread: row.ID, Agent: "echo",
				AgentVersion: "0123456789ab", Mode: mailroom.ModeQueue, Priority: 128, Place: row.NextPlace,
				Origin: mailroom.Origin{Via: "user", Sender: "bench"}, MaxAttempts: 5, FirstSeq: row.LastSeq + 1,
				Status: mailroom.StatusQueued, AvailableAt: w.now, CreatedAt: w.now,
				Inputs: []mailroom.Input{{Message: "0199d6ff-0000-7000-8000-000000000000", Seq: row.LastSeq + 1}},
			}
			row.NextPlace++
		} else {
			r := w.runs[i]
			r.Status, r.StartedAt, r.Attempt, r.Step = mailroom.StatusRunning, w.now, r.Attempt+1, r.Step+1
			r.LastStep = mailroom.StepMark{Attempt: r.Attempt, Step: r.Step, Digest: "0123456789abcdef", Seq: row.LastSeq}
		}
		row.Due = mailroom.Due{At: w.now, Agent: "echo", Priority: 128}
		row.UpdatedAt = w.now
		list := make([]mailroom.Entry, 2)
		for n := range list {
			row.LastSeq++
			var err error
			list[n], err = entry.New(row.ID, row.LastSeq, entry.KindMessage, w.runs[i].ID, 0, w.now, w.body)
			if err != nil {
				b.Fatal(err)
			}
		}
		c.Threads = append(c.Threads, row)
		c.Runs = append(c.Runs, w.runs[i])
		c.Entries = append(c.Entries, list)
	}
	if err := s.Update(b.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPurge repeatedly drops the first 500 entries of one thread. The length of the log must
// not affect the cost.
func BenchmarkPurge(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "mail.db"))
			defer func() {
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}()
			w := newWork(b, s, 1)
			for w.at < n/2 { // two entries per run
				w.grow(b, s, min(1000, n/2-w.at))
			}
			below, slowest := int64(1), time.Duration(0)
			for b.Loop() {
				if below += 500; below > int64(n) {
					b.StopTimer()
					w.grow(b, s, 5000)
					n += 10_000
					b.StartTimer()
				}
				began := time.Now()
				err := s.Update(b.Context(), func(tx store.Tx) error {
					return tx.Write(&store.Changes{DropEntries: []store.Prefix{{Thread: w.threads[0].ID, Seq: below}}})
				})
				if err != nil {
					b.Fatal(err)
				}
				slowest = max(slowest, time.Since(began))
			}
			b.ReportMetric(float64(slowest.Microseconds())/1000, "ms-max")
		})
	}
}

// grow adds runs to the first thread, each with two entries and a key.
func (w *work) grow(b *testing.B, s store.Store, runs int) {
	b.Helper()
	row := w.threads[0]
	err := s.Update(b.Context(), func(tx store.Tx) error {
		for range runs {
			w.at++
			id := fmt.Sprintf("grown-%d", w.at)
			c := &store.Changes{
				Threads: []*mailroom.Thread{row},
				Runs: []*mailroom.Run{{ID: id, Thread: row.ID, SubmitKey: id, FirstSeq: row.LastSeq + 1,
					Status: mailroom.StatusCompleted}},
				Keys: []store.SubmitKey{{
					Thread: row.ID, Key: id, Result: store.Submitted{Run: id, Disposition: store.DispositionQueued},
				}},
				Entries: [][]mailroom.Entry{nil},
			}
			for range 2 {
				row.LastSeq++
				e, err := entry.New(row.ID, row.LastSeq, entry.KindMessage, id, 0, w.now, w.body)
				if err != nil {
					return err
				}
				c.Entries[0] = append(c.Entries[0], e)
			}
			if err := tx.Write(c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
