package powercut

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"mailroom/store/sqlite"
)

const sector = 512 // bytes that a disk writes atomically

// disk is a VFS of SQLite. It knows what a power cut leaves of each file: the synced part, and a
// random part of the rest.
type disk struct {
	dir string // for WAL indexes, which are shared memory and lost with the power

	mu    sync.Mutex // guards all below, and all files
	rand  *rand.Rand
	files map[string]*file
	gone  map[string]*file // deleted, but the folder has not been synced since
	boot  int              // handles of an earlier boot are dead
	dead  bool             // until the next boot
	ends  map[string]int   // the operations that the power cuts interrupted
	cutIn int              // operations of cutOf until the power cut; 0: none
	cutOf string           // substring of the operations to count
	// fails decides whether an operation fails; nil: none fails.
	fails func(op string) bool
	// beforeSync is called without mu before what a log has is safe; nil: not called.
	beforeSync func()
}

// file is a file and its locks.
type file struct {
	now     []byte   // the current content
	safe    []byte   // the synced content
	waiting []change // changes since the last sync
	named   bool     // the folder with its name was synced

	shared            int
	reserved, pending bool
}

// change is a write, or a truncation if data is nil.
type change struct {
	at   int64
	data []byte
}

func newDisk(dir string, seed uint64) *disk {
	return &disk{dir: dir, rand: rand.New(rand.NewPCG(seed, 1)), files: map[string]*file{}, gone: map[string]*file{},
		ends: map[string]int{}}
}

// powerOff invalidates all handles. The next boot finds what the cut left.
func (d *disk) powerOff() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, f := range d.gone {
		if d.files[name] == nil && d.rand.IntN(2) == 0 {
			d.files[name] = f
		}
	}
	clear(d.gone)
	how := d.rand.IntN(4)
	for name, f := range d.files {
		if !f.named && d.rand.IntN(2) == 0 {
			delete(d.files, name)
			continue
		}
		d.files[name] = &file{safe: d.left(f, how), named: true}
		d.files[name].now = slices.Clone(d.files[name].safe)
	}
	d.boot++
	d.cutIn, d.dead, d.fails = 0, false, nil
}

// left returns what a cut leaves of a file: none of the unsynced changes, the first ones, any
// subset in any order, or any subset with garbage in it.
func (d *disk) left(f *file, how int) []byte {
	kept := f.safe
	waiting := f.waiting
	switch how {
	case 0:
		return kept
	case 1:
		for _, c := range waiting[:d.rand.IntN(len(waiting)+1)] {
			kept = c.apply(kept)
		}
		return kept
	}
	d.rand.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
	for _, c := range waiting {
		kept = d.torn(kept, c, how == 3)
	}
	return kept
}

// torn applies some sectors of a change.
func (d *disk) torn(to []byte, c change, rubbish bool) []byte {
	if c.data == nil {
		if d.rand.IntN(2) == 0 {
			return c.apply(to)
		}
		return to
	}
	for from := int64(0); from < int64(len(c.data)); {
		upto := min((c.at+from)/sector*sector+sector-c.at, int64(len(c.data)))
		part := change{c.at + from, slices.Clone(c.data[from:upto])}
		from = upto
		switch n := d.rand.IntN(8); {
		case n == 0 && rubbish:
			for i := range part.data {
				part.data[i] = byte(d.rand.Uint32())
			}
			to = part.apply(to)
		case n < 4:
			to = part.apply(to)
		}
	}
	return to
}

func (c change) apply(to []byte) []byte {
	if c.data == nil {
		return resized(to, c.at)
	}
	if end := c.at + int64(len(c.data)); end > int64(len(to)) {
		to = resized(to, end)
	}
	copy(to[c.at:], c.data)
	return to
}

func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	grown := slices.Grow(b, int(size)-len(b))[:size]
	clear(grown[len(b):])
	return grown
}

// step counts an operation of a handle of some boot. It reports whether the operation is done, and
// whether it then fails. The caller holds mu.
func (d *disk) step(boot int, op string) (done bool, failure error) {
	if d.dead || boot != d.boot {
		return false, sqlite3.IOERR
	}
	if d.cutIn > 0 && strings.Contains(op+"$", d.cutOf) {
		if d.cutIn--; d.cutIn == 0 {
			d.dead = true
			d.ends[op]++
			return true, sqlite3.IOERR
		}
	}
	if d.fails != nil && d.fails(op) {
		return true, sqlite3.IOERR
	}
	return true, nil
}

// cutAfter cuts the power at the n-th operation from now on whose description contains of: "" any
// operation, "sync", "/mail.db$".
func (d *disk) cutAfter(n int, of string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutIn, d.cutOf = n, of
}

func (d *disk) off() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// failWhen makes operations fail from now on if fails returns true for their description.
func (d *disk) failWhen(fails func(op string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = fails
}

// The methods of a VFS.

func (d *disk) FullPathname(name string) (string, error) { return name, nil }

func (d *disk) Access(name string, _ vfs.AccessFlag) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[name] != nil, nil
}

func (d *disk) Delete(name string, syncDir bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	if f == nil {
		return sqlite3.IOERR_DELETE_NOENT
	}
	if _, err := d.step(d.boot, "delete "+name); err != nil {
		return err
	}
	delete(d.files, name)
	switch {
	case syncDir:
		d.syncFolder()
	case f.named:
		d.gone[name] = f
	}
	return nil
}

func (d *disk) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, flags, sqlite3.CANTOPEN
	}
	f := d.files[name]
	switch {
	case name == "":
		f = &file{} // a temporary file
	case f == nil && flags&vfs.OPEN_CREATE == 0:
		return nil, flags, sqlite3.CANTOPEN
	case f == nil:
		f = &file{}
		d.files[name] = f
	}
	h := &handle{disk: d, file: f, name: name, boot: d.boot, made: !f.named &&
		flags&(vfs.OPEN_WAL|vfs.OPEN_MAIN_JOURNAL|vfs.OPEN_SUPER_JOURNAL) != 0}
	index := fmt.Sprintf("%d-%s-shm", d.boot, filepath.Base(name))
	if flags&vfs.OPEN_WAL != 0 {
		h.joiner = sqlite.NewJoiner(make([]byte, 0, 64<<10))
	}
	h.index = vfs.NewSharedMemory(filepath.Join(d.dir, index), flags)
	return h, flags, nil
}

// handle is an open file. The connection that opened it owns its fields.
type handle struct {
	disk  *disk
	file  *file
	name  string
	boot  int
	index vfs.SharedMemory
	made  bool // a journal or a WAL, whose first sync also syncs the folder, as in SQLite's own VFS
	lock  vfs.LockLevel
	// joiner joins the writes of a log, as the file layer of the built-in SQLite does.
	joiner sqlite.Joiner
}

func (h *handle) SharedMemory() vfs.SharedMemory { return h.index }

func (h *handle) Close() error {
	if err := h.joiner.Flush(onDisk{h}); err != nil {
		return err
	}
	if h.index != nil {
		if err := h.index.Close(); err != nil {
			return err
		}
	}
	return h.Unlock(vfs.LOCK_NONE)
}

func (h *handle) ReadAt(p []byte, at int64) (int, error) {
	if h.joiner.Overlaps(at, int64(len(p))) {
		if err := h.joiner.Flush(onDisk{h}); err != nil {
			return 0, err
		}
	}
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.disk.dead || h.boot != h.disk.boot {
		return 0, sqlite3.IOERR_READ
	}
	if at >= int64(len(h.file.now)) {
		return 0, io.EOF
	}
	n := copy(p, h.file.now[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) WriteAt(p []byte, at int64) (int, error) {
	if err := h.joiner.WriteAt(onDisk{h}, p, at); err != nil {
		return 0, err
	}
	return len(p), nil
}

// onDisk writes to the disk what a handle has joined.
type onDisk struct{ *handle }

func (o onDisk) WriteAt(p []byte, at int64) error {
	if err := o.change("write", change{at, slices.Clone(p)}); err != nil {
		return sqlite3.IOERR_WRITE
	}
	return nil
}

func (h *handle) Truncate(size int64) error {
	if err := h.joiner.Flush(onDisk{h}); err != nil {
		return err
	}
	if err := h.change("truncate", change{at: size}); err != nil {
		return sqlite3.IOERR_TRUNCATE
	}
	return nil
}

// change applies c even if the operation fails, as far as chance decides.
func (h *handle) change(op string, c change) error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	done, err := h.disk.step(h.boot, op+" "+h.name)
	if done && (err == nil || h.disk.rand.IntN(2) == 0) {
		h.file.now = c.apply(h.file.now)
		h.file.waiting = append(h.file.waiting, c)
	}
	return err
}

// Sync makes all changes safe. A failed sync writes some of them and drops the rest, as operating
// systems do: a later sync does not write them.
func (h *handle) Sync(vfs.SyncFlag) error {
	if err := h.joiner.Flush(onDisk{h}); err != nil {
		return err
	}
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if f := h.disk.beforeSync; f != nil && strings.HasSuffix(h.name, "-wal") {
		h.disk.mu.Unlock()
		f()
		h.disk.mu.Lock()
	}
	done, err := h.disk.step(h.boot, "sync "+h.name)
	if !done || h.disk.dead {
		return sqlite3.IOERR_FSYNC
	}
	for _, c := range h.file.waiting {
		if err == nil {
			h.file.safe = c.apply(h.file.safe)
		} else {
			h.file.safe = h.disk.torn(h.file.safe, c, false)
		}
	}
	h.file.waiting = nil
	if err != nil {
		return sqlite3.IOERR_FSYNC
	}
	if h.made {
		h.disk.syncFolder()
		h.made = false
	}
	return nil
}

// syncFolder makes all names safe. The caller holds mu.
func (d *disk) syncFolder() {
	for _, f := range d.files {
		f.named = true
	}
	clear(d.gone)
}

func (h *handle) Size() (int64, error) {
	if err := h.joiner.Flush(onDisk{h}); err != nil {
		return 0, err
	}
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return int64(len(h.file.now)), nil
}

func (h *handle) SectorSize() int { return sector }

// DeviceCharacteristics returns what SQLite assumes of a disk: a torn write does not damage bytes
// beyond it.
func (h *handle) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_POWERSAFE_OVERWRITE
}

// The locks of https://sqlite.org/lockingv3.html.

func (h *handle) Lock(lock vfs.LockLevel) error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	f := h.file
	if h.lock >= lock {
		return nil
	}
	switch lock {
	case vfs.LOCK_SHARED:
		if f.pending {
			return sqlite3.BUSY
		}
		f.shared++
	case vfs.LOCK_RESERVED:
		if f.reserved {
			return sqlite3.BUSY
		}
		f.reserved = true
	case vfs.LOCK_EXCLUSIVE:
		if f.pending && h.lock < vfs.LOCK_PENDING {
			return sqlite3.BUSY
		}
		f.pending, h.lock = true, vfs.LOCK_PENDING
		if f.shared > 1 {
			return sqlite3.BUSY
		}
	}
	h.lock = lock
	return nil
}

func (h *handle) Unlock(lock vfs.LockLevel) error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	f := h.file
	if h.lock <= lock {
		return nil
	}
	if h.lock >= vfs.LOCK_RESERVED {
		f.reserved = false
	}
	if h.lock >= vfs.LOCK_PENDING {
		f.pending = false
	}
	if lock < vfs.LOCK_SHARED {
		f.shared--
	}
	h.lock = lock
	return nil
}

func (h *handle) CheckReservedLock() (bool, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return h.file.reserved, nil
}
