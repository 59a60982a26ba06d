package operate

import (
	"slices"
	"strings"
	"testing"

	"mailroom/store"
)

// A read ends at its bytes too, so a few large rows may fill it. They are not held until all of the range is read.
func TestARangeOfIDsThatOneReadDoesNotReturnWholeIsNotHeld(t *testing.T) {
	rows := []string{"prefix-1", "prefix-2", "prefix-3", "prefix-4"}
	for fit, want := range map[int]bool{2: false, 3: false, 4: true, 10: true} { // rows that fit the bytes of a read
		reads := 0
		r := &idRange[string]{"prefix", strings.Clone, func(_ store.Reader, _, after string, limit int) ([]string, error) {
			reads++
			behind := rows[slices.IndexFunc(append(rows, "~"), func(id string) bool { return id > after }):]
			return slices.Clone(behind[:min(len(behind), limit, fit)]), nil
		}}
		found, ok, err := r.rows(nil, func(id string) int64 { return int64(id[len(id)-1]) }, 0, 3)
		if ok != want || err != nil || reads != 2 {
			t.Errorf("%d rows fit: read whole %v, error %v, in %d reads", fit, ok, err, reads)
		}
		if wantFound := []string{"prefix-4", "prefix-3", "prefix-2"}; ok && !slices.Equal(found, wantFound) {
			t.Errorf("%d rows fit: found %v, want %v", fit, found, wantFound)
		}
	}
}
