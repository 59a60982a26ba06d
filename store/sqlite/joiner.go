package sqlite

// Joiner joins writes to adjoining places of a file. SQLite writes each page of a commit to its log as
// two writes, and syncs the log before other connections may read the commit, so the joined writes
// reach the file in time. The zero value joins nothing.
//
// One goroutine at a time uses it. It is exported for the tests that cut the power, whose disk joins
// writes with the same code.
type Joiner struct {
	at  int64  // where data begins in the file
	buf []byte // data that the file does not have yet
}

// NewJoiner returns a Joiner that holds data in buf, up to its capacity.
func NewJoiner(buf []byte) Joiner { return Joiner{buf: buf[:0]} }

// joinedFile is the file that gets the data.
type joinedFile interface {
	WriteAt(p []byte, at int64) error
}

// WriteAt keeps p in memory as the data for the offset at of f. If p does not continue the data that the Joiner
// already keeps, or does not fit, WriteAt first writes that data.
func (j *Joiner) WriteAt(f joinedFile, p []byte, at int64) error {
	if len(j.buf) > 0 && (at != j.at+int64(len(j.buf)) || len(p) > cap(j.buf)-len(j.buf)) {
		if err := j.Flush(f); err != nil {
			return err
		}
	}
	if len(p) > cap(j.buf) {
		return f.WriteAt(p, at)
	}
	if len(j.buf) == 0 {
		j.at = at
	}
	j.buf = append(j.buf, p...)
	return nil
}

// Flush writes what the Joiner holds. After an error it holds nothing: SQLite fails the commit, and
// writes its pages again with the next one.
func (j *Joiner) Flush(f joinedFile) error {
	if len(j.buf) == 0 {
		return nil
	}
	data := j.buf
	j.buf = j.buf[:0]
	return f.WriteAt(data, j.at)
}

// Overlaps reports whether the Joiner holds data of the n bytes at a place of the file.
func (j *Joiner) Overlaps(at, n int64) bool {
	return len(j.buf) > 0 && at < j.at+int64(len(j.buf)) && at+n > j.at
}
