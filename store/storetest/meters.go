package storetest

import (
	"errors"
	"testing"

	"mailroom/store"
)

func meterCases() []testCase {
	count := func(key string, n int64) store.Meter { return store.Meter{Key: key, Count: n} }
	return []testCase{
		{"are written, replaced and dropped by key", func(t *testing.T, s *handle) {
			full := filled[store.Meter](1)
			s.write(&store.Changes{Meters: []store.Meter{full, count("b", 1), count("a", 2)}})
			s.write(&store.Changes{Meters: []store.Meter{{Key: "b", USD: 7}}})
			wantSame(t, "meters", s.everything().Meters, []store.Meter{count("a", 2), {Key: "b", USD: 7}, full})
			s.write(&store.Changes{DropMeters: []string{"b", "none"}})
			wantSame(t, "after a drop", s.everything().Meters, []store.Meter{count("a", 2), full})
		}},
		{"are listed by keys and by prefix", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Meters: []store.Meter{
				count("rate:b", 1), count("rate:a", 2), count("rate:ab", 3), count("rate;", 4), count("budget:a", 5),
			}})
			for _, c := range []struct {
				what string
				q    store.MeterQuery
				want []store.Meter
			}{
				{"keys", store.MeterQuery{Keys: []string{"rate:b", "none", "budget:a"}},
					[]store.Meter{count("budget:a", 5), count("rate:b", 1)}},
				{"a prefix", store.MeterQuery{Prefix: "rate:"},
					[]store.Meter{count("rate:a", 2), count("rate:ab", 3), count("rate:b", 1)}},
				{"a page", store.MeterQuery{Prefix: "rate:", Limit: 2},
					[]store.Meter{count("rate:a", 2), count("rate:ab", 3)}},
				{"the next page", store.MeterQuery{Prefix: "rate:", After: "rate:ab", Limit: 2},
					[]store.Meter{count("rate:b", 1)}},
				{"another prefix", store.MeterQuery{Prefix: "x"}, nil},
			} {
				s.view(func(r store.Reader) {
					wantSame(t, c.what, get(r.Count(store.CountQuery{Meters: &c.q}))(t).Meters, c.want)
				})
			}
		}},
		{"are loaded in the order asked, also those without a row", func(t *testing.T, s *handle) {
			s.write(&store.Changes{Meters: []store.Meter{count("a", 1), count("b", 2)}})
			s.update(func(tx store.Tx) {
				l := get(tx.Load(store.Need{Meters: []string{"b", "none", "a"}}))(t)
				wantSame(t, "meters", l.Meters, []store.Meter{count("b", 2), {Key: "none"}, count("a", 1)})
				must(t, tx.Write(&store.Changes{Meters: []store.Meter{count("none", 3), count("a", 4)}}))
				l = get(tx.Load(store.Need{Meters: []string{"a", "none"}}))(t)
				wantSame(t, "after a write", l.Meters, []store.Meter{count("a", 4), count("none", 3)})
				must(t, tx.Write(&store.Changes{Meters: []store.Meter{count("none", 5)}, DropMeters: []string{"a"}}))
			})
			wantSame(t, "meters", s.everything().Meters, []store.Meter{count("b", 2), count("none", 5)})
		}},
		{"of a transaction that fails are as before", func(t *testing.T, s *handle) {
			refused := errors.New("refused")
			s.write(&store.Changes{Meters: []store.Meter{count("a", 1)}})
			err := s.Update(t.Context(), func(tx store.Tx) error {
				must(t, tx.Write(&store.Changes{Meters: []store.Meter{count("a", 2)}, DropMeters: []string{"a"}}))
				return refused
			})
			if err != refused {
				t.Errorf("got error %v, want %v", err, refused)
			}
			wantSame(t, "meters", s.everything().Meters, []store.Meter{count("a", 1)})
		}},
	}
}
