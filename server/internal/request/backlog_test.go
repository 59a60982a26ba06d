package request

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheSlowestReaderIsCutOffForRoom(t *testing.T) {
	for _, c := range []struct {
		name  string
		share int
		third string // token of a third reader, when two readers of ann hold 10,000 bytes each
		wait  time.Duration
	}{
		{"room", 30_000, "ann", 0},
		{"a full share", 25_000, "ann", minSlowTime},
		{"another token", 25_000, "ben", 0},
		{"full in total", 1 << 30, "ben", minSlowTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				total := 35_000
				if c.share > total {
					total = 25_000
				}
				u := NewBacklog(total, c.share)
				var cut []int
				hold := func(i int, who string) *Unread {
					g := &Unread{}
					g.Cut = func() {
						cut = append(cut, i)
						go u.Release(g) // without a successful write
					}
					if !u.Acquire(g, who, 10_000, nil) {
						t.Fatalf("Acquire of reader %d failed", i)
					}
					return g
				}
				begin := time.Now()
				hold(1, "ann")
				hold(2, "ann")
				small := &Unread{}
				if u.Acquire(small, "ann", smallFrame, nil); time.Since(begin) > 0 {
					t.Error("Acquire of a small frame waited")
				}
				u.Release(small)
				hold(3, c.third)
				if got := time.Since(begin); got != c.wait {
					t.Errorf("Acquire waited %s, want %s", got, c.wait)
				}
				if slow := len(cut); slow > 1 || slow == 1 && cut[0] != 1 || (slow == 0) != (c.wait == 0) {
					t.Errorf("cut off: %v", cut)
				}
				if got := u.Bytes(); got > int64(total) {
					t.Errorf("%d unread bytes, want at most %d", got, total)
				}
			})
		})
	}
}

func TestReleasedBytesMakeRoomForTheNextReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := NewBacklog(10_000, 10_000)
		first, second := &Unread{Cut: func() { t.Error("a fast reader was cut off") }}, &Unread{}
		if !u.Acquire(first, "ann", 20_000, nil) { // more than the total, but alone
			t.Fatal("Acquire of the first reader failed")
		}
		time.AfterFunc(minSlowTime/2, func() { u.Release(first) })
		if !u.Acquire(second, "ann", 10_000, nil) {
			t.Fatal("Acquire of the second reader failed")
		}
		gone := make(chan struct{})
		close(gone)
		if u.Acquire(&Unread{}, "ann", 10_000, gone) {
			t.Error("Acquire of a closed reader succeeded")
		}
		u.Release(second)
		if u.Bytes() != 0 || len(u.held) != 0 || len(u.entries) != 0 || u.waiting != 0 {
			t.Errorf("%d bytes, %v, %d readers and %d writers remain", u.Bytes(), u.held, len(u.entries), u.waiting)
		}
	})
}
