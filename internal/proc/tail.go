package proc

// tail keeps the last max bytes of what is added.
type tail struct {
	max int
	buf []byte
}

func (t *tail) add(b []byte) {
	t.buf = append(t.buf, b[max(0, len(b)-t.max):]...)
	// The buffer is compacted only at twice the limit, which makes add amortized O(len(b)).
	if len(t.buf) > 2*t.max {
		t.buf = t.buf[:copy(t.buf, t.buf[len(t.buf)-t.max:])]
	}
}

func (t *tail) bytes() []byte { return t.buf[max(0, len(t.buf)-t.max):] }
