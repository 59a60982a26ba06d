package doctor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom"
	"mailroom/doctor"
	"mailroom/store"
	"mailroom/store/memory"
)

// mislisted is a store whose lists of failed runs by group are wrong.
type mislisted struct {
	store.Store
	spoil func([]*mailroom.Run) []*mailroom.Run
}

type mislistedReader struct {
	store.Reader
	spoil func([]*mailroom.Run) []*mailroom.Run
}

func (s mislisted) View(ctx context.Context, f func(store.Reader) error) error {
	return s.Store.View(ctx, func(r store.Reader) error { return f(mislistedReader{r, s.spoil}) })
}

func (r mislistedReader) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	rows, err := r.Reader.Runs(q)
	if q.Group != "" {
		rows = r.spoil(rows)
	}
	return rows, err
}

func TestListsOfErrorGroupsThatDifferFromTheRowsAreFound(t *testing.T) {
	s := memory.New()
	c := &store.Changes{Threads: []*mailroom.Thread{{ID: "a", Owner: "ann", FirstSeq: 1, NextPlace: 451,
		CreatedAt: time.Unix(1, 0).UTC()}}}
	for i := range 450 { // some pages
		c.Runs = append(c.Runs, &mailroom.Run{
			ID: fmt.Sprint("r", i), Thread: "a", FirstSeq: 1, Place: int64(i + 1), MaxAttempts: 5,
			Status: mailroom.StatusFailed, Error: &mailroom.RunError{Class: mailroom.ClassPermanent}, ErrorGroup: "x",
		})
	}
	c.Runs[0].ErrorGroup = "" // of an older version
	if err := s.Update(t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, want string
		spoil      func([]*mailroom.Run) []*mailroom.Run
	}{
		{"right", "", func(rows []*mailroom.Run) []*mailroom.Run { return rows }},
		{"a run that is missing", `error group "x" has 449 failed runs, the store lists 448`, func(rows []*mailroom.Run) []*mailroom.Run {
			return slices.DeleteFunc(rows, func(r *mailroom.Run) bool { return r.ID == "r449" })
		}},
		{"a run that was retried", `run r7 is queued with error group "" and is in the list of group "x"`,
			func(rows []*mailroom.Run) []*mailroom.Run {
				for _, r := range rows {
					if r.ID == "r7" {
						r.Status, r.ErrorGroup = mailroom.StatusQueued, ""
					}
				}
				return rows
			}},
	} {
		report, err := doctor.Check(t.Context(), mislisted{s, tc.spoil})
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, f := range report.Findings {
			if f.Invariant == doctor.Count {
				found = append(found, f.Text)
			}
		}
		got := strings.Join(found, "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got findings %q, want %q", tc.name, got, tc.want)
		}
	}
}
