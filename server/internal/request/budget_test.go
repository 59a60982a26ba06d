package request

import (
	"strconv"
	"testing"

	"mailroom"
)

// TestLargeBodiesLeaveRoomForSmallOnes has many owners below their shares.
func TestLargeBodiesLeaveRoomForSmallOnes(t *testing.T) {
	b := NewBudget(64<<20, 4<<20)
	for i := range 14 {
		if _, err := b.reserve(strconv.Itoa(i), 4<<20, 4<<20); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.reserve("large", SmallBody+1, SmallBody+1); mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("one large body more: %v, want unavailable", err)
	}
	if _, err := b.reserve("small", SmallBody, SmallBody); err != nil {
		t.Errorf("a small one: %v", err)
	}
}
