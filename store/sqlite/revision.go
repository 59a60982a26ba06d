package sqlite

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// RevisionSuffix is the suffix of the revision file's path, which is the database's path otherwise.
const RevisionSuffix = "-revision"

// Revision is the content of the revision file. The store writes the file after each commit that
// has reached stable storage, but syncs it only at checkpoints and when it closes. So the database
// is never older than the file, unless commits were lost without SQLite's knowledge.
type Revision struct {
	Commits int64 // committed transactions
	// Closed is true while no process has the store open. Size and Modified describe the closed
	// database file, in bytes and in nanoseconds since 1970.
	Closed   bool
	Size     int64
	Modified int64
}

// LostCommitsError reports a database that is older than its revision file, or one that was not closed
// and has no revision file.
type LostCommitsError struct {
	Path string
	Have int64 // commits in the database
	Want int64 // acknowledged commits; 0: unknown
}

func (e *LostCommitsError) Error() string {
	if e.Want == 0 {
		return fmt.Sprintf("%s was not closed, and %s is missing or unreadable: "+
			"acknowledged commits after revision %d may be lost",
			e.Path, e.Path+RevisionSuffix, e.Have)
	}
	return fmt.Sprintf("%s has lost acknowledged commits: it is at revision %d, and the last commit was %d",
		e.Path, e.Have, e.Want)
}

// A revision file has two records of recordSize bytes, written alternately, so that an interrupted
// write leaves the other one.
const (
	recordSize  = 128
	recordCount = 2
)

// revisionFile writes a revision file. The holder of the store's turn owns it.
type revisionFile struct {
	file   *os.File
	serial int64 // serial number of the last record
	buffer []byte
}

// openRevision opens or creates the revision file of a database and returns its content. known is
// false if it has none. A new file has its name on stable storage only after [revisionFile.secure].
func openRevision(database string) (r *revisionFile, last Revision, known bool, err error) {
	path := database + RevisionSuffix
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, Revision{}, false, fmt.Errorf("open the revision file: %w", err)
	}
	last, serial, err := readRecords(file)
	if err != nil {
		return nil, Revision{}, false, errors.Join(fmt.Errorf("read %s: %w", path, err), file.Close())
	}
	return &revisionFile{file: file, serial: serial}, last, serial > 0, nil
}

// ReadRevision returns the content of a database's revision file. known is false if there is no
// file or no content.
func ReadRevision(database string) (last Revision, known bool, err error) {
	file, err := os.Open(database + RevisionSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return Revision{}, false, nil
	}
	if err != nil {
		return Revision{}, false, fmt.Errorf("open the revision file: %w", err)
	}
	last, serial, err := readRecords(file)
	return last, serial > 0, errors.Join(err, file.Close())
}

// WriteRevision replaces and syncs the revision file of a database that no process has open.
func WriteRevision(database string, last Revision) error {
	r, _, _, err := openRevision(database)
	if err != nil {
		return err
	}
	for range recordCount {
		err = errors.Join(err, r.write(last))
	}
	return errors.Join(err, r.close())
}

// readRecords returns the newer of the two records. serial is 0 if neither is intact.
func readRecords(file io.ReaderAt) (last Revision, serial int64, err error) {
	raw := make([]byte, recordSize*recordCount)
	n, err := file.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return last, 0, err
	}
	raw = raw[:n]
	for len(raw) >= recordSize {
		if r, s, ok := parseRecord(string(raw[:recordSize])); ok && s > serial {
			last, serial = r, s
		}
		raw = raw[recordSize:]
	}
	return last, serial, nil
}

// write replaces the older record without a sync.
func (r *revisionFile) write(last Revision) error {
	r.serial++
	r.buffer = appendRecord(r.buffer[:0], last, r.serial)
	_, err := r.file.WriteAt(r.buffer, r.serial%recordCount*recordSize)
	return err
}

// secure makes the file and its name durable.
func (r *revisionFile) secure() error { return errors.Join(r.file.Sync(), syncFolder(r.file.Name())) }

// inPlace reports whether the file still has its name.
func (r *revisionFile) inPlace() bool {
	ours, err := r.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(r.file.Name())
	return err == nil && os.SameFile(ours, named)
}

func (r *revisionFile) close() error { return errors.Join(r.file.Sync(), r.file.Close()) }

// appendRecord appends a line of recordSize bytes: five decimal numbers, padded with spaces, and
// the CRC-32 of the preceding bytes in eight hexadecimal digits.
func appendRecord(to []byte, last Revision, serial int64) []byte {
	begin := len(to)
	closed := int64(0)
	if last.Closed {
		closed = 1
	}
	for _, n := range [...]int64{serial, last.Commits, closed, last.Size, last.Modified} {
		to = append(strconv.AppendInt(to, n, 10), ' ')
	}
	for len(to)-begin < recordSize-9 {
		to = append(to, ' ')
	}
	sum := crc32.ChecksumIEEE(to[begin:])
	for shift := 28; shift >= 0; shift -= 4 {
		to = append(to, "0123456789abcdef"[sum>>shift&15])
	}
	return append(to, '\n')
}

func parseRecord(line string) (last Revision, serial int64, ok bool) {
	body, sum := line[:recordSize-9], line[recordSize-9:recordSize-1]
	want, err := strconv.ParseUint(sum, 16, 32)
	if err != nil || uint32(want) != crc32.ChecksumIEEE([]byte(body)) {
		return last, 0, false
	}
	fields := strings.Fields(body)
	var numbers [5]int64
	if len(fields) != len(numbers) {
		return last, 0, false
	}
	for i, field := range fields {
		if numbers[i], err = strconv.ParseInt(field, 10, 64); err != nil || numbers[i] < 0 {
			return last, 0, false
		}
	}
	last = Revision{Commits: numbers[1], Closed: numbers[2] == 1, Size: numbers[3], Modified: numbers[4]}
	return last, numbers[0], true
}
