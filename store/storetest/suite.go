// Package storetest has the conformance suite for every [store.Store]: one subtest per
// obligation in the interface's comments.
package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
	"mailroom/auth"
	"mailroom/store"
)

// Run checks an implementation. open returns a new, empty store, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"Update", updateCases()},
		{"View", viewCases()},
		{"Load", loadCases()},
		{"Due", dueCases()},
		{"Write", writeCases()},
		{"RoundTrip", roundTripCases()},
		{"Copies", copyCases()},
		{"Threads", threadCases()},
		{"Bytes", bytesCases()},
		{"Runs", runCases()},
		{"Counts", countCases()},
		{"Entries", entryCases()},
		{"Positions", positionCases()},
		{"Others", otherCases()},
		{"Tickets", ticketCases()},
		{"Definitions", definitionCases()},
		{"Pauses", pauseCases()},
		{"Summaries", summaryCases()},
		{"Search", searchCases()},
		{"Tokens", tokenCases()},
		{"Cursors", cursorCases()},
		{"Meters", meterCases()},
		{"Reservations", reservationCases()},
		{"Blobs", append(blobCases(), pieceCases()...)},
		{"Drop", dropCases()},
		{"DropEntries", purgeCases()},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					c.test(t, opened(t, open(t)))
				})
			}
		})
	}
}

// Reopen checks that a store keeps everything over a Close. open opens the store in the folder dir,
// and creates it at the first call.
func Reopen(t *testing.T, open func(t *testing.T, dir string) store.Store) {
	dir := t.TempDir()
	before := opened(t, open(t, dir))
	before.write(fullChanges())
	want := before.everything()
	before.close()

	after := opened(t, open(t, dir))
	if diff := cmp.Diff(want, after.everything(), same()); diff != "" {
		t.Errorf("after reopening (-want +got):\n%s", diff)
	}
	next := thread("after")
	after.write(&store.Changes{Threads: []*mailroom.Thread{next}})
	for _, old := range want.Threads {
		if next.Key <= old.Key {
			t.Errorf("key after reopening: got %d, want more than %d", next.Key, old.Key)
		}
	}
}

type testCase struct {
	name string
	test func(t *testing.T, s *handle)
}

// handle is a store in a test. Its methods end the test on an error.
type handle struct {
	store.Store
	t      *testing.T
	closed bool
}

func opened(t *testing.T, s store.Store) *handle {
	box := &handle{Store: s, t: t}
	t.Cleanup(func() {
		if !box.closed {
			box.close()
		}
	})
	return box
}

func (s *handle) close() {
	s.t.Helper()
	s.closed = true
	if err := s.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

// update runs f in a transaction that must commit.
func (s *handle) update(f func(tx store.Tx)) {
	s.t.Helper()
	err := s.Update(s.t.Context(), func(tx store.Tx) error {
		f(tx)
		return nil
	})
	if err != nil {
		s.t.Fatalf("update: %v", err)
	}
}

func (s *handle) write(changes ...*store.Changes) {
	s.t.Helper()
	for _, c := range changes {
		s.update(func(tx store.Tx) { must(s.t, tx.Write(c)) })
	}
}

func (s *handle) view(f func(r store.Reader)) {
	s.t.Helper()
	err := s.View(s.t.Context(), func(r store.Reader) error {
		f(r)
		return nil
	})
	if err != nil {
		s.t.Fatalf("view: %v", err)
	}
}

// contents has everything that a Reader returns.
type contents struct {
	Threads  []*mailroom.Thread
	Runs     []*mailroom.Run
	Entries  map[string][]mailroom.Entry
	Partials map[string][]store.Partial
	Workers  []*store.Worker
	Tickets  []*mailroom.Ticket
	Tokens   []*auth.Token
	Kept     []store.Definition
	Cursors  []store.Cursor
	Reserved []store.Reservation
	Pauses   []store.Pause
	Ended    []store.Summary
	Meters   []store.Meter
	Blobs    map[string]store.BlobQuery // with the sizes of the pieces
	Agents   []string
}

func (s *handle) everything() contents {
	s.t.Helper()
	var all contents
	s.view(func(r store.Reader) { all = read(s.t, r) })
	return all
}

func read(t *testing.T, r store.Reader) contents {
	t.Helper()
	all := contents{
		Threads:  get(r.Threads(store.ThreadQuery{}))(t),
		Runs:     get(r.Runs(store.RunQuery{}))(t),
		Entries:  make(map[string][]mailroom.Entry),
		Blobs:    make(map[string]store.BlobQuery),
		Partials: make(map[string][]store.Partial),
		Workers:  get(r.Workers())(t),
		Tickets:  get(r.Tickets(store.TicketQuery{}))(t),
		Tokens:   get(r.Tokens())(t),
		Kept:     get(r.Agents())(t).Definitions,
		Pauses:   get(r.Agents())(t).Pauses,
		Cursors:  get(r.Cursors(store.CursorQuery{}))(t),
		Reserved: get(r.Reservations(store.ReservationQuery{}))(t),
		Agents:   dueAgents(t, r),
		Ended:    get(r.Count(store.CountQuery{Summaries: &store.SummaryQuery{Step: store.StepMinute}}))(t).Summaries,
		Meters:   get(r.Count(store.CountQuery{Meters: &store.MeterQuery{}}))(t).Meters,
	}
	all.Threads = append(all.Threads, get(r.Threads(store.ThreadQuery{Deleted: true}))(t)...)
	for _, row := range all.Threads {
		all.Entries[row.ID] = get(r.Entries(store.EntryQuery{Thread: row.ID}))(t)
		found := blobsOf(t, r, row.ID, store.BlobQuery{})
		found.Uploads = blobsOf(t, r, row.ID, store.BlobQuery{Sizes: true}).Uploads
		if len(found.Found)+len(found.Uploads) > 0 {
			all.Blobs[row.ID] = found
		}
	}
	for _, run := range all.Runs {
		all.Partials[run.ID] = get(r.Partials(run.ID))(t)
	}
	return all
}

// dueAgents returns the agents that have threads with a due time.
func dueAgents(t *testing.T, r store.Reader) []string {
	t.Helper()
	var names []string
	for _, row := range get(r.Threads(store.ThreadQuery{OnePerAgent: true}))(t) {
		if row.Due.Agent != "" {
			names = append(names, row.Due.Agent)
		}
	}
	return names
}

// get unwraps a call that must succeed: get(r.Runs(q))(t) is the list.
func get[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, want mailroom.Code) {
	t.Helper()
	if got := mailroom.CodeOf(err); err == nil || got != want {
		t.Errorf("got error %v of code %q, want code %q", err, got, want)
	}
}

func wantSame(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, same()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// same compares rows: nil equals empty, and entries are compared by their bytes and decoded fields.
func same() cmp.Options {
	return cmp.Options{
		cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(mailroom.Run{}, "Stored"), // see counts.go
		cmp.Transformer("entry", func(e mailroom.Entry) entryView {
			return entryView{string(e.Raw), e.Thread, e.Seq, e.Kind, e.Run, e.Attempt, e.At, string(e.Body)}
		}),
	}
}

type entryView struct {
	JSON, Thread string
	Seq          int64
	Kind, Run    string
	Attempt      int
	At           time.Time
	Body         string
}

func threadIDs(list []*mailroom.Thread) []string {
	var ids []string
	for _, t := range list {
		ids = append(ids, t.ID)
	}
	return ids
}

func runIDs(list []*mailroom.Run) []string {
	var ids []string
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

func ticketIDs(list []*mailroom.Ticket) []string {
	var ids []string
	for _, k := range list {
		ids = append(ids, k.ID)
	}
	return ids
}

func tokenNames(list []*auth.Token) []string {
	var names []string
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names
}

func seqs(list []mailroom.Entry) []int64 {
	var found []int64
	for _, e := range list {
		found = append(found, e.Seq)
	}
	return found
}
