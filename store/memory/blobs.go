package memory

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"mailroom/store"
)

// pieceID names a piece of an upload.
type pieceID struct {
	thread, upload string
	number         int
}

// readBlobs answers the Blobs of a KeyQuery.
func (r reader) readBlobs(thread string, q *store.BlobQuery) {
	q.Found, q.Body, q.Uploads = nil, nil, nil
	switch {
	case q.Piece != nil:
		if body, ok := r.pieces.get(pieceID{thread, q.Piece.Upload, q.Piece.Number}); ok {
			q.Body = append([]byte{}, body...)
		}
		return
	case q.Sizes:
		q.Uploads = r.sizesOfUploads(thread)
		return
	}
	after := q.After
	if q.Agent != "" {
		after.Agent = q.Agent
	}
	for ref, b := range r.blobs.all() {
		switch {
		case ref.Thread != thread, q.Agent != "" && ref.Agent != q.Agent, !strings.HasPrefix(ref.Name, q.Prefix):
		case len(q.Names) > 0 && !slices.Contains(q.Names, ref.Name):
		case len(q.Names) == 0 && q.After != (store.BlobRef{}) && compareBlobs(ref, after) <= 0:
		default:
			q.Found = append(q.Found, b)
		}
	}
	slices.SortFunc(q.Found, func(a, b store.Blob) int { return compareBlobs(a.Ref(), b.Ref()) })
	if len(q.Names) == 0 {
		q.Found = first(q.Found, q.Limit)
	}
}

func compareBlobs(a, b store.BlobRef) int {
	return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Name, b.Name))
}

func (r reader) sizesOfUploads(thread string) (found []store.UploadSize) {
	sums := map[string]store.UploadSize{}
	for id, body := range r.pieces.all() {
		if id.thread == thread {
			n := sums[id.upload]
			sums[id.upload] = store.UploadSize{Upload: id.upload, Pieces: n.Pieces + 1, Bytes: n.Bytes + int64(len(body))}
		}
	}
	for _, n := range sums {
		found = append(found, n)
	}
	slices.SortFunc(found, func(a, b store.UploadSize) int { return strings.Compare(a.Upload, b.Upload) })
	return found
}

func (t *tx) writeBlobs(c *store.Changes) error {
	for _, b := range c.Blobs {
		if _, ok := t.threads.get(b.Thread); !ok {
			return t.fail("blob %q: its thread %q does not exist", b.Name, b.Thread)
		}
		cut(&b.WrittenAt)
		t.blobs.put(b.Ref(), b)
	}
	for _, p := range c.BlobPieces {
		id := pieceID{p.Thread, p.Upload, p.Number}
		if _, ok := t.threads.get(p.Thread); !ok {
			return t.fail("piece of upload %q: its thread %q does not exist", p.Upload, p.Thread)
		}
		if _, ok := t.pieces.get(id); ok {
			return t.fail("piece %d of upload %q already exists", p.Number, p.Upload)
		}
		t.pieces.put(id, bytes.Clone(p.Body))
	}
	return nil
}

func (t *tx) dropBlobs(c *store.Changes) {
	for _, ref := range c.DropBlobs {
		t.blobs.drop(ref)
	}
	for _, u := range c.DropUploads {
		t.dropPieces(func(id pieceID) bool { return id.thread == u.Thread && id.upload == u.Upload })
	}
}

func (t *tx) dropBlobsOf(thread string) {
	for ref := range t.blobs.all() {
		if ref.Thread == thread {
			t.blobs.drop(ref)
		}
	}
	t.dropPieces(func(id pieceID) bool { return id.thread == thread })
}

func (t *tx) dropPieces(which func(pieceID) bool) {
	for id := range t.pieces.all() {
		if which(id) {
			t.pieces.drop(id)
		}
	}
}
