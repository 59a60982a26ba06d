package format

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
)

// again checks that a body that can be parsed is packed to a body with the same fields.
func again[T any](t *testing.T, body []byte, appendRow func([]byte, *T) []byte, parse func(string, *T) error) {
	t.Helper()
	var first, second T
	if parse(string(body), &first) != nil {
		return
	}
	if err := parse(string(appendRow(nil, &first)), &second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("packed again (-first +second):\n%s", diff)
	}
}

func FuzzParseOthers(f *testing.F) {
	f.Add(AppendTicket(nil, &mailroom.Ticket{ID: "k", Holds: true, Newer: "more"}))
	f.Add(AppendWorker(nil, &store.Worker{ID: "w", PID: 7, Agents: []string{"a", ""}, Uncharged: true, Tables: 3,
		Newer: "more"}))
	f.Add(AppendToken(nil, &auth.Token{Name: "ann", Quotas: auth.Quotas{auth.QuotaBytes: 1}, Newer: "more"}))
	f.Add(AppendReservation(nil, &store.Reservation{ID: "v", Fence: 9, Shared: true, Newer: "more"}))
	f.Fuzz(func(t *testing.T, body []byte) {
		again(t, body, AppendTicket, ParseTicket)
		again(t, body, AppendWorker, ParseWorker)
		again(t, body, AppendToken, ParseToken)
		again(t, body, AppendReservation, ParseReservation)
	})
}
