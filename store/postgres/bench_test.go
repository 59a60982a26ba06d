package postgres

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/storetest"
)

// benchThreads writes idle threads and returns their ids.
func benchThreads(tb testing.TB, s *Store, n int) (ids []string) {
	tb.Helper()
	var c store.Changes
	for i := range n {
		id := fmt.Sprintf("telegram:%012d", i)
		ids = append(ids, id)
		c.Threads = append(c.Threads, &mailroom.Thread{ID: id, Agent: "echo", FirstSeq: 1,
			CreatedAt: time.UnixMicro(1).UTC()})
	}
	if err := s.Update(tb.Context(), func(tx store.Tx) error { return tx.Write(&c) }); err != nil {
		tb.Fatal(err)
	}
	return ids
}

// benchStep is one transaction of 64 runs: the first one submits and claims them, the next one writes
// a step, and the last one settles them.
func benchStep(
	tx store.Tx, ids []string, runs []*mailroom.Run, status mailroom.Status, at time.Time,
) ([]*mailroom.Run, error) {
	_, rows, err := storetest.Lock(tx, nil, ids)
	if err != nil {
		return nil, err
	}
	c := &store.Changes{Threads: rows}
	for i, row := range rows {
		switch status {
		case mailroom.StatusRunning:
			row.Worker, row.Due = "0199d6ff-0000-7000-8000-000000000001", mailroom.Due{At: at}
			run := &mailroom.Run{
				ID: fmt.Sprintf("%012x-7000-%s", at.UnixMicro(), row.ID), Thread: row.ID, Agent: "echo",
				AgentVersion: "0123456789ab",
				Mode:         mailroom.ModeQueue, Priority: 128, Origin: mailroom.Origin{Via: "user", Sender: "bench"},
				MaxAttempts: 5,
				FirstSeq:    row.LastSeq + 1, CreatedAt: at, StartedAt: at, ClaimEnds: at, Status: status,
			}
			row.Current = run.ID
			runs = append(runs, run)
		case mailroom.StatusCompleted:
			row.Worker, row.Due, row.Current = "", mailroom.Due{}, ""
			runs[i].Status = status
		}
		row.LastSeq++
		row.Revision++
		e, err := entry.New(row.ID, row.LastSeq, entry.KindMessage, runs[i].ID, 0, at, json.RawMessage(`{"text":"hello"}`))
		if err != nil {
			return nil, err
		}
		c.Entries = append(c.Entries, []mailroom.Entry{e})
	}
	c.Runs = runs
	return runs, tx.Write(c)
}

// BenchmarkRun measures 64 runs that start at once, in three transactions.
func BenchmarkRun(b *testing.B) {
	const threads, batch = 10_000, 64
	s, err := Open(b.Context(), Options{URL: pgtest.Durable(b).URL()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	all := benchThreads(b, s, threads)
	at, n := time.UnixMicro(1_000_000).UTC(), 0
	b.ReportAllocs()
	for b.Loop() {
		ids := make([]string, batch)
		for i := range ids {
			n++
			ids[i] = all[n*31%threads]
		}
		var runs []*mailroom.Run
		for _, status := range []mailroom.Status{mailroom.StatusRunning, "", mailroom.StatusCompleted} {
			at = at.Add(time.Millisecond)
			err := s.Update(b.Context(), func(tx store.Tx) (err error) {
				runs, err = benchStep(tx, ids, runs, status, at)
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*batch), "µs/run")
}
