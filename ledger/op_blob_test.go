package ledger_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/ledger"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
	"mailroom/thread"
)

// content is content of some pieces, the last one short, different for each seed.
func content(seed byte, pieces int) []byte {
	return bytes.Repeat([]byte{seed, 0, 0xff, seed}, pieces*store.BlobPieceBytes/4-1)
}

// upload stores content under a claim.
func (d *fixture) upload(c mailroom.Claim, b []byte) mailroom.Blob {
	d.t.Helper()
	return must(d.Workers.Upload(d.ctx, c, bytes.NewReader(b)))(d.t)
}

// put writes blobs with one step: names and contents in turn, nil deletes.
func (d *fixture) put(c mailroom.Claim, blobs ...any) thread.StepCommit {
	d.t.Helper()
	a := thread.StepCommit{Claim: c, Number: d.run(c.Run).Step + 1}
	for i := 0; i < len(blobs); i += 2 {
		change := thread.BlobChange{Name: blobs[i].(string)}
		if b, ok := blobs[i+1].([]byte); ok {
			change.Upload = d.upload(c, b).Name
		}
		a.Blobs = append(a.Blobs, change)
	}
	must(d.Append(d.ctx, a))(d.t)
	return a
}

// wantBlob checks the content of a blob; nil: there is none.
func (d *fixture) wantBlob(run *mailroom.Run, name string, want []byte) {
	d.t.Helper()
	got := must(d.ReadBlob(d.ctx, run, name))(d.t)
	if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
		d.t.Errorf("blob %q: got %d bytes, nil %t, want %d, nil %t", name, len(got), got == nil, len(want), want == nil)
	}
}

func (d *fixture) blobNames(run *mailroom.Run, prefix, after string) string {
	d.t.Helper()
	var names []string
	for _, b := range must(d.ListBlobs(d.ctx, run, prefix, after))(d.t) {
		names = append(names, b.Name)
	}
	return strings.Join(names, " ")
}

// counted returns what the blobs of thread t count, and what its owner uses beyond its log.
func (d *fixture) counted() map[string]int64 { d.t.Helper(); return d.thread("t").BlobBytes }

func TestABlobIsSeenByLaterRunsOfItsAgentInItsThread(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "one"))
	first := d.claimOne("w")
	large := content(1, 3)
	d.put(first.Claim, "a/1", large, "a/2", []byte("small"), "b", []byte{})
	d.wantBlob(first.Run, "a/1", large)
	d.wantBlob(first.Run, "b", []byte{})
	d.wantBlob(first.Run, "none", nil)
	wantEqual(t, "all", d.blobNames(first.Run, "", ""), "a/1 a/2 b")
	wantEqual(t, "of a prefix", d.blobNames(first.Run, "a/", "a/1"), "a/2")
	sum := sha256.Sum256(large)
	shown := must(d.ListBlobs(d.ctx, first.Run, "a/1", ""))(t)[0]
	shown.WrittenAt = time.Time{}
	wantEqual(t, "shown", shown, mailroom.Blob{Name: "a/1", Size: int64(len(large)), Digest: hex.EncodeToString(sum[:])})

	d.put(first.Claim, "a/1", []byte("replaced"), "b", nil, "none", nil)
	d.settle(complete(first.Claim, "done"))
	d.submit(text("t", "two"))
	next := d.claimOne("w")
	d.wantBlob(next.Run, "a/1", []byte("replaced"))
	wantEqual(t, "of the next run", d.blobNames(next.Run, "", ""), "a/1 a/2")
	wantEqual(t, "counted", d.counted(), map[string]int64{"echo": store.BlobCounts(8) + store.BlobCounts(5)})
	other := *next.Run
	other.Agent = "other"
	wantEqual(t, "of another agent", d.blobNames(&other, "", ""), "")
	d.wantBlob(&other, "a/1", nil)
	other = *next.Run
	other.Thread = "u"
	wantEqual(t, "of another thread", d.blobNames(&other, "", ""), "")
}

func TestAStepThatIsRepeatedWritesItsBlobsOnce(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "one"))
	c := d.claimOne("w").Claim
	a := d.put(c, "x", []byte("one"))
	b := d.put(c, "x", []byte("two"))
	must(d.Append(d.ctx, b))(t) // its answer was lost
	d.wantBlob(d.run(c.Run), "x", []byte("two"))
	_, err := d.Append(d.ctx, a) // it comes late
	wantCode(t, err, mailroom.CodeConflict)
	b.Blobs[0].Name = "y"
	_, err = d.Append(d.ctx, b)
	wantCode(t, err, mailroom.CodeConflict)
	wantEqual(t, "all", d.blobNames(d.run(c.Run), "", ""), "x")
	before := d.thread("t")
	d.put(c, "x", []byte("two")) // another upload of the same content
	if after := d.thread("t"); after.Bytes != before.Bytes || len(after.Uploads) != 0 {
		t.Errorf("the same content again: %d bytes, then %d and %d uploads", before.Bytes, after.Bytes, len(after.Uploads))
	}
}

func TestALostClaimWritesNoBlob(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "one"))
	lost := d.claimOne("w").Claim
	d.put(lost, "x", []byte("one"))
	staged := d.upload(lost, content(2, 2))
	d.settle(release(lost))
	if row := d.thread("t"); len(row.Uploads) > 0 || row.BlobBytes[""] != 0 {
		t.Errorf("after the attempt: uploads %v, counted %v", row.Uploads, row.BlobBytes)
	}
	next := d.claimOne("w").Claim
	_, err := d.Workers.Upload(d.ctx, lost, strings.NewReader("late"))
	wantCode(t, err, mailroom.CodeLeaseLost)
	number := d.run(next.Run).Step + 1
	for _, change := range []thread.BlobChange{{Name: "x"}, {Name: "x", Upload: staged.Name}} {
		_, err = d.Append(d.ctx, thread.StepCommit{Claim: lost, Number: 2, Blobs: []thread.BlobChange{change}})
		wantCode(t, err, mailroom.CodeLeaseLost)
		if change.Upload != "" { // nor may the next attempt write what another one has uploaded
			_, err = d.Append(d.ctx, thread.StepCommit{Claim: next, Number: number, Blobs: []thread.BlobChange{change}})
			wantCode(t, err, mailroom.CodeConflict)
		}
	}
	p := &thread.Piece{Claim: next, Upload: thread.UploadID(lost, "1"), Digest: "d"}
	wantCode(t, d.AddPiece(d.ctx, p), mailroom.CodeInvalid)
	d.wantBlob(d.run(next.Run), "x", []byte("one"))
}

// The process is killed between two pieces of a blob: the lease of its worker ends, and another one claims the run.
func TestAnUploadThatEndsHalfwayIsNotSeenAndDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		d := start(t, s, ledger.Options{Lease: time.Minute})
		d.register("w")
		d.submit(text("t", "one"))
		c := d.claimOne("w").Claim
		d.put(c, "x", []byte("old"))
		a := &thread.Piece{Claim: c, Upload: thread.UploadID(c, "1"), Body: content(1, 2)[:store.BlobPieceBytes]}
		if err := d.AddPiece(d.ctx, a); err != nil {
			t.Fatal(err)
		}
		if err := d.close(); err != nil { // nothing else is written
			t.Fatal(err)
		}
		d = open(t, s, ledger.Options{Lease: time.Minute})
		d.wantBlob(d.run(c.Run), "x", []byte("old"))
		<-time.After(2 * time.Minute)
		d.register("w2")
		d.sweep()
		d.round = 1
		next := d.claimOne("w2")
		d.wantBlob(next.Run, "x", []byte("old"))
		wantEqual(t, "counted", d.counted(), map[string]int64{"echo": store.BlobCounts(3)})
	})
}

func TestAnUploadThatFailsIsDropped(t *testing.T) {
	d := open(t, nil, ledger.Options{})
	d.register("w")
	d.submit(text("t", "one"))
	c := d.claimOne("w").Claim
	broken := errors.New("the connection broke")
	for _, tc := range []struct {
		name string
		from io.Reader
		want func(error) bool
	}{
		{"a broken connection", io.MultiReader(bytes.NewReader(content(1, 2)), iotest.ErrReader(broken)),
			func(err error) bool { return errors.Is(err, broken) }},
		{"a body that ends early", io.MultiReader(bytes.NewReader(content(1, 2)), iotest.ErrReader(io.ErrUnexpectedEOF)),
			func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"a content that is too large", io.LimitReader(zeros{}, mailroom.MaxBlob+1),
			func(err error) bool { return mailroom.CodeOf(err) == mailroom.CodeTooLarge }},
	} {
		if _, err := d.Workers.Upload(d.ctx, c, tc.from); !tc.want(err) {
			t.Errorf("%s: got %v", tc.name, err)
		}
		if row := d.thread("t"); len(row.Uploads) > 0 || row.BlobBytes != nil {
			t.Errorf("%s leaves uploads %v, counted %v", tc.name, row.Uploads, row.BlobBytes)
		}
	}
}

// zeros is an endless content.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBlobsAreBoundedPerAgentAndThreadAndByTheQuotaOfTheOwner(t *testing.T) {
	d := limited(t, auth.Quotas{"bytes": 50_000_000})
	d.register("w")
	d.submit(text("t", "one"))
	c := d.claimOne("w").Claim
	const large = mailroom.MaxBlob - 1000
	for _, name := range []string{"1", "2"} {
		d.put(c, name, bytes.Repeat([]byte(name), large))
	}
	wantEqual(t, "used", d.used().Bytes, d.size("t")+2*store.BlobCounts(large))
	_, err := d.Workers.Upload(d.ctx, c, io.LimitReader(zeros{}, mailroom.MaxBlob))
	wantCode(t, err, mailroom.CodeQuotaExceeded)
	must(d.Accounts().SetQuotas(d.ctx, "ann", auth.Quotas{"bytes": 0}))(t)
	d.put(c, "3", bytes.Repeat([]byte("3"), large))
	last := d.upload(c, bytes.Repeat([]byte("4"), large)) // an upload counts before a step has written it
	_, err = d.Workers.Upload(d.ctx, c, strings.NewReader(strings.Repeat("5", 4000)))
	wantCode(t, err, mailroom.CodeTooLarge)
	if err := d.DropUpload(d.ctx, c, last.Name); err != nil {
		t.Fatal(err)
	}
	d.put(c, "1", nil, "2", nil, "3", nil)
	wantEqual(t, "counted after all were deleted", d.counted(), nil)
	wantEqual(t, "used after all were deleted", d.used().Bytes, d.size("t"))
	for range 16 {
		d.upload(c, []byte("x"))
	}
	_, err = d.Workers.Upload(d.ctx, c, strings.NewReader("x"))
	wantCode(t, err, mailroom.CodeConflict)
}

func TestARetentionKeepsBlobsAndADeletionDropsThem(t *testing.T) {
	for _, large := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := limited(t, nil)
			d.register("w")
			d.submit(text("t", "one"))
			c := d.claimOne("w").Claim
			sizes := []int{5, 6}
			if large { // more than one transaction drops
				sizes = []int{5 << 20, 5 << 20, 5 << 20}
			}
			for i, size := range sizes {
				d.put(c, string(rune('a'+i)), bytes.Repeat([]byte{byte(i)}, size))
			}
			d.settle(complete(c, "done"))
			<-time.After(time.Hour)
			if err := d.Purge(d.ctx, "t", time.Minute); err != nil {
				t.Fatal(err)
			}
			if row := d.thread("t"); row.FirstSeq != row.LastSeq+1 || row.Bytes != row.BlobBytes["echo"] || row.Bytes == 0 {
				t.Errorf("after the purge: entries from %d to %d, %d bytes, blobs %v", row.FirstSeq, row.LastSeq, row.Bytes,
					row.BlobBytes)
			}
			d.wantBlob(&mailroom.Run{Thread: "t", Agent: "echo"}, "a", bytes.Repeat([]byte{0}, sizes[0]))
			if err := d.DeleteThread(d.ctx, "t", ann()); err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "used after the deletion", d.used(), auth.Use{})
			d.submit(text("t", "again"))
			d.view(func(r store.Reader) error {
				if found := must(readBlobs(r, "t"))(t); len(found.Found)+len(found.Uploads) > 0 {
					t.Errorf("the next thread of the id has %d blobs and %d uploads", len(found.Found), len(found.Uploads))
				}
				return nil
			})
		})
	}
}

// countingDropped records how many bytes of pieces an Update drops at most.
type countingDropped struct {
	store.Store
	most *int64
}

type countingDroppedTx struct {
	store.Tx
	most *int64
}

func (s countingDropped) Update(ctx context.Context, f func(store.Tx) error) error {
	return s.Store.Update(ctx, func(tx store.Tx) error { return f(countingDroppedTx{tx, s.most}) })
}

func (tx countingDroppedTx) Write(c *store.Changes) error {
	sum := func() (n int64, err error) {
		for _, id := range []string{"t", "u", "v"} {
			found, err := readBlobs(tx.Tx, id)
			if err != nil {
				return 0, err
			}
			for _, u := range found.Uploads {
				n += u.Bytes
			}
		}
		return n, nil
	}
	before, err := sum()
	if err != nil {
		return err
	}
	if err := tx.Tx.Write(c); err != nil {
		return err
	}
	after, err := sum()
	*tx.most = max(*tx.most, before-after)
	return err
}

func TestOneTransactionDropsABoundedPartOfTheBlobsOfAThread(t *testing.T) {
	most := int64(0)
	d := open(t, countingDropped{memory.New(), &most}, ledger.Options{})
	d.register("w")
	d.submit(text("t", "one"))
	c := d.claimOne("w").Claim
	for _, name := range []string{"a", "b", "c", "d"} {
		d.put(c, name, bytes.Repeat([]byte(name), 3<<20))
	}
	d.settle(complete(c, "done"))
	if err := d.DeleteThread(d.ctx, "t", ann()); err != nil {
		t.Fatal(err)
	}
	if most < 3<<20 || most > 8<<20 {
		t.Errorf("one transaction dropped %d bytes, want at most 8 MiB", most)
	}
	if rows, marked, _, _ := d.storedRows("t"); rows+marked > 0 {
		t.Errorf("the thread has %d rows, %d marked", rows, marked)
	}
}

// A worker with uploads in many threads dies: taking away its claims drops them in several transactions.
func TestOneTransactionDropsABoundedPartOfTheUploadsOfADeadWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := int64(0)
		d := open(t, countingDropped{memory.New(), &most}, ledger.Options{Lease: time.Minute})
		d.register("w")
		for _, id := range []string{"t", "u", "v"} {
			d.submit(text(id, "one"))
			d.upload(d.claimOne("w").Claim, make([]byte, 3<<20))
		}
		most = 0
		<-time.After(2 * time.Minute)
		d.sweep()
		if most < 3<<20 || most > 7<<20 {
			t.Errorf("one transaction dropped %d bytes, want at most 7 MiB", most)
		}
		for _, id := range []string{"t", "u", "v"} {
			if row := d.thread(id); row.Worker != "" || len(row.Uploads) > 0 {
				t.Errorf("thread %s: worker %q, %d uploads", id, row.Worker, len(row.Uploads))
			}
		}
	})
}

// Two servers on one store: the second one ends the token of a worker between two pieces of an upload at the first one.
func TestARevokedTokenUploadsNothingMore(t *testing.T) {
	for _, s := range []*side{onMemory(), onFile(t.TempDir()), onPostgres(t)} {
		t.Run(s.name, func(t *testing.T) {
			var both [2]*fixture
			for i := range both {
				rows := must(s.open())(t)
				t.Cleanup(func() {
					if err := rows.Close(); err != nil {
						t.Error(err)
					}
				})
				both[i] = open(t, rows, ledger.Options{})
			}
			here, there := both[0], both[1]
			worker := must(there.Accounts().CreateToken(there.ctx, auth.Token{
				Name: "worker", Sum: "six", Scopes: []auth.Permission{auth.PermissionWork}}))(t)
			here.register("w")
			here.submit(text("t", "one"))
			c := here.claimOne("w").Claim
			here.put(c, "x", content(1, 2))
			there.wantBlob(there.run(c.Run), "x", content(1, 2))
			ctx := ledger.WithCaller(here.ctx, func() ledger.Caller { return ledger.RowOf(worker) })
			revoked := false
			from := readerFunc(func(p []byte) (int, error) {
				if !revoked && len(p) < store.BlobPieceBytes { // the first piece is read in two parts
					revoked = true
					return copy(p, "x"), there.Accounts().RevokeToken(there.ctx, "worker")
				}
				return copy(p, content(2, 1)[:min(len(p), 100_000)]), nil
			})
			_, err := here.Workers.Upload(ctx, c, from)
			wantCode(t, err, mailroom.CodeUnauthenticated)
			here.settle(release(c)) // drops what the token could not drop
			wantEqual(t, "counted", there.counted(), map[string]int64{"echo": store.BlobCounts(int64(len(content(1, 2))))})
		})
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// One batch deletes blobs of three threads, and then a thread: it is committed in several transactions, in order.
func TestOneTransactionOfABatchDropsABoundedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := int64(0)
		f := newControlledStore(countingDropped{memory.New(), &most})
		d := open(t, f, ledger.Options{})
		d.register("w")
		var ops []func() error
		for _, id := range []string{"t", "u", "v"} {
			d.submit(text(id, "one"))
			c := d.claimOne("w").Claim
			d.put(c, "a", make([]byte, 6<<20))
			drop := thread.StepCommit{Claim: c, Number: d.run(c.Run).Step + 1, Blobs: []thread.BlobChange{{Name: "a"}}}
			ops = append(ops, func() error { _, err := d.Append(d.ctx, drop); return err })
		}
		ops = append(ops, submitFunc(d, text("t", "two")), submitFunc(d, text("x", "one")))
		most = 0
		wantEqual(t, "answers", codes(gatherBatch(t, d, f, ops...)), []mailroom.Code{"", "", "", "", ""})
		wantEqual(t, "commits", f.updates(), 2)
		wantEqual(t, "most bytes dropped by one", most, 12<<20)
		wantEqual(t, "log", d.kinds("x"), "message, run.queued")
		for _, id := range []string{"t", "u", "v"} {
			wantEqual(t, "blobs of "+id, d.thread(id).BlobBytes, nil)
		}
	})
}

// A batch deletes threads that are short enough for one transaction each.
func TestOneTransactionOfABatchDeletesABoundedNumberOfThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := int64(0)
		f := newControlledStore(countingDropped{memory.New(), &most})
		d := open(t, f, ledger.Options{})
		d.register("w")
		var ops []func() error
		for _, id := range []string{"t", "u", "v"} {
			d.submit(text(id, "one"))
			c := d.claimOne("w").Claim
			d.put(c, "a", make([]byte, 6<<20))
			d.settle(complete(c, "done"))
			ops = append(ops, func() error { return d.DeleteThread(d.ctx, id, ann()) })
		}
		most = 0
		wantEqual(t, "answers", codes(gatherBatch(t, d, f, ops...)), []mailroom.Code{"", "", ""})
		wantEqual(t, "commits", f.updates(), 2)
		if most > 13<<20 {
			t.Errorf("one transaction dropped %d bytes, want at most 13 MiB", most)
		}
	})
}

// The second transaction of a batch fails: what the first one wrote was answered, and stays.
func TestAFailureAfterAPartOfABatchConcernsTheOthersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newControlledStore(nil)
		d := open(t, f, ledger.Options{})
		d.register("w")
		d.submit(text("t", "one"))
		c := d.claimOne("w").Claim
		d.put(c, "a", make([]byte, 9<<20))
		drop := thread.StepCommit{Claim: c, Number: d.run(c.Run).Step + 1, Blobs: []thread.BlobChange{{Name: "a"}}}
		f.setFaults(storetest.Fault{}, storetest.Fault{}, storetest.Fault{Kind: storetest.FailBefore})
		errs := gatherBatch(t, d, f,
			func() error { _, err := d.Append(d.ctx, drop); return err },
			submitFunc(d, text("x", "one")),
		)
		wantEqual(t, "answers", codes(errs), []mailroom.Code{"", mailroom.CodeUnavailable})
		wantEqual(t, "blobs", d.thread("t").BlobBytes, nil)
		d.submit(text("x", "one"))
		wantEqual(t, "log", d.kinds("x"), "message, run.queued")
	})
}
