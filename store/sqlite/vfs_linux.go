package sqlite

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite/lib"
)

// fileLayer registers the file layer with the built-in SQLite, once for the process, and returns its name
// for the parameter vfs of a database name. It returns "" if this SQLite does not have the expected
// layout. Connections must use synchronous=FULL and cache_spill=OFF. Then each transaction that writes
// to the log ends with a sync, which writes what the layer holds before other connections may read it
// or write to the same place.
//
// archtest: SQLite's list of VFSs is the process's.
var fileLayer = sync.OnceValue(registerVFS)

const (
	vfsName = "mailroom"

	// logBuffer is the size in bytes of the buffer of a log. Longer commits need several writes.
	logBuffer = 256 << 10
)

// Functions of a VFS (https://sqlite.org/c3ref/vfs.html) and of a file
// (https://sqlite.org/c3ref/io_methods.html).
type (
	openFunc     = func(tls *libc.TLS, vfs, path, p uintptr, flags int32, outFlags uintptr) int32
	transferFunc = func(tls *libc.TLS, p, data uintptr, n int32, offset int64) int32 // read, write
	truncateFunc = func(tls *libc.TLS, p uintptr, size int64) int32
	sizeFunc     = func(tls *libc.TLS, p, size uintptr) int32
	syncFunc     = func(tls *libc.TLS, p uintptr, flags int32) int32
	closeFunc    = func(tls *libc.TLS, p uintptr) int32
)

// vfsFile is an open file. SQLite allocates it, zeroed, for each file; unix is the file of SQLite's
// own VFS, which does most of the work.
type vfsFile struct {
	unix    sqlite3.TunixFile
	methods sqlite3.Tsqlite3_io_methods // those that SQLite calls
	below   uintptr                     // the methods of unix
	buffer  uintptr                     // memory of joiner, 0 for files other than logs
	joiner  Joiner
}

func registerVFS() string {
	tls := libc.NewTLS()
	defer tls.Close()
	below := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if below == 0 || uintptr(valueAt[sqlite3.Tsqlite3_vfs](below).FszOsFile) != unsafe.Sizeof(sqlite3.TunixFile{}) {
		return ""
	}
	named, err := libc.CString(vfsName)
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	if err != nil || p == 0 { // no memory
		return ""
	}
	vfs := valueAt[sqlite3.Tsqlite3_vfs](p)
	*vfs = *valueAt[sqlite3.Tsqlite3_vfs](below)
	vfs.FpNext, vfs.FzName = 0, named
	vfs.FszOsFile = int32(unsafe.Sizeof(vfsFile{}))
	*methodAt[openFunc](&vfs.FxOpen) = vfsOpen
	if sqlite3.Xsqlite3_vfs_register(tls, p, 0) != sqlite3.SQLITE_OK {
		return ""
	}
	return vfsName
}

func vfsOpen(tls *libc.TLS, vfs, path, p uintptr, flags int32, outFlags uintptr) int32 {
	below := valueAt[sqlite3.Tsqlite3_vfs](sqlite3.Xsqlite3_vfs_find(tls, 0))
	rc := (*methodAt[openFunc](&below.FxOpen))(tls, vfs, path, p, flags, outFlags)
	f := valueAt[vfsFile](p)
	if rc != sqlite3.SQLITE_OK || f.unix.FpMethod == 0 {
		return rc
	}
	f.below = f.unix.FpMethod
	f.methods = *valueAt[sqlite3.Tsqlite3_io_methods](f.below)
	*methodAt[syncFunc](&f.methods.FxSync) = vfsSync
	if flags&sqlite3.SQLITE_OPEN_WAL != 0 {
		*methodAt[transferFunc](&f.methods.FxRead) = vfsRead
		*methodAt[transferFunc](&f.methods.FxWrite) = vfsWrite
		*methodAt[truncateFunc](&f.methods.FxTruncate) = vfsTruncate
		*methodAt[sizeFunc](&f.methods.FxFileSize) = vfsFileSize
		*methodAt[closeFunc](&f.methods.FxClose) = vfsClose
	}
	f.unix.FpMethod = uintptr(unsafe.Pointer(&f.methods))
	return rc
}

// vfsError is a result code of SQLite other than SQLITE_OK.
type vfsError int32

func (f vfsError) Error() string { return fmt.Sprintf("SQLite error %d", int32(f)) }

// vfsCode returns the result code of a call that joins or flushes.
func vfsCode(err error) int32 {
	if err == nil {
		return sqlite3.SQLITE_OK
	}
	if f, ok := errors.AsType[vfsError](err); ok {
		return int32(f)
	}
	return sqlite3.SQLITE_IOERR_WRITE
}

// unixWriter writes to the file's descriptor. The method of SQLite's own VFS writes less than 128 KiB
// at a time.
type unixWriter struct{ *vfsFile }

func (w unixWriter) WriteAt(p []byte, offset int64) error {
	for len(p) > 0 {
		n, err := syscall.Pwrite(int(w.unix.Fh), p, offset)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.ENOSPC || err == syscall.EDQUOT || err == nil && n == 0:
			return vfsError(sqlite3.SQLITE_FULL)
		case err != nil:
			w.note(err)
			return vfsError(sqlite3.SQLITE_IOERR_WRITE)
		}
		p, offset = p[n:], offset+int64(n)
	}
	return nil
}

// note records the cause of an error for SQLite.
func (f *vfsFile) note(err error) {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.unix.FlastErrno = int32(errno)
	}
}

func vfsWrite(tls *libc.TLS, p, data uintptr, n int32, offset int64) int32 {
	f := valueAt[vfsFile](p)
	if f.buffer == 0 { // most connections only read
		if f.buffer = libc.Xmalloc(tls, logBuffer); f.buffer != 0 {
			f.joiner = NewJoiner(bytesAt(f.buffer, logBuffer))
		}
	}
	return vfsCode(f.joiner.WriteAt(unixWriter{f}, bytesAt(data, n), offset))
}

func vfsRead(tls *libc.TLS, p, data uintptr, n int32, offset int64) int32 {
	f := valueAt[vfsFile](p)
	if f.joiner.Overlaps(offset, int64(n)) {
		if rc := vfsFlush(f); rc != sqlite3.SQLITE_OK {
			return rc
		}
	}
	return (*methodAt[transferFunc](&valueAt[sqlite3.Tsqlite3_io_methods](f.below).FxRead))(tls, p, data, n, offset)
}

func vfsFlush(f *vfsFile) int32 { return vfsCode(f.joiner.Flush(unixWriter{f})) }

func vfsTruncate(tls *libc.TLS, p uintptr, size int64) int32 {
	f := valueAt[vfsFile](p)
	if rc := vfsFlush(f); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return (*methodAt[truncateFunc](&valueAt[sqlite3.Tsqlite3_io_methods](f.below).FxTruncate))(tls, p, size)
}

func vfsFileSize(tls *libc.TLS, p, size uintptr) int32 {
	f := valueAt[vfsFile](p)
	if rc := vfsFlush(f); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return (*methodAt[sizeFunc](&valueAt[sqlite3.Tsqlite3_io_methods](f.below).FxFileSize))(tls, p, size)
}

// vfsSync flushes and syncs. The first sync of a new file, which also syncs its folder, is done below.
// fdatasync omits the time of the last write; SQLite's own VFS uses it where it is compiled to.
func vfsSync(tls *libc.TLS, p uintptr, flags int32) int32 {
	f := valueAt[vfsFile](p)
	if rc := vfsFlush(f); rc != sqlite3.SQLITE_OK {
		return rc
	}
	if f.unix.FctrlFlags&sqlite3.UNIXFILE_DIRSYNC != 0 {
		return (*methodAt[syncFunc](&valueAt[sqlite3.Tsqlite3_io_methods](f.below).FxSync))(tls, p, flags)
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

// vfsClose closes the file below. What the layer holds then is of a commit that failed.
func vfsClose(tls *libc.TLS, p uintptr) int32 {
	f := valueAt[vfsFile](p)
	libc.Xfree(tls, f.buffer)
	f.buffer, f.joiner = 0, Joiner{}
	return (*methodAt[closeFunc](&valueAt[sqlite3.Tsqlite3_io_methods](f.below).FxClose))(tls, p)
}
