package sqlite

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// counted is a file in memory that counts its writes.
type counted struct {
	data   []byte
	writes int
	err    error // of the next write
}

func (m *counted) WriteAt(p []byte, at int64) error {
	m.writes++
	if err := m.err; err != nil {
		m.err = nil
		return err
	}
	if end := int(at) + len(p); end > len(m.data) {
		m.data = append(m.data, make([]byte, end-len(m.data))...)
	}
	copy(m.data[at:], p)
	return nil
}

func TestAdjoiningWritesBecomeOne(t *testing.T) {
	var f counted
	j := NewJoiner(make([]byte, 0, 1<<10))
	for i := range 10 {
		if err := j.WriteAt(&f, []byte{byte(i)}, int64(7+i)); err != nil {
			t.Fatal(err)
		}
	}
	if f.writes != 0 {
		t.Errorf("%d writes before the flush, want none", f.writes)
	}
	if err := j.Flush(&f); err != nil {
		t.Fatal(err)
	}
	if want := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; f.writes != 1 || !bytes.Equal(f.data[7:], want) {
		t.Errorf("got %d writes and %v, want 1 and %v", f.writes, f.data[7:], want)
	}
}

// Whatever the order, places and sizes of writes, the file gets what unjoined writes would leave,
// and a read that Overlaps denies needs no flush.
func TestJoinedWritesLeaveWhatSingleOnesLeave(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		var joined, plain counted
		j := NewJoiner(make([]byte, 0, 64))
		next := int64(0)
		for range 100 {
			p := make([]byte, 1+dice.IntN(100))
			for i := range p {
				p[i] = byte(dice.Uint32())
			}
			if dice.IntN(4) == 0 {
				next = dice.Int64N(300)
			}
			if err := errors.Join(j.WriteAt(&joined, p, next), plain.WriteAt(p, next)); err != nil {
				t.Fatal(err)
			}
			next += int64(len(p))
			at, n := dice.Int64N(300), dice.Int64N(50)
			if !j.Overlaps(at, n) && !bytes.Equal(part(joined.data, at, n), part(plain.data, at, n)) {
				t.Fatalf("seed %d: %d bytes at %d differ before the flush", seed, n, at)
			}
		}
		if err := j.Flush(&joined); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(joined.data, plain.data) {
			t.Fatalf("seed %d: the files differ", seed)
		}
	}
}

// part returns n bytes of a file, filled with zeros behind its end.
func part(data []byte, at, n int64) []byte {
	out := make([]byte, n)
	if at < int64(len(data)) {
		copy(out, data[at:])
	}
	return out
}

func TestAFailedFlushDropsTheBufferedWrites(t *testing.T) {
	f := counted{err: errors.New("disk full")}
	j := NewJoiner(make([]byte, 0, 64))
	if err := j.WriteAt(&f, []byte("lost"), 0); err != nil {
		t.Fatal(err)
	}
	if err := j.Flush(&f); err == nil {
		t.Error("the flush reported no error")
	}
	if err := errors.Join(j.WriteAt(&f, []byte("kept"), 8), j.Flush(&f)); err != nil {
		t.Fatal(err)
	}
	if want := "\x00\x00\x00\x00\x00\x00\x00\x00kept"; string(f.data) != want {
		t.Errorf("got %q, want %q", f.data, want)
	}
}
