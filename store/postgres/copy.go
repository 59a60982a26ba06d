package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"mailroom"
	"mailroom/store"
	"mailroom/store/internal/format"
)

// copyMark is added to min_code of a store from before its first row until it has all rows of another
// store. So neither this program nor an older one opens it.
const copyMark = 1 << 40

// copyWait is how long OpenCopy waits for a connection of a killed process to end.
const copyWait = 5 * time.Second

var (
	// ErrUnfinished is returned for a store that has not received all rows of the store from which it is copied.
	ErrUnfinished = errors.New("the tables have an unfinished copy of another store: " +
		"repeat the command `mailroom store copy`, which starts over")
	// ErrHasData is the refusal of tables with rows as the target of a copy.
	ErrHasData = errors.New("the tables have rows already")
	// ErrCopying is the refusal of a target into which another process copies.
	ErrCopying = errors.New("another process copies into the tables")
)

// Copy is an empty store that receives the rows of another one. Open refuses it until Finish.
type Copy struct{ Store *Store }

// OpenCopy opens an empty store for the rows of another one. It creates the tables if necessary, and
// removes the rows of a copy that was not finished. Only one process at a time has a Copy of a store.
func OpenCopy(ctx context.Context, o Options) (*Copy, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	s.copying = true
	if s.writer, err = s.connectWriter(ctx); err != nil {
		return nil, fmt.Errorf("open store in PostgreSQL: %w", err)
	}
	if err = createSchema(ctx, s.writer.conn, s.options.Schema); err == nil {
		err = s.lockCopy(ctx)
	}
	if err == nil {
		err = s.prepareCopy(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare store in PostgreSQL: %w", err), s.Close())
	}
	s.epoch.Add(1)
	return &Copy{s}, nil
}

// Finish lets other handles open the store, with statistics for the plans of its queries. Update must
// not be called afterwards.
func (c *Copy) Finish(ctx context.Context) error {
	s := c.Store
	if err := s.turns.Write(ctx); err != nil {
		return err
	}
	defer s.turns.EndWrite()
	analyze := "SET statement_timeout = 0; ANALYZE " + strings.Join(rowTables(), ", ")
	if _, err := s.writer.conn.PgConn().Exec(ctx, analyze).ReadAll(); err != nil {
		return refusal(ctx, "analyze the tables", err)
	}
	const unmark = "UPDATE schema_version SET min_code = min_code - $1 WHERE min_code >= $1"
	tag, err := s.writer.conn.Exec(ctx, unmark, int64(copyMark))
	switch {
	case err != nil:
		return refusal(ctx, "remove the mark of a copy", err)
	case tag.RowsAffected() != 1:
		return mailroom.Errorf(mailroom.CodeInternal, "the store is not marked as a copy any more")
	}
	return nil
}

// lockCopy refuses a second copy of the same store. The lock on the table ends with this process. The lock of the
// writing connection ends after all statements that the connection had sent, even if the process was killed.
func (s *Store) lockCopy(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, copyWait, ErrCopying)
	defer cancel()
	if s.lock, err = s.lockTable(ctx, copyTable); err == nil {
		err = lockAdvisory(ctx, s.writer.conn, copyLock, s.options.Schema)
	}
	// The time can end between two tries or in the middle of one, which then reports a timeout.
	if err != nil && !errors.Is(err, ErrCopying) && errors.Is(context.Cause(ctx), ErrCopying) {
		err = fmt.Errorf("%w: %w", ErrCopying, err)
	}
	return err
}

// prepareCopy marks the store and leaves its tables without rows.
func (s *Store) prepareCopy(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	lock, err := s.lockMigrations(ctx, c.conn)
	if err != nil {
		return err
	}
	defer lock.release()
	if err := pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) error { return s.code.mark(ctx, tx) }); err != nil {
		return err
	}
	if err := s.code.applyAll(ctx, c.conn, s.options.Schema); err != nil {
		return err
	}
	// The text runs in one transaction. A migration may have changed min_code.
	text := fmt.Sprintf(`SET LOCAL lock_timeout = '10s';
		UPDATE schema_version SET min_code = min_code + %[1]d WHERE min_code < %[1]d; TRUNCATE %[2]s`,
		int64(copyMark), strings.Join(rowTables(), ", "))
	for _, sequence := range keySequences() {
		text += "; ALTER SEQUENCE " + sequence + " RESTART"
	}
	if _, err = c.conn.PgConn().Exec(ctx, text).ReadAll(); err != nil {
		return fmt.Errorf("empty the tables: %w", err)
	}
	return nil
}

// rowTables returns the tables of rows.
func rowTables() []string {
	return []string{
		"thread", "run", "entry", "submit_key", "partial", "ticket", "worker", "definition", "token", "token_use",
		"tally", "cursor", "reservation", "removed", "failure", "deadline", "pause", "summary", "indexed", "index_state",
		"blob", "blob_piece", "meter",
	}
}

// keySequences returns the sequences of the keys of rows.
func keySequences() []string { return []string{"thread_key", "run_key", "ticket_key", "token_key"} }

// mark marks a store without data, unless it is marked.
func (c code) mark(ctx context.Context, tx pgx.Tx) error {
	const insert = "INSERT INTO schema_version VALUES (1, 0, $1) ON CONFLICT (one) DO NOTHING"
	if _, err := tx.Exec(ctx, insert, int64(copyMark+1)); err != nil {
		return err
	}
	var have, least int64
	const lock = "SELECT version, min_code FROM schema_version WHERE one = 1 FOR UPDATE"
	if err := tx.QueryRow(ctx, lock).Scan(&have, &least); err != nil {
		return err
	}
	switch {
	case least >= copyMark && have > c.version: // tables that this program does not know have rows
		return &VersionError{Have: have, MinCode: have, Know: c.version}
	case least >= copyMark:
		return nil
	case least > c.version:
		return &VersionError{Have: have, MinCode: least, Know: c.version}
	case have > 0:
		if err := refuseData(ctx, tx); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "UPDATE schema_version SET min_code = min_code + $1 WHERE one = 1", int64(copyMark))
	return err
}

// refuseData refuses a store that has rows of work or that a server uses. What a server that was stopped
// has left without work, which are definitions and workers, is no data.
func refuseData(ctx context.Context, tx pgx.Tx) error {
	for _, table := range []string{"thread", "run", "token", "cursor", "reservation"} {
		var some bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+table+")").Scan(&some); err != nil {
			return err
		}
		if some {
			return fmt.Errorf("%w, in the table %s", ErrHasData, table)
		}
	}
	var now time.Time
	if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, "SELECT body FROM worker ORDER BY id")
	if err != nil {
		return err
	}
	var workers []*store.Worker
	var body []byte
	if _, err = pgx.ForEachRow(rows, []any{&body}, func() error {
		w := &store.Worker{}
		workers = append(workers, w)
		return format.ParseWorker(string(body), w)
	}); err != nil {
		return err
	}
	return store.RefuseServers(workers, now)
}
