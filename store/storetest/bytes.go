package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mailroom"
	"mailroom/entry"
	"mailroom/store"
)

// bytesCases check limits in bytes. Each row has one large field that dominates its size.
func bytesCases() []testCase {
	const large = 10_000
	const rows = 9
	filling := json.RawMessage(`"` + strings.Repeat("x", large) + `"`)
	write := func(s *handle) {
		c := &store.Changes{Entries: [][]mailroom.Entry{nil}}
		for i := range rows {
			t := thread(fmt.Sprint("t", i))
			t.Metadata = filling
			c.Threads = append(c.Threads, t)
			r := run(fmt.Sprint("r", i), "t0")
			r.Options = filling
			c.Runs = append(c.Runs, r)
			k := ticket(fmt.Sprint("k", i), r.ID, "t0")
			k.Arguments = filling
			c.Tickets = append(c.Tickets, k)
			e, err := entry.New("t0", int64(i+1), entry.KindStep, r.ID, 1, after(i),
				json.RawMessage(`{"text":`+string(filling)+`}`))
			if err != nil {
				panic(err) // the arguments are this package's own
			}
			c.Entries[0] = append(c.Entries[0], e)
		}
		c.Threads[0].LastSeq = rows
		s.write(c)
	}
	lists := map[string]func(r store.Reader, limit, bytes int) (int, error){
		"threads": func(r store.Reader, limit, bytes int) (int, error) {
			list, err := r.Threads(store.ThreadQuery{Limit: limit, Bytes: bytes})
			return len(list), err
		},
		"runs": func(r store.Reader, limit, bytes int) (int, error) {
			list, err := r.Runs(store.RunQuery{Thread: "t0", Limit: limit, Bytes: bytes})
			return len(list), err
		},
		"tickets": func(r store.Reader, limit, bytes int) (int, error) {
			list, err := r.Tickets(store.TicketQuery{Limit: limit, Bytes: bytes})
			return len(list), err
		},
		"entries": func(r store.Reader, limit, bytes int) (int, error) {
			list, err := r.Entries(store.EntryQuery{Thread: "t0", Limit: limit, Bytes: bytes})
			return len(list), err
		},
		"entries backward": func(r store.Reader, limit, bytes int) (int, error) {
			list, err := r.Entries(store.EntryQuery{Thread: "t0", Backward: true, Limit: limit, Bytes: bytes})
			return len(list), err
		},
	}
	var cases []testCase
	for name, list := range lists {
		cases = append(cases, testCase{"of " + name, func(t *testing.T, s *handle) {
			write(s)
			s.view(func(r store.Reader) {
				for _, tc := range []struct{ limit, bytes, want int }{
					{0, 1, 1}, {0, large / 2, 1}, {0, 3*large + large/2, 4}, {2, 3*large + large/2, 2}, {0, 2 * rows * large, rows},
					{0, 0, rows},
				} {
					if n := get(list(r, tc.limit, tc.bytes))(t); n != tc.want {
						t.Errorf("limit %d, %d bytes: got %d rows of about %d, want %d", tc.limit, tc.bytes, n, large, tc.want)
					}
				}
			})
		}})
	}
	slices.SortFunc(cases, func(a, b testCase) int { return strings.Compare(a.name, b.name) })
	return cases
}
