package sqlite

import (
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	putBlob = `INSERT INTO blob (agent, name, upload, size, digest, written_at, thread)
		SELECT ?, ?, ?, ?, ?, ?, key FROM thread WHERE id = ?
		ON CONFLICT (thread, agent, name) DO UPDATE SET upload = excluded.upload, size = excluded.size,
		digest = excluded.digest, written_at = excluded.written_at`
	dropBlob = "DELETE FROM blob WHERE thread = (SELECT key FROM thread WHERE id = ?) AND agent = ? AND name = ?"

	insertPiece = "INSERT INTO blob_piece (upload, number, body, thread) SELECT ?, ?, ?, key FROM thread WHERE id = ?"
	onePiece    = `SELECT body FROM blob_piece
		WHERE thread = (SELECT key FROM thread WHERE id = ?) AND upload = ? AND number = ?`
	// The length of a body is in its row: SQLite does not read the body for it.
	sizesOfPieces = `SELECT upload, count(*), sum(length(body)) FROM blob_piece
		WHERE thread = (SELECT key FROM thread WHERE id = ?) GROUP BY upload ORDER BY upload`
	dropUpload = "DELETE FROM blob_piece WHERE thread = (SELECT key FROM thread WHERE id = ?) AND upload = ?"

	dropThreadBlobs  = "DELETE FROM blob WHERE thread = (SELECT key FROM thread WHERE id = ?)"
	dropThreadPieces = "DELETE FROM blob_piece WHERE thread = (SELECT key FROM thread WHERE id = ?)"
)

// blobs answers the Blobs of a KeyQuery.
func (r reader) blobs(thread string, q *store.BlobQuery) error {
	q.Found, q.Body, q.Uploads = nil, nil, nil
	switch {
	case q.Piece != nil:
		return r.query("read a piece of a blob", onePiece, []any{thread, q.Piece.Upload, int64(q.Piece.Number)},
			func(c *columns) (bool, error) {
				q.Body = append([]byte{}, c.blob()...)
				return false, nil
			})
	case q.Sizes:
		return r.query("read the sizes of blobs", sizesOfPieces, []any{thread}, func(c *columns) (bool, error) {
			q.Uploads = append(q.Uploads, store.UploadSize{Upload: c.Text(), Pieces: c.Int(), Bytes: c.Int64()})
			return true, nil
		})
	}
	names := []string{""}
	if len(q.Names) > 0 {
		names = sqlstore.Distinct(q.Names)
	}
	for _, name := range names {
		s := sqlstore.Blobs(thread, name, q)
		err := r.query("read blobs", s.Text(), s.Args(), func(c *columns) (bool, error) {
			q.Found = append(q.Found, store.Blob{Thread: thread, Agent: c.Text(), Name: c.Text(), Upload: c.Text(),
				Size: c.Int64(), Digest: c.Text(), WrittenAt: c.Time()})
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeBlob(t *tx, b store.Blob) error {
	res, err := t.exec(putBlob, b.Agent, b.Name, b.Upload, b.Size, b.Digest, micros(b.WrittenAt), b.Thread)
	return wrote(res, err, "thread", b.Thread, 0)
}

func writePiece(t *tx, p store.BlobPiece) error {
	res, err := t.exec(insertPiece, p.Upload, int64(p.Number), p.Body, p.Thread)
	return wrote(res, err, "thread", p.Thread, 0)
}

func removeBlob(t *tx, b store.BlobRef) error { return t.run(dropBlob, b.Thread, b.Agent, b.Name) }

func removeUpload(t *tx, u store.UploadRef) error { return t.run(dropUpload, u.Thread, u.Upload) }
