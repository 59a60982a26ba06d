package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"

	"mailroom/store"
)

// File is a database opened for inspection, whether or not a server has it open. It changes, migrates and repairs
// nothing, and blocks no other process. One goroutine at a time uses it.
type File struct {
	driver    Driver
	path      string
	session   *session
	exclusive os.FileInfo // the file's state if no process had it open; nil if one may have
	sync      func(*os.File) error
	last      Revision // the revision file as it was before the database was opened
	known     bool     // the revision file had content
}

// ErrNoStore is the cause when a file does not exist or contains no store.
var ErrNoStore = errors.New("no server has made a store there")

// OpenFile opens the database at path read-only. Its tables must have the version of this program.
func OpenFile(ctx context.Context, path string) (*File, error) {
	f := &File{driver: builtIn(), path: path, sync: (*os.File).Sync}
	info, err := isDatabase(path)
	if err != nil {
		return nil, err
	}
	if f.last, f.known, err = ReadRevision(path); err != nil {
		return nil, err
	}
	for _, how := range f.openModes(info) {
		if err = f.connect(ctx, how); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := f.checkVersion(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// isDatabase refuses files that SQLite would refuse with less detail, or accept as an empty
// database.
func isDatabase(path string) (info os.FileInfo, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: %w", path, ErrNoStore)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return info, fmt.Errorf("%s is empty: %w", path, ErrNoStore)
	}
	const magic = "SQLite format 3\x00"
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(file, head); err != nil || string(head) != magic {
		return info, fmt.Errorf("%s is not a SQLite database", path)
	}
	return info, nil
}

// openModes returns the connection parameters that change nothing, best first. Without a WAL no
// process has the file open, and it can be read without a lock or an additional file. Otherwise the
// WAL index is read as it is; after a crash SQLite rebuilds it in memory. If the index is missing
// SQLite must create it, which adds a file without data of its own.
func (f *File) openModes(info os.FileInfo) []url.Values {
	wal, shm := exists(f.path+"-wal"), exists(f.path+"-shm")
	plain := url.Values{"mode": {"ro"}}
	switch {
	case shm:
		return []url.Values{{"mode": {"ro"}, "readonly_shm": {"1"}}, plain}
	case wal:
		return []url.Values{plain}
	}
	f.exclusive = info
	return []url.Values{{"mode": {"ro"}, "immutable": {"1"}}}
}

func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

func (f *File) connect(ctx context.Context, how url.Values) error {
	how.Set("_pragma", "busy_timeout(5000)")
	connector, err := f.driver.open(f.path, how)
	if err != nil {
		return err
	}
	s, err := newSession(ctx, &f.driver, connector)
	if err != nil {
		return err
	}
	if _, err := s.value(ctx, "SELECT count(*) FROM sqlite_schema"); err != nil {
		return errors.Join(err, s.close())
	}
	f.session = s
	return nil
}

// checkVersion refuses tables of a version that this program does not read.
func (f *File) checkVersion(ctx context.Context) error {
	know, err := latest()
	if err != nil {
		return err
	}
	n, err := f.session.value(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'goose_db_version'")
	if err != nil {
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	if n == int64(0) {
		return fmt.Errorf("%s is a database without the tables of a store: %w", f.path, ErrNoStore)
	}
	value, err := f.session.value(ctx, "SELECT max(version_id) FROM goose_db_version WHERE is_applied")
	if err != nil {
		return fmt.Errorf("read the version of the tables in %s: %w", f.path, err)
	}
	if have, _ := value.(int64); have != know {
		return &VersionError{Path: f.path, Have: have, Know: know}
	}
	return nil
}

// VersionError reports tables of a version that this program does not read.
type VersionError struct {
	Path string // "" if the wrapping error names the file
	Have int64  // the version of the tables
	Know int64  // the version that this program reads
}

// CanMigrate reports whether this program's server migrates the tables at its start.
func (e *VersionError) CanMigrate() bool { return baseVersion <= e.Have && e.Have < e.Know }

func (e *VersionError) Error() string {
	tables := "the tables"
	if e.Path != "" {
		tables += " in " + e.Path
	}
	switch {
	case e.Have > e.Know:
		return fmt.Sprintf("%s have version %d, made by a newer mailroom; this one knows up to %d: use the newer one",
			tables, e.Have, e.Know)
	case e.CanMigrate():
		return fmt.Sprintf("%s have version %d, made by an older mailroom; this one reads version %d: "+
			"start this one's server on it once, which migrates them, or use the older one", tables, e.Have, e.Know)
	}
	return fmt.Sprintf("%s have version %d, made by an older mailroom; this one migrates version %d and later: "+
		"use the mailroom that made them, or first start the server of commit 76a9169 on a copy, "+
		"which migrates it to version %d",
		tables, e.Have, baseVersion, baseVersion)
}

// Commits returns the revision of the database, which is its number of commits. lost is not nil if the database lacks
// acknowledged commits or may lack some.
func (f *File) Commits(ctx context.Context) (commits int64, lost *LostCommitsError, err error) {
	defer func() { err = f.undisturbed(err) }()
	if commits, err = commitsOf(ctx, f.session); err != nil {
		return 0, nil, err
	}
	open, err := isMarked(ctx, f.session)
	return commits, lostCommits(f.path, commits, open, f.last, f.known), err
}

// latest returns the version of the tables after all migrations.
func latest() (int64, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("read migrations: %d of them, %w", len(files), err)
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(files[len(files)-1], "migrations/"), "_")
	last, err := strconv.ParseInt(number, 10, 64)
	return max(last, shareVersion, useVersion, countVersion, inboxVersion, claimsVersion), err
}

// View calls fn with a consistent snapshot, as a store's View does.
func (f *File) View(ctx context.Context, fn func(store.Reader) error) (err error) {
	if _, err := f.session.exec(ctx, "BEGIN"); err != nil {
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	defer func() {
		_, e := f.session.exec(context.Background(), "ROLLBACK")
		err = errors.Join(err, e)
		err = f.undisturbed(err)
	}()
	return fn(reader{ctx: ctx, session: f.session, now: now()})
}

// undisturbed returns err, or a new error if a process has opened a file that is read without a
// lock: the rows read so far may be inconsistent.
func (f *File) undisturbed(err error) error {
	if f.exclusive == nil {
		return err
	}
	now, e := os.Stat(f.path)
	if e == nil && os.SameFile(now, f.exclusive) && now.Size() == f.exclusive.Size() &&
		now.ModTime().Equal(f.exclusive.ModTime()) && !exists(f.path+"-shm") {
		return err
	}
	return fmt.Errorf("%s changed while it was read: try again", f.path)
}

// mostFaults bounds the number of faults that Faults returns from each of its checks.
const mostFaults = 100

// Faults returns, one sentence each, what SQLite's integrity check, its foreign keys and its
// columns find wrong. It reads the whole file.
func (f *File) Faults(ctx context.Context) (found []string, err error) {
	defer func() { err = f.undisturbed(err) }()
	for _, check := range []struct {
		text     string
		sentence func(row []driver.Value) string
	}{
		{"PRAGMA integrity_check(" + strconv.Itoa(mostFaults) + ")", func(row []driver.Value) string {
			if out := fmt.Sprint(row[0]); out != "ok" {
				return "integrity check: " + strings.TrimSpace(out)
			}
			return ""
		}},
		{"SELECT \"table\", rowid, parent FROM pragma_foreign_key_check LIMIT " + strconv.Itoa(mostFaults),
			func(row []driver.Value) string {
				return fmt.Sprintf("row %v of table %v refers to a row of table %v that does not exist", row[1], row[0], row[2])
			}},
		{wrongLinks + strconv.Itoa(mostFaults), func(row []driver.Value) string {
			return fmt.Sprintf("row %v of table entry follows row %v, which is not before it in its thread", row[0], row[1])
		}},
		{wrongEnds + strconv.Itoa(mostFaults), func(row []driver.Value) string {
			return fmt.Sprintf("row %v of table thread ends with row %v of table entry, which is not its last one",
				row[0], row[1])
		}},
		{`SELECT k.key, t.id, json_extract(k.result, '$.run') FROM submit_key k JOIN thread t ON t.key = k.thread
			WHERE json_extract(k.result, '$.disposition') = 'queued'
			AND NOT EXISTS (SELECT 1 FROM run r WHERE r.id = json_extract(k.result, '$.run') AND r.thread = k.thread)
			LIMIT ` + strconv.Itoa(mostFaults), func(row []driver.Value) string {
			return fmt.Sprintf("key %q of thread %q made run %v, which does not exist", row[0], row[1], row[2])
		}},
	} {
		err := f.session.query(ctx, check.text, nil, func(c *columns) (bool, error) {
			if out := check.sentence(c.all()); out != "" {
				found = append(found, out)
			}
			return true, nil
		})
		if f.driver.kind(err) == sqlite3.SQLITE_CORRUPT {
			return append(found, fmt.Sprintf("SQLite cannot read further: %v", err)), nil
		}
		if err != nil {
			return found, fmt.Errorf("read %s: %w", f.path, err)
		}
	}
	return f.contradictions(ctx, found)
}

// contradictions adds rows whose columns differ from the body that they are derived from.
func (f *File) contradictions(ctx context.Context, found []string) ([]string, error) {
	s := Store{}
	for _, table := range []struct {
		name, text string
		columns    func(row values) ([]value, error)
	}{
		{"thread", `SELECT key, body, agent, due_at, due_agent, due_priority, due_alone, due_owner, id,
			owner, deliver_to, deleted FROM thread`,
			func(row values) ([]value, error) {
				t, err := scanThread(&columns{row: row})
				args := s.bindThread(nil, t)
				return moreOfThread(append(args[:len(args)-1], textValue(t.ID), textValue(t.Owner)), t), err
			}},
		{"run", `SELECT r.key, r.body, r.parent, r.status, r.queue, r.priority, r.place, r.not_before, r.id, r.agent, t.id
			FROM run r JOIN thread t ON t.key = r.thread`,
			func(row values) ([]value, error) {
				r, err := scanRun(&columns{row: row})
				args := bindRun(nil, r, nil, true)
				return append(args[:len(args)-1], textValue(r.ID), textValue(r.Agent), textValue(r.Thread)), err
			}},
	} {
		more := mostFaults
		err := f.session.query(ctx, table.text, nil, func(c *columns) (bool, error) {
			row := c.all()
			want, err := table.columns(row)
			switch {
			case err != nil:
				found = append(found, fmt.Sprintf("row %v of table %s is unreadable: %v", row[0], table.name, err))
			case !slices.EqualFunc(row[2:], want, func(a driver.Value, b value) bool { return a == b.ofDriver() }):
				found = append(found, fmt.Sprintf("row %v of table %s has columns that differ from its body", row[0], table.name))
			default:
				return true, nil
			}
			more--
			return more > 0, nil
		})
		if err != nil {
			return found, fmt.Errorf("read %s: %w", f.path, err)
		}
	}
	return found, nil
}

// Close closes the database.
func (f *File) Close() error { return f.session.close() }
