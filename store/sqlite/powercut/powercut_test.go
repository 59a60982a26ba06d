package powercut

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
	"mailroom/thread"
)

// go test . -cuts 1000 runs a long round; -seed N repeats one.
var (
	cuts = flag.Int("cuts", 12, "number of power cuts in TestNothingAcknowledgedIsLostInAPowerCut")
	seed = flag.Uint64("seed", 0, "seed of the random tests; 0 uses the clock")
)

func seeded(t *testing.T) uint64 {
	t.Helper()
	n := *seed
	if n == 0 {
		n = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", n)
	return n
}

// machine returns a fixture on a new disk.
func machine(t *testing.T, seed uint64, synchronous string) *fixture {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", "-") + fmt.Sprint("-", seed, synchronous)
	d := newDisk(t.TempDir(), seed)
	vfs.Register(name, d)
	t.Cleanup(func() { vfs.Unregister(name) })
	return newFixture(d, on(name, synchronous))
}

// cut works until a power cut, and returns the differences after the next boot.
func (o *fixture) cut(t *testing.T, chance *rand.Rand) []string {
	t.Helper()
	ctx := t.Context()
	if chance.IntN(8) == 0 {
		o.disk.cutAfter(1+chance.IntN(200), "") // also while it is opened and created
	}
	err := o.open(ctx)
	if err == nil {
		switch chance.IntN(4) {
		case 0:
			o.disk.cutAfter(1+chance.IntN(100), "sync")
		case 1:
			o.disk.cutAfter(1+chance.IntN(300), "/mail.db$") // in a checkpoint
		default:
			o.disk.cutAfter(1+chance.IntN(2000), "")
		}
		o.work(ctx, 5+chance.IntN(60))
		o.disk.cutAfter(1+chance.IntN(500), "") // if the power is still on: during the close, which checkpoints
	}
	if _, err := o.close(); err != nil && !o.disk.off() {
		t.Fatalf("close: %v", err)
	}
	o.disk.powerOff()
	if err := o.open(ctx); err != nil {
		return []string{fmt.Sprintf("open after the power cut: %v", err)}
	}
	found, err := o.audit(ctx)
	if err == nil {
		err = o.integrity(ctx)
	}
	if err != nil {
		found = append(found, err.Error())
	}
	off := chance.IntN(2) == 0
	if off {
		o.disk.powerOff() // the WAL stays, and grows
	}
	if _, err := o.close(); err != nil && !off {
		t.Fatalf("close: %v", err)
	}
	return found
}

func TestNothingAcknowledgedIsLostInAPowerCut(t *testing.T) {
	n := seeded(t)
	chance := rand.New(rand.NewPCG(n, 2))
	ends := map[string]int{} // the operations that the cuts interrupted
	var o *fixture
	for i := range *cuts {
		if i%25 == 0 {
			o = machine(t, n+uint64(i), "")
			o.disk.ends = ends
		}
		for _, wrong := range o.cut(t, chance) {
			t.Error(wrong)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d cuts, in %v; the last disk has %d submits and %d completed runs", *cuts, ends, len(o.acknowledged),
		len(o.replies))
}

// The same test must fail if SQLite does not sync each commit; otherwise it would prove nothing.
func TestAStoreThatDoesNotSyncEachCommitIsCaught(t *testing.T) {
	for _, synchronous := range []string{"off", "normal"} {
		t.Run(synchronous, func(t *testing.T) {
			n := seeded(t)
			chance := rand.New(rand.NewPCG(n, 2))
			for i := range uint64(50) {
				if found := machine(t, n+i, synchronous).cut(t, chance); len(found) > 0 {
					t.Logf("after %d cuts: %.200s", i+1, found[0])
					return
				}
			}
			t.Error("50 cuts of a store that does not sync lost nothing")
		})
	}
}

// A commit that a power cut may still undo is not in any snapshot. The store must sync the log within
// each Update, and a View at that moment, which does not wait for the Update, sees what was there before.
func TestAViewSeesACommitOnlyOnceItIsSynced(t *testing.T) {
	o := machine(t, seeded(t), "")
	if err := o.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	messages := func() (n int) {
		err := o.store.View(t.Context(), func(r store.Reader) error {
			texts, err := countMessages(r)
			n = texts["hello"]
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	submit := func() {
		_, err := o.ledger.Submit(t.Context(), thread.Submit{Thread: "t", Sender: "ann",
			Messages: []thread.NewMessage{{Parts: mailroom.Text("hello")}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	submit() // the first sync of a log has a header to sync as well
	for known := 1; known < 6; known++ {
		var during []int
		o.disk.mu.Lock()
		o.disk.beforeSync = func() { during = append(during, messages()) }
		o.disk.mu.Unlock()
		submit()
		o.disk.mu.Lock()
		o.disk.beforeSync = nil
		o.disk.mu.Unlock()
		if len(during) != 1 || during[0] != known {
			t.Errorf("syncs of the log in submit %d saw %v messages; want one sync, and %d messages", known+1, during, known)
		}
		if n := messages(); n != known+1 {
			t.Errorf("a View after submit %d sees %d messages", known+1, n)
		}
	}
	if ended, closed := o.close(); ended != nil || closed != nil {
		t.Fatalf("close: %v, %v", ended, closed)
	}
}

// An I/O error ends all writing until the store is reopened. Everything acknowledged is there then,
// with or without a power cut in between.
func TestAnErrorOfTheDiskEndsTheStoreAndLosesNothing(t *testing.T) {
	n := seeded(t)
	chance := rand.New(rand.NewPCG(n, 3))
	for _, op := range []string{"write", "sync"} {
		for _, off := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, power goes: %t", op, off), func(t *testing.T) {
				o := machine(t, n, "")
				for range 1 + *cuts/6 {
					if err := o.open(t.Context()); err != nil {
						t.Fatal(err)
					}
					nth := 1 + chance.IntN(60)
					o.disk.failWhen(func(done string) bool {
						if strings.HasPrefix(done, op) {
							nth--
						}
						return strings.HasPrefix(done, op) && nth == 0
					})
					o.work(t.Context(), 100)
					o.mustBeBroken(t)
					if off {
						o.disk.powerOff()
					} else {
						o.disk.failWhen(nil)
					}
					if err := o.open(t.Context()); err != nil {
						t.Fatal(err)
					}
					found, err := o.audit(t.Context())
					if err = errors.Join(err, o.integrity(t.Context())); err != nil {
						t.Fatal(err)
					}
					for _, wrong := range found {
						t.Error(wrong)
					}
					if ended, closed := o.close(); ended != nil || closed != nil {
						t.Fatalf("close: %v, %v", ended, closed)
					}
				}
			})
		}
	}
}

// mustBeBroken checks that the store accepts no writes and returns the reason, and that the ledger
// over it has ended with the same error.
func (o *fixture) mustBeBroken(t *testing.T) {
	t.Helper()
	err := o.store.Update(t.Context(), func(store.Tx) error { return nil })
	if mailroom.CodeOf(err) != mailroom.CodeUnavailable || !errors.Is(err, store.ErrClosed) {
		t.Errorf("an Update after the error of the disk: got %v, want one of code unavailable that wraps %v", err,
			store.ErrClosed)
	}
	_, err = o.ledger.Submit(t.Context(), thread.Submit{Thread: "late", Sender: "ann",
		Messages: []thread.NewMessage{{Parts: mailroom.Text("late")}}})
	if mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("a submit after the error of the disk: got %v, want one of code unavailable", err)
	}
	ended, _ := o.close() // the error of closing a broken store does not matter
	if !errors.Is(ended, store.ErrClosed) {
		t.Errorf("the ledger ended with %v, want %v", ended, store.ErrClosed)
	}
}

// rowsOfBatch is the number of threads, runs and entries of a batch: more than statements of several rows take.
const rowsOfBatch = 40

// manyRows returns a batch of new threads, each with a run and an entry.
func manyRows(t *testing.T, batch int) *store.Changes {
	t.Helper()
	c := &store.Changes{}
	for i := range rowsOfBatch {
		id := fmt.Sprintf("batch-%d-%d", batch, i)
		body := entry.StepNamed{Name: strings.Repeat("n", 400)}
		e, err := entry.New(id, 1, entry.KindStep, "r-"+id, 1, time.Unix(1, 0), body)
		if err != nil {
			t.Fatal(err)
		}
		c.Threads = append(c.Threads, &mailroom.Thread{ID: id, FirstSeq: 1, LastSeq: 1})
		c.Runs = append(c.Runs, &mailroom.Run{ID: "r-" + id, Thread: id, Status: mailroom.StatusCompleted, FirstSeq: 1})
		c.Entries = append(c.Entries, []mailroom.Entry{e})
	}
	return c
}

// countBatch returns how many threads, runs and entries of a batch are in the store.
func countBatch(r store.Reader, batch int) (n [3]int, err error) {
	threads, err := r.Threads(store.ThreadQuery{Prefix: fmt.Sprintf("batch-%d-", batch)})
	if err != nil {
		return n, err
	}
	runs, err := r.Runs(store.RunQuery{Prefix: fmt.Sprintf("r-batch-%d-", batch)})
	if err != nil {
		return n, err
	}
	n = [3]int{len(threads), len(runs), 0}
	for _, row := range threads {
		list, err := r.Entries(store.EntryQuery{Thread: row.ID})
		if err != nil {
			return n, err
		}
		n[2] += len(list)
	}
	return n, nil
}

// The new rows of a batch share statements. A cut at any write leaves all rows of the batch, or none, and all if it
// was acknowledged.
func TestABatchOfManyRowsIsWholeAfterAPowerCut(t *testing.T) {
	n := seeded(t)
	chance := rand.New(rand.NewPCG(n, 4))
	o := machine(t, n, "")
	batch, kept, lost := 0, 0, 0
	for range *cuts {
		if err := o.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		first, acknowledged := batch, map[int]bool{}
		o.disk.cutAfter(1+chance.IntN(60), "")
		for err := error(nil); err == nil; batch++ {
			err = o.store.Update(t.Context(), func(tx store.Tx) error { return tx.Write(manyRows(t, batch)) })
			acknowledged[batch] = err == nil
		}
		_, _ = o.close() // without power
		o.disk.powerOff()
		if err := o.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		for b := first; b < batch; b++ {
			err := o.store.View(t.Context(), func(r store.Reader) error {
				got, err := countBatch(r, b)
				switch whole := [3]int{rowsOfBatch, rowsOfBatch, rowsOfBatch}; {
				case err != nil:
					return err
				case got == whole:
					kept++
				case got != [3]int{} || acknowledged[b]:
					t.Errorf("batch %d, acknowledged: %t, has %v threads, runs and entries, want %v",
						b, acknowledged[b], got, whole)
				default:
					lost++
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if ended, closed := o.close(); ended != nil || closed != nil {
			t.Fatalf("close: %v, %v", ended, closed)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d cuts: %d batches are whole, and %d are not there", *cuts, kept, lost)
	if kept == 0 || lost == 0 {
		t.Errorf("%d batches are whole, and %d are not there: the cuts are too early or too late", kept, lost)
	}
}
