package postgres

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mailroom"
	"mailroom/store/internal/sqlstore"
)

const (
	// filesSuffix marks the connections of Files in application_name.
	filesSuffix = "_files"
	// filePiece is the size of a piece but the last, in bytes. All versions must use the same, because two
	// handles may store the pieces of one file.
	filePiece = 256 << 10
	// maxFileConnections bounds the connections of Files at a time.
	maxFileConnections = 4
)

// Files keeps the files of messages for all servers on a database, in pieces. A file can be read once all
// its pieces are stored; it is then the same for ever, because its name is derived from its content.
//
// Each call has a connection of its own, which ends with it. So files delay neither the writer nor the
// Views of a store. No transaction lasts longer than one piece.
type Files struct {
	options Options
	busy    chan struct{} // counts the connections
}

// NewFiles makes a handle on the files beside a store with the same URL and schema.
func NewFiles(o Options) (*Files, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Files{options: o, busy: make(chan struct{}, maxFileConnections)}, nil
}

const fileClock = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// Save stores the content of r durably under its name and resets the age of the file. It does not read r if
// the file is stored already. Unavailable means that the file may be stored in part, which nothing
// shows, and that Save must be called again with all its content.
func (f *Files) Save(ctx context.Context, name string, r io.Reader) error {
	conn, end, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer end()
	var key int64
	var complete bool
	err = f.query(ctx, conn, []any{&key, &complete}, `INSERT INTO file (name, saved_at) VALUES ($1, `+fileClock+`)
		ON CONFLICT (name) DO UPDATE SET saved_at = excluded.saved_at RETURNING key, size IS NOT NULL`, name)
	if err != nil || complete {
		return fileError(ctx, "store a file", err)
	}
	var size int64
	piece := make([]byte, filePiece)
	for number := int64(0); ; number++ {
		n, last := io.ReadFull(r, piece)
		if last != nil && !errors.Is(last, io.EOF) && !errors.Is(last, io.ErrUnexpectedEOF) {
			return last
		}
		if n > 0 {
			// Another handle that stores the file has written the same bytes.
			const insert = "INSERT INTO file_piece VALUES ($1, $2, $3) ON CONFLICT (file, number) DO NOTHING"
			if err := f.exec(ctx, conn, insert, key, number, piece[:n]); err != nil {
				return fileError(ctx, "store a piece of a file", err)
			}
			size += int64(n)
		}
		if last != nil {
			break
		}
	}
	const finish = "UPDATE file SET size = $2, saved_at = " + fileClock + " WHERE key = $1 RETURNING key"
	err = f.query(ctx, conn, []any{&key}, finish, key, size)
	if errors.Is(err, pgx.ErrNoRows) {
		return errFileRemoved()
	}
	return fileError(ctx, "complete a file", err)
}

// Open returns a stored file, whose content is read from the database as it is used. NotFound means that
// it was never stored, not completely, or that it was removed.
func (f *Files) Open(ctx context.Context, name string) (*File, error) {
	conn, end, err := f.connect(ctx)
	if err != nil {
		return nil, err
	}
	file := &File{files: f, ctx: ctx, conn: conn, end: end}
	var saved int64
	const find = "SELECT key, size, saved_at FROM file WHERE name = $1 AND size IS NOT NULL"
	err = f.query(ctx, conn, []any{&file.key, &file.Size, &saved}, find, name)
	if err != nil {
		end()
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, mailroom.Errorf(mailroom.CodeNotFound, "the database has no file %s", name)
		}
		return nil, fileError(ctx, "find a file", err)
	}
	file.SavedAt = time.UnixMicro(saved).UTC()
	return file, nil
}

// Keep resets the age of those files that are stored and were last saved before the given time.
func (f *Files) Keep(ctx context.Context, names []string, before time.Time) error {
	conn, end, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer end()
	// In the order of the names, so that two handles wait for each other and do not deadlock.
	err = f.exec(ctx, conn, `WITH old AS MATERIALIZED (SELECT key FROM file WHERE name = ANY ($1::text[]) AND saved_at < $2
			ORDER BY name FOR UPDATE)
		UPDATE file SET saved_at = `+fileClock+` FROM old WHERE file.key = old.key`, names, before.UnixMicro())
	return fileError(ctx, "keep files", err)
}

// RemoveBefore removes the files that were last saved before the given time, also incomplete ones, and
// returns their number. Two handles may remove at the same time.
func (f *Files) RemoveBefore(ctx context.Context, before time.Time) (removed int, err error) {
	conn, end, err := f.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	for {
		var key int64
		err := f.query(ctx, conn, []any{&key}, `DELETE FROM file WHERE key = (
			SELECT key FROM file WHERE saved_at < $1 ORDER BY saved_at, key LIMIT 1 FOR UPDATE SKIP LOCKED)
			RETURNING key`, before.UnixMicro())
		if errors.Is(err, pgx.ErrNoRows) {
			return removed, nil
		}
		if err != nil {
			return removed, fileError(ctx, "remove old files", err)
		}
		removed++
	}
}

// connect waits until fewer than maxFileConnections are open, and opens a connection. The caller must call end.
func (f *Files) connect(ctx context.Context) (_ *pgx.Conn, end func(), err error) {
	select {
	case f.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, sqlstore.Cancelled(ctx)
	}
	conn, err := f.options.connect(ctx, filesSuffix, nil)
	if err == nil {
		end = func() {
			(&session{conn: conn}).close()
			<-f.busy
		}
		// A role or a database may have another value. What commits after the pieces makes them durable too.
		if err = f.exec(ctx, conn, "SET synchronous_commit = on"); err == nil {
			return conn, end, nil
		}
		(&session{conn: conn}).close()
	}
	<-f.busy
	refused := refusal(ctx, "connect to PostgreSQL for files", err)
	refused.Code = mailroom.CodeUnavailable
	return nil, nil, refused
}

// query reads one row.
func (f *Files) query(ctx context.Context, conn *pgx.Conn, into []any, text string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, f.options.StatementTimeout+tripTimeout)
	defer cancel()
	return conn.QueryRow(ctx, text, args...).Scan(into...)
}

func (f *Files) exec(ctx context.Context, conn *pgx.Conn, text string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, tripTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, text, args...)
	return err
}

// fileError converts an error of a statement into one of the store's interface.
func fileError(ctx context.Context, doing string, err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pg) && pg.Code == "23503": // foreign_key_violation
		return errFileRemoved()
	}
	return refusal(ctx, doing, err)
}

func errFileRemoved() error {
	return mailroom.Errorf(mailroom.CodeUnavailable, "the file was removed while it was stored")
}

// File is a stored file that is read. It keeps a connection until Close.
type File struct {
	Size    int64
	SavedAt time.Time // last

	files *Files
	ctx   context.Context // of Open
	conn  *pgx.Conn
	end   func()
	key   int64
	read  int64  // bytes of the pieces so far
	piece []byte // part of the piece that was not yet returned
}

// Read implements [io.Reader]. It fails if the stored pieces do not add up to a file of this size.
func (f *File) Read(p []byte) (int, error) {
	if len(f.piece) == 0 {
		if f.read == f.Size {
			return 0, io.EOF
		}
		const piece = "SELECT body FROM file_piece WHERE file = $1 AND number = $2"
		err := f.files.query(f.ctx, f.conn, []any{&f.piece}, piece, f.key, f.read/filePiece)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, mailroom.Errorf(mailroom.CodeNotFound, "the file was removed, or a piece of it is missing")
		}
		if err != nil {
			return 0, fileError(f.ctx, "read a piece of a file", err)
		}
		if want := min(filePiece, f.Size-f.read); int64(len(f.piece)) != want {
			return 0, mailroom.Errorf(mailroom.CodeInternal,
				"a piece of a stored file has %d bytes, want %d", len(f.piece), want)
		}
		f.read += int64(len(f.piece))
	}
	n := copy(p, f.piece)
	f.piece = f.piece[n:]
	return n, nil
}

// Close implements [io.Closer].
func (f *File) Close() error {
	f.end()
	return nil
}
