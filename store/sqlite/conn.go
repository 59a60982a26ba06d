package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"

	"mailroom/internal/recovery"
)

// conn is a connection of the built-in SQLite. It calls SQLite's C interface (https://sqlite.org/c3ref/funclist.html),
// which modernc.org/sqlite/lib has in Go. One goroutine at a time uses it, so SQLite takes no mutex for it.
//
// A driver for database/sql copies each argument and boxes each result, which costs as much as a cheap statement.
type conn struct {
	tls *libc.TLS // what SQLite's code has in place of a thread
	db  uintptr   // sqlite3 *

	// bound is SQLite's memory for the texts and blobs of the current statement, and room its size in bytes. While busy
	// is set, a statement reads from there.
	bound uintptr
	room  int
	busy  bool
}

const (
	pointerSize = int(unsafe.Sizeof(uintptr(0)))

	// leastRoom and mostRoom bound the memory for texts and blobs that a connection keeps, in bytes.
	leastRoom = 16 << 10
	mostRoom  = 1 << 20
)

// connError is an error of the built-in SQLite.
type connError struct {
	code    int // extended result code
	message string
}

func (e *connError) Error() string { return e.message }

// openConn opens a database with a name as in [Driver.Connector], and runs its pragmas.
func openConn(name string) (_ *conn, err error) {
	parsed, err := url.Parse(name)
	if err != nil {
		return nil, err
	}
	c := &conn{tls: libc.NewTLS()}
	defer func() {
		if err != nil {
			_ = c.close() // the first error says more
		}
	}()
	if err := c.open(name); err != nil {
		return nil, err
	}
	for _, pragma := range parsed.Query()["_pragma"] {
		if err := c.run("PRAGMA " + pragma); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *conn) open(name string) error {
	file, err := libc.CString(name)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, file)
	db := c.tls.Alloc(pointerSize)
	defer c.tls.Free(pointerSize)
	const flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_CREATE | sqlite3.SQLITE_OPEN_URI |
		sqlite3.SQLITE_OPEN_NOMUTEX | sqlite3.SQLITE_OPEN_EXRESCODE
	rc := sqlite3.Xsqlite3_open_v2(c.tls, file, db, flags, 0)
	c.db = *valueAt[uintptr](db) // to be closed also after an error
	return c.result(rc)
}

// run runs a statement once.
func (c *conn) run(text string) error {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	_, err = s.exec(context.Background(), nil)
	return errors.Join(err, s.close())
}

// result returns the error of a result code. It reads the message of the latest call of c.
func (c *conn) result(rc int32) error {
	if rc == sqlite3.SQLITE_OK {
		return nil
	}
	text := libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))
	if c.db != 0 {
		if more := libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db)); more != text {
			text += ": " + more
		}
	}
	return &connError{code: int(rc), message: fmt.Sprintf("%s (%d)", text, rc)}
}

// dataVersion implements [connection].
func (c *conn) dataVersion() (uint32, bool) {
	const size = int(unsafe.Sizeof(uint32(0)))
	version := c.tls.Alloc(size)
	defer c.tls.Free(size)
	const first = 0 // no name: the main database
	rc := sqlite3.Xsqlite3_file_control(c.tls, c.db, first, sqlite3.SQLITE_FCNTL_DATA_VERSION, version)
	return *valueAt[uint32](version), rc == sqlite3.SQLITE_OK
}

// buffer returns n bytes of c.bound or more. What other statements have bound there is lost: each binds all its
// parameters again before it reads them. It never returns the address 0, which SQLite takes for NULL.
func (c *conn) buffer(n int) ([]byte, error) {
	if n > c.room || c.bound == 0 {
		c.dropBuffer()
		size := max(n, leastRoom)
		if c.bound = libc.Xmalloc(c.tls, types.Size_t(size)); c.bound == 0 {
			return nil, &connError{sqlite3.SQLITE_NOMEM, fmt.Sprintf("no memory for arguments of %d bytes", n)}
		}
		c.room = size
	}
	return unsafe.Slice(valueAt[byte](c.bound), c.room), nil
}

func (c *conn) dropBuffer() {
	libc.Xfree(c.tls, c.bound)
	c.bound, c.room = 0, 0
}

// close closes the connection, whose statements are closed.
func (c *conn) close() error {
	var err error
	if c.db != 0 {
		err = c.result(sqlite3.Xsqlite3_close_v2(c.tls, c.db))
	}
	c.dropBuffer()
	c.tls.Close()
	return err
}

// interrupter interrupts what a connection does, from another goroutine.
type interrupter struct {
	db         uintptr
	unregister func() bool

	mu   sync.Mutex
	over bool // the statement has ended
}

// heed makes the end of ctx interrupt c, also while it waits for a lock, until the caller calls end. It returns nil
// for a context that never ends, and an error for one that has ended.
func (c *conn) heed(ctx context.Context) (*interrupter, error) {
	if ctx.Done() == nil {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.waitInterruptibly()
	i := &interrupter{db: c.db}
	i.unregister = context.AfterFunc(ctx, func() {
		defer recovery.Log(nil, "interrupting a statement")
		i.run()
	})
	return i, nil
}

// end returns when no interrupt is under way or can follow.
func (i *interrupter) end() {
	if i == nil {
		return
	}
	i.unregister()
	i.mu.Lock()
	i.over = true
	i.mu.Unlock()
}

// run interrupts until the statement has ended: SQLite forgets an interrupt that comes before a statement begins.
func (i *interrupter) run() {
	const again = time.Millisecond
	tls := libc.NewTLS()
	defer tls.Close()
	for i.interrupt(tls) {
		time.Sleep(again)
	}
}

func (i *interrupter) interrupt(tls *libc.TLS) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.over {
		sqlite3.Xsqlite3_interrupt(tls, i.db)
	}
	return !i.over
}

// ended returns ctx's error in place of one that the end of ctx has caused.
func (c *conn) ended(ctx context.Context, rc int32) error {
	if kind := rc & primary; ctx.Err() != nil && (kind == sqlite3.SQLITE_INTERRUPT || kind == sqlite3.SQLITE_BUSY) {
		return ctx.Err()
	}
	return c.result(rc)
}

// busyFunc waits for a lock, once more after count calls, or returns 0.
type busyFunc = func(tls *libc.TLS, db uintptr, count int32) int32

// waitInterruptibly replaces the function that PRAGMA busy_timeout has set, which an interrupt does not end.
func (c *conn) waitInterruptibly() {
	db := valueAt[sqlite3.Tsqlite3](c.db)
	var wait uintptr
	*methodAt[busyFunc](&wait) = waitForLock
	if timeout := db.FbusyTimeout; timeout > 0 && db.FbusyHandler.FxBusyHandler != wait {
		sqlite3.Xsqlite3_busy_handler(c.tls, c.db, wait, c.db)
		db.FbusyTimeout = timeout // the call has cleared it
	}
}

// waitForLock waits up to the time of PRAGMA busy_timeout, or until an interrupt.
func waitForLock(tls *libc.TLS, db uintptr, count int32) int32 {
	const each = 2 // milliseconds
	if count >= valueAt[sqlite3.Tsqlite3](db).FbusyTimeout/each || sqlite3.Xsqlite3_is_interrupted(tls, db) != 0 {
		return 0
	}
	time.Sleep(each * time.Millisecond)
	return 1
}

// valueAt returns the value at an address of SQLite's memory.
func valueAt[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// methodAt returns a pointer to the function in a field of a structure of SQLite.
func methodAt[F any](field *uintptr) *F { return (*F)(unsafe.Pointer(field)) }

// bytesAt returns n bytes of SQLite's memory.
func bytesAt(p uintptr, n int32) []byte { return unsafe.Slice(valueAt[byte](p), n) }
