package operate

import (
	"math/bits"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom"
	"mailroom/server/internal/request"
	"mailroom/store"
)

// keyedRuns answers the queries of keysAt: runs in the order of their keys.
type keyedRuns struct {
	store.Reader
	t     *rapid.T
	runs  []*mailroom.Run
	reads int
}

func (r *keyedRuns) Runs(q store.RunQuery) ([]*mailroom.Run, error) {
	r.reads++
	if q.Limit != 1 || q.From != 0 && !q.Oldest {
		r.t.Fatalf("the query %+v reads more than one run", q)
	}
	if !q.Oldest {
		return r.runs[max(0, len(r.runs)-1):], nil
	}
	for i, run := range r.runs {
		if run.Key > q.From {
			return r.runs[i : i+1], nil
		}
	}
	return nil, nil
}

// drawRuns draws runs with gaps between their keys. Those of later keys were created at most slack
// earlier.
func drawRuns(t *rapid.T, slack time.Duration) []*mailroom.Run {
	var runs []*mailroom.Run
	key, at := int64(0), time.Unix(0, 0)
	for range rapid.IntRange(0, 60).Draw(t, "runs") {
		key += rapid.SampledFrom([]int64{1, 1, 2, 1000, 1_000_000}).Draw(t, "gap")
		at = at.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "pause")) * time.Second)
		early := time.Duration(rapid.Int64Range(0, int64(slack/time.Second)).Draw(t, "early")) * time.Second
		runs = append(runs, &mailroom.Run{Key: key, CreatedAt: at.Add(-early)})
	}
	return runs
}

func TestKeysAtAreAroundATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rd := &keyedRuns{t: t, runs: drawRuns(t, 0)}
		at := time.Unix(int64(rapid.IntRange(-10, 3000).Draw(t, "at")), 0)
		low, high, err := keysAt(rd, "", at)
		if err != nil || low < 1 || high < low {
			t.Fatalf("got %d and %d, %v", low, high, err)
		}
		newest := int64(0)
		for _, run := range rd.runs {
			newest = run.Key
			switch early := run.CreatedAt.Before(at); {
			case run.Key < low && !early, run.Key >= high && early:
				t.Errorf("around the keys from %d up to %d, run %d was created before: %v", low, high, run.Key, early)
			case run.Key >= low && run.Key < high && run.CreatedAt.Sub(at).Abs() > nearby:
				t.Errorf("run %d between the keys %d and %d was created %s after the time", run.Key, low, high,
					run.CreatedAt.Sub(at))
			}
		}
		if most := 3 + bits.Len64(uint64(newest)); rd.reads > most {
			t.Errorf("%d reads for keys up to %d, want at most %d", rd.reads, newest, most)
		}
	})
}

// TestAWindowHasEveryRunOfItsTime: keys may differ from the order of creation by createdSlack.
func TestAWindowHasEveryRunOfItsTime(t *testing.T) {
	keys := []request.FilterKey{{Name: "created", Kind: request.KindTime}}
	rapid.Check(t, func(t *rapid.T) {
		rd := &keyedRuns{t: t, runs: drawRuns(t, createdSlack)}
		from := time.Unix(int64(rapid.IntRange(0, 3000).Draw(t, "from")), 0).UTC()
		to := from.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "length")) * time.Second)
		text := rapid.SampledFrom([]string{"created:FROM..TO", "created:>=FROM", "created:<TO", "created:FROM",
			"created:>FROM created:<=TO"}).Draw(t, "q")
		f, err := request.ParseFilter(strings.NewReplacer("FROM", from.Format(time.RFC3339), "TO",
			to.Format(time.RFC3339)).Replace(text), keys)
		if err != nil {
			t.Fatal(err)
		}
		after, before := f.Span("created")
		w, err := readWindow(rd, "", after, before)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range rd.runs {
			if f.Match(request.FilterRow{Time: func(string) time.Time { return run.CreatedAt }}) && !w.contains(run.Key) {
				t.Errorf("%s: the window %+v lacks run %d of %s", f, w, run.Key, run.CreatedAt)
			}
		}
	})
}
