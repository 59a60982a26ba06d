package bd

import (
	"bytes"
	"strings"
	"testing"
)

// TestALongCellWidensNoColumn prints one long cell among many short ones.
func TestALongCellWidensNoColumn(t *testing.T) {
	const rows, long = 1000, 100_000
	table := [][]safeText{cells(strings.Repeat("x", long), "of the long one")}
	for range rows {
		table = append(table, cells("id", "of a short one"))
	}
	var out bytes.Buffer
	o := output{stdout: &out}
	if err := o.printRows(append(table, cells("longer", "end"))); err != nil {
		t.Fatal(err)
	}
	if most := long + rows*100; out.Len() > most {
		t.Errorf("%d bytes were printed, want at most %d", out.Len(), most)
	}
	for _, want := range []string{"xx  of the long one\nid      of a short one\n", "longer  end\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q", want)
		}
	}
}
