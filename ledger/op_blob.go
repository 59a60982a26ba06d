package ledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
	"mailroom/thread"
)

// dropUploadTime bounds how long Upload tries to drop what it did not complete.
const dropUploadTime = 5 * time.Second

// Upload stores content under a claim, for a step that writes it as a blob. Its Name is the Upload of a
// [thread.BlobChange]. The content is read and stored in pieces, each in a transaction of its own, so that a large blob
// delays no other commit and is never in memory as a whole. An upload that fails is dropped, at the latest with the end
// of the attempt: the caller begins another one.
func (ws Workers) Upload(ctx context.Context, c mailroom.Claim, content io.Reader) (mailroom.Blob, error) {
	out := mailroom.Blob{Name: thread.UploadID(c, rand.Text()[:16])}
	sum := sha256.New()
	for number, last := 0, false; !last; number++ {
		body := make([]byte, store.BlobPieceBytes) // a commit without an answer may still use the one before
		var n int
		var err error
		if n, last, err = readPiece(content, body); err == nil {
			sum.Write(body[:n]) // a hash returns no error
			p := &thread.Piece{Claim: c, Upload: out.Name, Number: number, Body: body[:n]}
			if last {
				p.Digest = hex.EncodeToString(sum.Sum(nil))
				out.Digest = p.Digest
			}
			out.Size += int64(n)
			err = ws.AddPiece(ctx, p)
		}
		if err != nil {
			ws.dropFailed(ctx, c, out.Name)
			return mailroom.Blob{}, err
		}
	}
	return out, nil
}

// readPiece reads until body is full or the content ends, which last reports. Unlike io.ReadFull it takes only io.EOF
// for the end: the body of a broken request ends with io.ErrUnexpectedEOF, and is not the content.
func readPiece(content io.Reader, body []byte) (n int, last bool, err error) {
	for n < len(body) && err == nil {
		var more int
		more, err = content.Read(body[n:])
		n += more
	}
	if err == io.EOF {
		return n, true, nil
	}
	return n, false, err
}

// AddPiece adds a piece to an upload.
func (ws Workers) AddPiece(ctx context.Context, p *thread.Piece) error {
	o := op{name: "upload", rank: rankPlain, size: len(p.Body), threads: []string{p.Thread}, runs: []string{p.Run}}
	return perform(ctx, ws.ledger, o, func(tx *transaction) error {
		t := tx.rows.thread(p.Thread)
		if err := tx.checkQuota(t.Owner, auth.Use{Bytes: store.BlobCounts(int64(len(p.Body)))}); err != nil {
			return err
		}
		return thread.AddPiece(t, p, tx.now())
	})
}

// DropUpload drops an upload that no step has written.
func (ws Workers) DropUpload(ctx context.Context, c mailroom.Claim, id string) error {
	o := op{name: "drop upload", rank: rankPlain, threads: []string{c.Thread}, runs: []string{c.Run}}
	return perform(ctx, ws.ledger, o, func(tx *transaction) error {
		return thread.DropUpload(tx.rows.thread(c.Thread), c, id)
	})
}

// dropFailed drops an upload that failed. If that fails too, the end of the attempt drops it.
func (ws Workers) dropFailed(ctx context.Context, c mailroom.Claim, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropUploadTime)
	defer cancel()
	err := ws.DropUpload(ctx, c, id)
	if code := mailroom.CodeOf(err); err != nil && code != mailroom.CodeLeaseLost {
		ws.ledger.options.Log.WarnContext(ctx, "could not drop an incomplete upload; the end of its attempt drops it",
			"error", err)
	}
}

// loadBlobs loads the rows of the blobs that a step of run r changes.
func (tx *transaction) loadBlobs(t *thread.State, run string, changes []thread.BlobChange) error {
	r := t.Run(run)
	if r == nil || len(changes) == 0 {
		return nil // as all but a few steps
	}
	missing := t.Blobs.Missing(t.ID, r.Agent, changes)
	if len(missing) == 0 {
		return nil
	}
	q := store.BlobQuery{Agent: r.Agent, Names: missing}
	if _, err := tx.rows.stored.Keys(store.KeyQuery{Thread: t.ID, Blobs: &q}); err != nil {
		return err
	}
	t.Blobs.Add(t.ID, r.Agent, missing, q.Found)
	return nil
}

// dropSomeBlobs drops some blobs of a deleted thread that has more than one transaction should drop.
func (tx *transaction) dropSomeBlobs(t *thread.State) (dropped bool, err error) {
	if thread.BlobSum(t) <= dropBytes {
		return false, nil
	}
	q := store.BlobQuery{Limit: dropStep}
	if _, err := tx.rows.stored.Keys(store.KeyQuery{Thread: t.ID, Blobs: &q}); err != nil {
		return false, err
	}
	some, sum := q.Found[:0], int64(0)
	for _, b := range q.Found {
		if sum += b.Size; len(some) > 0 && sum > dropBytes {
			break
		}
		some = append(some, b)
	}
	thread.DropBlobs(t, some)
	return len(some) > 0, nil
}

// blobPage is the most blobs of a list.
const blobPage = 1000

// ListBlobs returns the blobs of the run's agent in its thread, at most blobPage; see [mailroom.Blobs].
func (ws Workers) ListBlobs(ctx context.Context, run *mailroom.Run, prefix, after string) (list []mailroom.Blob,
	err error) {
	q := store.BlobQuery{Agent: run.Agent, Prefix: prefix, After: store.BlobRef{Name: after}, Limit: blobPage}
	err = ws.ledger.View(ctx, func(r store.Reader) error {
		_, err := r.Keys(store.KeyQuery{Thread: run.Thread, Blobs: &q})
		return err
	})
	for i := range q.Found {
		list = append(list, q.Found[i].Show())
	}
	return list, err
}

// OpenBlob returns a blob of the run's agent and its content, which is read piece by piece and without a lock: a read
// fails with CodeConflict if a step has replaced or deleted the blob since. The content is nil if there is no such blob.
func (ws Workers) OpenBlob(ctx context.Context, run *mailroom.Run, name string) (mailroom.Blob, io.Reader, error) {
	q := store.BlobQuery{Agent: run.Agent, Names: []string{name}}
	err := ws.ledger.View(ctx, func(r store.Reader) error {
		_, err := r.Keys(store.KeyQuery{Thread: run.Thread, Blobs: &q})
		return err
	})
	if err != nil || len(q.Found) == 0 {
		return mailroom.Blob{}, nil, err
	}
	b := q.Found[0]
	return b.Show(), &blobReader{Blob: b.Show(), ctx: ctx, ledger: ws.ledger, thread: b.Thread, upload: b.Upload}, nil
}

// ReadBlob returns the content of a blob of the run's agent, or nil without one of this name.
func (ws Workers) ReadBlob(ctx context.Context, run *mailroom.Run, name string) ([]byte, error) {
	for {
		b, from, err := ws.OpenBlob(ctx, run, name)
		if from == nil || err != nil {
			return nil, err
		}
		content := make([]byte, b.Size)
		if _, err = io.ReadFull(from, content); !errors.Is(err, errReplaced) {
			return content, err
		}
	}
}

// errReplaced is the error of a read of a blob that a step has replaced or deleted since it was opened.
var errReplaced = errors.New("the blob was replaced while it was read")

// blobReader reads a blob, one piece at a time.
type blobReader struct {
	mailroom.Blob

	ctx    context.Context // of OpenBlob
	ledger *Ledger
	thread string
	upload string
	next   int    // number of the next piece
	piece  []byte // read and not yet returned
}

// Read implements [io.Reader].
func (b *blobReader) Read(p []byte) (int, error) {
	if len(b.piece) == 0 {
		if int64(b.next)*store.BlobPieceBytes >= b.Size {
			return 0, io.EOF
		}
		q := store.BlobQuery{Piece: &store.BlobPiece{Upload: b.upload, Number: b.next}}
		err := b.ledger.View(b.ctx, func(r store.Reader) error {
			_, err := r.Keys(store.KeyQuery{Thread: b.thread, Blobs: &q})
			return err
		})
		switch {
		case err != nil:
			return 0, err
		case q.Body == nil:
			return 0, mailroom.Errorf(mailroom.CodeConflict, "read blob %q again: %w", b.Name, errReplaced)
		}
		b.piece, b.next = q.Body, b.next+1
	}
	n := copy(p, b.piece)
	b.piece = b.piece[n:]
	return n, nil
}
