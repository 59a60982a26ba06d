package transfer

import (
	"mailroom"
	"mailroom/store"
)

// hasBlobs reports whether a thread has blobs or pieces of them, by its row. Most have none, and need no query.
func hasBlobs(t *mailroom.Thread) bool { return len(t.BlobBytes)+len(t.Uploads) > 0 }

// blobScan reads the blobs of a thread, and then their pieces.
type blobScan struct {
	blob   store.BlobRef      // last one that was read
	all    bool               // the last blob was read
	pieces []store.BlobPiece  // to read, without bodies; nil until all is set
	sizes  []store.UploadSize // of the pieces
}

// readBlobs reads a page of blobs, or the next piece.
func (s *threadScan) readBlobs(r store.Reader, b *batch) error {
	thread := s.at.ID
	if !s.all {
		q := store.BlobQuery{After: s.blob, Limit: batchRows}
		if _, err := r.Keys(store.KeyQuery{Thread: thread, Blobs: &q}); err != nil {
			return err
		}
		b.Blobs, b.rows = append(b.Blobs, q.Found...), b.rows+len(q.Found)
		if s.all = len(q.Found) < batchRows; !s.all {
			s.blob = q.Found[batchRows-1].Ref()
			return nil
		}
		sizes := store.BlobQuery{Sizes: true}
		_, err := r.Keys(store.KeyQuery{Thread: thread, Blobs: &sizes})
		s.sizes = sizes.Uploads
		return err
	}
	if len(s.pieces) == 0 {
		if len(s.sizes) == 0 {
			s.at = nil
			return nil
		}
		for n := range s.sizes[0].Pieces {
			s.pieces = append(s.pieces, store.BlobPiece{Thread: thread, Upload: s.sizes[0].Upload, Number: n})
		}
		s.sizes = s.sizes[1:]
	}
	piece := s.pieces[0]
	s.pieces = s.pieces[1:]
	body, err := readPiece(r, piece)
	if err != nil {
		return err
	}
	piece.Body = body
	b.BlobPieces, b.rows, b.bytes = append(b.BlobPieces, piece), b.rows+1, b.bytes+len(body)
	return nil
}

// readPiece returns the body of a piece, which exists.
func readPiece(r store.Reader, p store.BlobPiece) ([]byte, error) {
	q := store.BlobQuery{Piece: &p}
	_, err := r.Keys(store.KeyQuery{Thread: p.Thread, Blobs: &q})
	if err == nil && q.Body == nil {
		err = mailroom.Errorf(mailroom.CodeInternal, "piece %d of upload %s of thread %q is missing", p.Number, p.Upload,
			p.Thread)
	}
	return q.Body, err
}

// addBlobs hashes the blobs of a thread with their pieces.
func addBlobs(h hasher, r store.Reader, t *mailroom.Thread) error {
	for q := (store.BlobQuery{Limit: batchRows}); ; {
		if _, err := r.Keys(store.KeyQuery{Thread: t.ID, Blobs: &q}); err != nil {
			return err
		}
		for _, b := range q.Found {
			if err := h.addBoth(nil, b); err != nil {
				return err
			}
			q.After = b.Ref()
		}
		if len(q.Found) < batchRows {
			break
		}
	}
	sizes := store.BlobQuery{Sizes: true}
	if _, err := r.Keys(store.KeyQuery{Thread: t.ID, Blobs: &sizes}); err != nil {
		return err
	}
	for _, u := range sizes.Uploads {
		for n := range u.Pieces {
			body, err := readPiece(r, store.BlobPiece{Thread: t.ID, Upload: u.Upload, Number: n})
			if err != nil {
				return err
			}
			if err := h.addBoth(body, u); err != nil {
				return err
			}
		}
	}
	return nil
}
