package walfile

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite/lib"
)

// VFS registers the file layer with the built-in SQLite, once for the process, and returns its name
// for the parameter vfs of a database name. It returns "" if this SQLite does not have the expected
// layout. Connections must use synchronous=FULL and cache_spill=OFF. Then each transaction that writes
// to the log ends with a sync, which writes what the layer holds before other connections may read it
// or write to the same place.
//
// archtest: SQLite's list of VFSs is the process's.
var VFS = sync.OnceValue(register)

const name = "mailroom"

// bufferSize is the size in bytes of the buffer of a log. Longer commits need several writes.
const bufferSize = 256 << 10

// file is an open file. SQLite allocates it, zeroed, for each file; unix is that of its own VFS, which
// does most of the work.
type file struct {
	unix    sqlite3.TunixFile
	methods sqlite3.Tsqlite3_io_methods // those that SQLite calls
	below   uintptr                     // the methods of unix
	buffer  uintptr                     // memory of joiner, 0 for files other than logs
	joiner  Joiner
}

func register() string {
	tls := libc.NewTLS()
	defer tls.Close()
	below := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if below == 0 || uintptr(at[sqlite3.Tsqlite3_vfs](below).FszOsFile) != unsafe.Sizeof(sqlite3.TunixFile{}) {
		return ""
	}
	named, err := libc.CString(name)
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	if err != nil || p == 0 { // no memory
		return ""
	}
	vfs := at[sqlite3.Tsqlite3_vfs](p)
	*vfs = *at[sqlite3.Tsqlite3_vfs](below)
	vfs.FpNext, vfs.FzName = 0, named
	vfs.FszOsFile = int32(unsafe.Sizeof(file{}))
	*method[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](&vfs.FxOpen) = open
	if sqlite3.Xsqlite3_vfs_register(tls, p, 0) != sqlite3.SQLITE_OK {
		return ""
	}
	return name
}

// at returns the value at an address of SQLite's memory.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// method returns a pointer to the function in a field of a structure of SQLite.
func method[F any](field *uintptr) *F { return (*F)(unsafe.Pointer(field)) }

// memory returns n bytes of SQLite's memory.
func memory(p uintptr, n int32) []byte { return unsafe.Slice(at[byte](p), n) }

// The methods of a VFS and of a file are at https://sqlite.org/c3ref/vfs.html and
// https://sqlite.org/c3ref/io_methods.html.

func open(tls *libc.TLS, vfs, path, p uintptr, flags int32, outFlags uintptr) int32 {
	below := at[sqlite3.Tsqlite3_vfs](sqlite3.Xsqlite3_vfs_find(tls, 0))
	rc := (*method[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](&below.FxOpen))(tls, vfs, path, p, flags, outFlags)
	f := at[file](p)
	if rc != sqlite3.SQLITE_OK || f.unix.FpMethod == 0 {
		return rc
	}
	f.below = f.unix.FpMethod
	f.methods = *at[sqlite3.Tsqlite3_io_methods](f.below)
	*method[func(*libc.TLS, uintptr, int32) int32](&f.methods.FxSync) = syncFile
	if flags&sqlite3.SQLITE_OPEN_WAL != 0 {
		*method[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](&f.methods.FxRead) = read
		*method[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](&f.methods.FxWrite) = write
		*method[func(*libc.TLS, uintptr, int64) int32](&f.methods.FxTruncate) = truncate
		*method[func(*libc.TLS, uintptr, uintptr) int32](&f.methods.FxFileSize) = fileSize
		*method[func(*libc.TLS, uintptr) int32](&f.methods.FxClose) = closeFile
	}
	f.unix.FpMethod = uintptr(unsafe.Pointer(&f.methods))
	return rc
}

// failed is a result code of SQLite other than SQLITE_OK.
type failed int32

func (f failed) Error() string { return fmt.Sprintf("SQLite error %d", int32(f)) }

// codeOf returns the result code of a call that joins or flushes.
func codeOf(err error) int32 {
	if err == nil {
		return sqlite3.SQLITE_OK
	}
	if f, ok := errors.AsType[failed](err); ok {
		return int32(f)
	}
	return sqlite3.SQLITE_IOERR_WRITE
}

// unixWriter writes to the file's descriptor. The method of SQLite's own VFS writes less than 128 KiB
// at a time.
type unixWriter struct{ *file }

func (w unixWriter) WriteAt(p []byte, offset int64) error {
	for len(p) > 0 {
		n, err := syscall.Pwrite(int(w.unix.Fh), p, offset)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.ENOSPC || err == syscall.EDQUOT || err == nil && n == 0:
			return failed(sqlite3.SQLITE_FULL)
		case err != nil:
			w.note(err)
			return failed(sqlite3.SQLITE_IOERR_WRITE)
		}
		p, offset = p[n:], offset+int64(n)
	}
	return nil
}

// note records the cause of an error for SQLite.
func (f *file) note(err error) {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.unix.FlastErrno = int32(errno)
	}
}

func write(tls *libc.TLS, p, data uintptr, n int32, offset int64) int32 {
	f := at[file](p)
	if f.buffer == 0 { // most connections only read
		if f.buffer = libc.Xmalloc(tls, bufferSize); f.buffer != 0 {
			f.joiner = NewJoiner(memory(f.buffer, bufferSize))
		}
	}
	return codeOf(f.joiner.WriteAt(unixWriter{f}, memory(data, n), offset))
}

func read(tls *libc.TLS, p, data uintptr, n int32, offset int64) int32 {
	f := at[file](p)
	if f.joiner.Overlaps(offset, int64(n)) {
		if rc := flush(f); rc != sqlite3.SQLITE_OK {
			return rc
		}
	}
	return (*method[func(*libc.TLS, uintptr, uintptr, int32, int64) int32](&at[sqlite3.Tsqlite3_io_methods](f.below).FxRead))(tls, p, data, n, offset)
}

func flush(f *file) int32 { return codeOf(f.joiner.Flush(unixWriter{f})) }

func truncate(tls *libc.TLS, p uintptr, size int64) int32 {
	f := at[file](p)
	if rc := flush(f); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return (*method[func(*libc.TLS, uintptr, int64) int32](&at[sqlite3.Tsqlite3_io_methods](f.below).FxTruncate))(tls, p, size)
}

func fileSize(tls *libc.TLS, p, size uintptr) int32 {
	f := at[file](p)
	if rc := flush(f); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return (*method[func(*libc.TLS, uintptr, uintptr) int32](&at[sqlite3.Tsqlite3_io_methods](f.below).FxFileSize))(tls, p, size)
}

// syncFile flushes and syncs. The first sync of a new file, which also syncs its folder, is done below.
// fdatasync omits the time of the last write; SQLite's own VFS uses it where it is compiled to.
func syncFile(tls *libc.TLS, p uintptr, flags int32) int32 {
	f := at[file](p)
	if rc := flush(f); rc != sqlite3.SQLITE_OK {
		return rc
	}
	if f.unix.FctrlFlags&sqlite3.UNIXFILE_DIRSYNC != 0 {
		return (*method[func(*libc.TLS, uintptr, int32) int32](&at[sqlite3.Tsqlite3_io_methods](f.below).FxSync))(tls, p, flags)
	}
	for {
		switch err := syscall.Fdatasync(int(f.unix.Fh)); err {
		case nil:
			return sqlite3.SQLITE_OK
		case syscall.EINTR:
		default:
			f.note(err)
			return sqlite3.SQLITE_IOERR_FSYNC
		}
	}
}

// closeFile closes the file below. What the layer holds then is of a commit that failed.
func closeFile(tls *libc.TLS, p uintptr) int32 {
	f := at[file](p)
	libc.Xfree(tls, f.buffer)
	f.buffer, f.joiner = 0, Joiner{}
	return (*method[func(*libc.TLS, uintptr) int32](&at[sqlite3.Tsqlite3_io_methods](f.below).FxClose))(tls, p)
}
