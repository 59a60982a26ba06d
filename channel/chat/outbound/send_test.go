package outbound

import (
	"encoding/json"
	"testing"
	"time"

	"mailroom"
	"mailroom/entry"
)

func TestFirstUnknownReturnsTheBeginningOfAnUnknownOutcome(t *testing.T) {
	began := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		entries []string // one per second. i: intended, f: failed, r: repeat recorded, o: another effect intended
		want    int      // -1: no unknown outcome
	}{
		"begun":                          {[]string{"i"}, 0},
		"failed, then begun again":       {[]string{"i", "f", "i"}, 2},
		"interrupted, then begun again":  {[]string{"i", "i"}, 0},
		"interrupted, then failed":       {[]string{"i", "i", "f"}, 0},
		"failed, then interrupted":       {[]string{"i", "f", "i", "i"}, 2},
		"recorded":                       {[]string{"i", "r"}, -1},
		"only another effect":            {[]string{"o"}, -1},
		"failed":                         {[]string{"i", "f"}, -1},
		"only another effect is unknown": {[]string{"o", "i", "f", "o"}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []mailroom.Entry
			for i, what := range c.entries {
				body, kind := any(entry.EffectEntry{Name: "send:1"}), entry.KindEffectIntended
				switch what {
				case "f":
					body, kind = entry.EffectEntry{Name: "send:1", Error: "no"}, entry.KindEffectSettled
				case "o":
					body = entry.EffectEntry{Name: "send:2"}
				case "r":
					body, kind = DeliveryNote{Effect: "send:1"}, KindRepeated
				}
				entries = append(entries, noted(t, i, kind, began.Add(time.Duration(i)*time.Second), body))
			}
			got, err := firstUnknown(entries, "send:1")
			want := time.Time{}
			if c.want >= 0 {
				want = began.Add(time.Duration(c.want) * time.Second)
			}
			if err != nil || !got.Equal(want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}

func noted(t *testing.T, i int, kind string, at time.Time, body any) mailroom.Entry {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return mailroom.Entry{Thread: "out", Seq: int64(i + 1), Kind: kind, Run: "r", Attempt: 1, At: at, Body: raw}
}
