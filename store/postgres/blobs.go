package postgres

import (
	"mailroom/store"
	"mailroom/store/internal/sqlstore"
)

const (
	putBlobs = `WITH w AS (INSERT INTO blob (thread, agent, name, upload, size, digest, written_at)
		SELECT t.key, u.agent, u.name, u.upload, u.size, u.digest, u.written_at
		FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::bigint[])
			u (thread, agent, name, upload, size, digest, written_at)
			JOIN thread t ON t.id = u.thread
		ON CONFLICT (thread, agent, name) DO UPDATE SET upload = excluded.upload, size = excluded.size,
		digest = excluded.digest, written_at = excluded.written_at RETURNING 1)` + checkRows
	insertPieces = `WITH w AS (INSERT INTO blob_piece (thread, upload, number, body)
		SELECT t.key, u.upload, u.number, u.body
		FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bytea[]) u (thread, upload, number, body)
			JOIN thread t ON t.id = u.thread RETURNING 1)` + checkRows
	dropBlobs = `DELETE FROM blob b USING thread t, unnest($1::text[], $2::text[], $3::text[]) u (thread, agent, name)
		WHERE t.id = u.thread AND b.thread = t.key AND b.agent = u.agent AND b.name = u.name`
	dropUploads = `DELETE FROM blob_piece p USING thread t, unnest($1::text[], $2::text[]) u (thread, upload)
		WHERE t.id = u.thread AND p.thread = t.key AND p.upload = u.upload`

	onePiece = `SELECT body FROM blob_piece
		WHERE thread = (SELECT key FROM thread WHERE id = $1) AND upload = $2 AND number = $3`
	sizesOfPieces = `SELECT upload, count(*), sum(octet_length(body))::bigint FROM blob_piece
		WHERE thread = (SELECT key FROM thread WHERE id = $1) GROUP BY upload ORDER BY upload`
)

// blobs answers the Blobs of a KeyQuery.
func (r reader) blobs(thread string, q *store.BlobQuery) error {
	q.Found, q.Body, q.Uploads = nil, nil, nil
	switch {
	case q.Piece != nil:
		return r.query("read a piece of a blob", func(c *columns) error {
			q.Body = append([]byte{}, c.next()...)
			return c.err
		}, onePiece, thread, q.Piece.Upload, int64(q.Piece.Number))
	case q.Sizes:
		return r.query("read the sizes of blobs", func(c *columns) error {
			q.Uploads = append(q.Uploads, store.UploadSize{Upload: c.Text(), Pieces: c.Int(), Bytes: c.Int64()})
			return c.err
		}, sizesOfPieces, thread)
	}
	s := sqlstore.Blobs(thread, "", q)
	if len(q.Names) > 0 {
		s = &sqlstore.Select{}
		s.Add("SELECT b.agent, b.name, b.upload, b.size, b.digest, b.written_at FROM blob b")
		s.Cond("b.thread = (SELECT key FROM thread WHERE id = ?) AND b.agent = ? AND b.name = ANY (?::text[])",
			thread, q.Agent, sqlstore.Distinct(q.Names))
	}
	found, err := list(r, "read blobs", s, 0, 0, func(c *columns) (store.Blob, error) {
		return store.Blob{Thread: thread, Agent: c.Text(), Name: c.Text(), Upload: c.Text(), Size: c.Int64(),
			Digest: c.Text(), WrittenAt: c.Time()}, c.err
	})
	q.Found = found
	return err
}

func (w *writing) writeBlobs(blobs []store.Blob) {
	rows := lastOfEach(blobs, func(b store.Blob) store.BlobRef { return b.Ref() })
	var threads, agents, names, uploads, digests []string
	var sizes, written []int64
	for _, b := range rows {
		threads, agents, names = append(threads, b.Thread), append(agents, b.Agent), append(names, b.Name)
		uploads, digests = append(uploads, b.Upload), append(digests, b.Digest)
		sizes, written = append(sizes, b.Size), append(written, micros(b.WrittenAt))
	}
	if len(rows) > 0 {
		w.trip.add(nil, putBlobs, len(rows), threads, agents, names, uploads, sizes, digests, written)
	}
}

func (w *writing) writePieces(pieces []store.BlobPiece) {
	var threads, uploads []string
	var numbers []int64
	var bodies [][]byte
	for _, p := range pieces {
		threads, uploads = append(threads, p.Thread), append(uploads, p.Upload)
		numbers, bodies = append(numbers, int64(p.Number)), append(bodies, p.Body)
	}
	if len(pieces) > 0 {
		w.trip.add(nil, insertPieces, len(pieces), threads, uploads, numbers, bodies)
	}
}

func (w *writing) dropBlobs(blobs []store.BlobRef, uploads []store.UploadRef) {
	var threads, agents, names []string
	for _, b := range blobs {
		threads, agents, names = append(threads, b.Thread), append(agents, b.Agent), append(names, b.Name)
	}
	if len(blobs) > 0 {
		w.trip.add(nil, dropBlobs, threads, agents, names)
	}
	var of, ids []string
	for _, u := range uploads {
		of, ids = append(of, u.Thread), append(ids, u.Upload)
	}
	if len(uploads) > 0 {
		w.trip.add(nil, dropUploads, of, ids)
	}
}
