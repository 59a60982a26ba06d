package ledger

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/thread"
)

// A duty is a job that one server at a time does, such as running a channel. It is a name in the row of a worker
// of the server and ends with the worker's lease, so a server that dies, hangs or is cut off loses
// its claims and its duties at the same moment. A server that lost its lease registers a new worker,
// which holds no duty, so the worker's id is the fencing token of its duties.
//
// A table of duties with ends and epochs of their own would need a second renewal, and a rule for a worker that is
// alive and a duty that is not. A lock of the database would end with a connection, which is neither the end of the job
// nor that of the server.

// Duties are the operations on duties, and those that only the holder of a duty makes.
type Duties struct{ ledger *Ledger }

// Duties returns the operations on duties.
func (l *Ledger) Duties() Duties { return Duties{l} }

// Holder returns the live worker that holds a duty, or nil.
func Holder(workers []*store.Worker, duty string) *store.Worker {
	for _, w := range workers {
		if !w.Dead && slices.Contains(w.Duties, duty) {
			return w
		}
	}
	return nil
}

// Take gives a duty to a worker if no live worker holds it. It returns the worker that then holds the duty. A holder
// whose lease has ended keeps the duty until a sweep marks it dead.
func (ds Duties) Take(ctx context.Context, worker, duty string) (holder *store.Worker, err error) {
	o := op{name: "duty", rank: rankRenew, topics: []string{"duty/" + duty}, workers: []string{worker}}
	return run(ctx, ds.ledger, o, func(tx *transaction) (*store.Worker, error) {
		mine, err := tx.rows.worker(worker)
		if err != nil {
			return nil, err
		}
		all, err := tx.allWorkers()
		if err != nil {
			return nil, err
		}
		if holder := Holder(all, duty); holder != nil {
			return copyWorker(holder), nil
		}
		mine.Duties = append(mine.Duties, duty)
		slices.Sort(mine.Duties)
		tx.saveWorker(mine)
		return copyWorker(mine), nil
	})
}

// copyWorker returns a copy that later operations of the batch cannot change.
func copyWorker(w *store.Worker) *store.Worker {
	c := *w
	c.Agents, c.Duties = slices.Clone(w.Agents), slices.Clone(w.Duties)
	return &c
}

// SubmitAll submits to several threads and moves a cursor, in one transaction: all of it or nothing. A thread that
// it creates belongs to the operator unless Owner is set. Each submit names its thread, its run and a key. The
// limits of a caller do not apply. A submit with a known key is left out, whatever its content, because the key
// names the event.
func (ds Duties) SubmitAll(ctx context.Context, all []thread.Submit, c store.Cursor) error {
	if err := thread.CheckCursor(&c); err != nil {
		return err
	}
	o := op{name: "submit", rank: rankPlain, size: len(c.Position)}
	for i := range all {
		in := &all[i]
		in.Owner = cmp.Or(in.Owner, auth.Operator)
		if err := in.Check(); err != nil {
			return err
		}
		o.size += in.Size()
		o.threads = append(o.threads, in.Thread)
		o.keys = append(o.keys, store.KeyRef{Thread: in.Thread, Key: in.Key})
	}
	slices.Sort(o.threads)
	o.threads = slices.Compact(o.threads)
	return perform(ctx, ds.ledger, o, func(tx *transaction) error {
		for i := range all {
			t := tx.rows.thread(all[i].Thread)
			err := tx.rows.loadKey(t, all[i].Key)
			if err == nil && !t.Keys.Has(all[i].Key) {
				_, err = tx.submit(all[i], false)
			}
			if err != nil {
				return tx.abortAfter(i, err)
			}
		}
		tx.moveCursor(c)
		return nil
	})
}

// Release ends a worker's duty. The caller has stopped the job.
func (ds Duties) Release(ctx context.Context, worker, duty string) error {
	o := op{name: "duty", rank: rankRenew, workers: []string{worker}}
	return perform(ctx, ds.ledger, o, func(tx *transaction) error {
		w := tx.rows.workers[worker]
		if at := slices.Index(duties(w), duty); at >= 0 {
			w.Duties = slices.Delete(w.Duties, at, at+1)
			tx.saveWorker(w)
		}
		return nil
	})
}

func duties(w *store.Worker) []string {
	if w == nil {
		return nil
	}
	return w.Duties
}

// allWorkers returns the stored workers with the changes of this batch.
func (tx *transaction) allWorkers() ([]*store.Worker, error) {
	stored, err := tx.rows.stored.Workers()
	return append(slices.DeleteFunc(stored, func(w *store.Worker) bool { return tx.rows.workers[w.ID] != nil }),
		slices.Collect(maps.Values(tx.rows.workers))...), err
}

// fence restricts the operations of a [Ledger] to the time in which a worker holds a duty. The transaction of each
// operation reads and locks the worker's row. A look before the operation is not enough: the process may be stopped in
// between, and continue after another server has taken the duty. The job is also stopped before the lease ends, but
// that only saves work; the fence is what keeps two servers from writing.
type fence struct {
	duty   string
	worker func() string
}

// OnDuty returns a Ledger whose operations change rows only while a worker holds the duty; otherwise
// they fail with CodeLeaseLost. worker returns the id of this server's worker while its job runs, ""
// otherwise. The check is part of the transaction: when another server has taken the duty, a paused
// job that wakes up writes nothing. Reads are not restricted.
func (l *Ledger) OnDuty(duty string, worker func() string) *Ledger {
	fenced := *l
	fenced.fence = &fence{duty, worker}
	return &fenced
}

// restrict adds the fence to an operation. nil restricts nothing.
func (f *fence) restrict(o *op) error {
	if f == nil {
		return nil
	}
	worker := f.worker()
	if worker == "" {
		return f.lost()
	}
	o.workers = append(slices.Clip(o.workers), worker)
	apply := o.apply
	o.apply = func(tx *transaction) error {
		if w := tx.rows.workers[worker]; w == nil || w.Dead || !slices.Contains(w.Duties, f.duty) {
			return f.lost()
		}
		return apply(tx)
	}
	return nil
}

func (f *fence) lost() error {
	return mailroom.Errorf(mailroom.CodeLeaseLost, "this server does not hold the duty %s", f.duty)
}
