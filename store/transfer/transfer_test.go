package transfer_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
	"mailroom/store/transfer"
)

// at returns a time between two microseconds and of another zone. Stores keep it in UTC and microseconds.
func at(seconds int) time.Time {
	return time.Date(2026, 1, 2, 8, 34, seconds, 5678, time.FixedZone("elsewhere", 5*3600+1800))
}

// rows builds the contents of a store, with more rows of each kind than a page or a batch has.
type rows struct {
	t *testing.T
	s store.Store
}

func (r rows) write(c *store.Changes) {
	r.t.Helper()
	if err := r.s.Update(r.t.Context(), func(tx store.Tx) error { return tx.Write(c) }); err != nil {
		r.t.Fatal(err)
	}
}

// grow appends entries to a thread's row, each with a text of this size.
func (r rows) grow(t *mailroom.Thread, n, size int) []mailroom.Entry {
	r.t.Helper()
	var list []mailroom.Entry
	for range n {
		t.LastSeq++
		e, err := entry.New(t.ID, t.LastSeq, entry.KindStep, "r", 1, at(1),
			entry.StepNamed{Name: strings.Repeat("ü", size/2)})
		if err != nil {
			r.t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func newThread(id string) *mailroom.Thread {
	return &mailroom.Thread{ID: id, Owner: "ann", Agent: "a", FirstSeq: 1, NextPlace: 1, Revision: 7, CreatedAt: at(0),
		UpdatedAt: at(1)}
}

func newRun(id, thread string, status mailroom.Status) *mailroom.Run {
	return &mailroom.Run{ID: id, Thread: thread, Agent: "a", Status: status, Priority: 3, Place: 4, CreatedAt: at(2),
		FirstSeq: 1}
}

func (r rows) key(thread, key string, d store.Disposition) store.SubmitKey {
	return store.SubmitKey{Thread: thread, Key: key, Digest: "digest of " + key,
		Result: store.Submitted{Thread: thread, Run: "r", Disposition: d, Superseded: []string{"x"}}}
}

// many is a number of threads that takes several pages and batches.
const many = 520

// fill writes rows of every kind, with this number of small threads.
func fill(t *testing.T, s store.Store, small int) {
	t.Helper()
	r := rows{t, s}
	long, busy, gone := newThread("long"), newThread("busy"), newThread("gone")
	for i := range 40 { // several transactions, whose keys are joined at different entries
		c := &store.Changes{Threads: []*mailroom.Thread{long}, Entries: [][]mailroom.Entry{r.grow(long, 5, 6<<10)}}
		for j := range 14 {
			c.Keys = append(c.Keys, r.key("long", fmt.Sprint("k", i, "-", j), []store.Disposition{store.DispositionQueued, store.DispositionSteered}[j%2]))
		}
		first := newRun(fmt.Sprint("long-", i), "long", mailroom.StatusCompleted)
		first.FirstSeq, first.SubmitKey = long.LastSeq-int64(i%7), fmt.Sprint("k", i, "-0") // some begin before others with a smaller key
		c.Runs = []*mailroom.Run{first}
		r.write(c)
	}
	busy.Newer, busy.State = "\x02\x03new", map[string]json.RawMessage{"a": json.RawMessage(`{ "n" : 1 }`), "b": nil}
	busy.Due, busy.HeldAt, busy.Current = mailroom.Due{At: at(9), Agent: "a", Priority: 2, LastAttempt: true}, at(50), "now"
	now, waits, later := newRun("now", "busy", mailroom.StatusRunning), newRun("waits", "busy", mailroom.StatusWaiting), newRun("later", "busy", mailroom.StatusQueued)
	for _, run := range []*mailroom.Run{now, waits, later} {
		run.FirstSeq = 3
	}
	now.Flushed, now.Newer, now.Asked, waits.Asked = true, "\x05newer", 1, 2
	now.Steers = []mailroom.Steer{{Input: mailroom.Input{Message: "m", Seq: 2}, Own: &mailroom.Run{ID: "own", Newer: "\x07"}}}
	later.Scheduled, later.NotBefore = true, at(50)
	now.Progress, now.Usage = 1.0/3, mailroom.Usage{InputTokens: 1 << 60, CostUSD: 0.1 + 0.2}
	expires, zero := at(30), time.Time{}
	r.write(&store.Changes{
		Threads: []*mailroom.Thread{busy, gone}, Runs: []*mailroom.Run{now, waits, later}, Entries: [][]mailroom.Entry{r.grow(busy, 3, 100), r.grow(gone, 4, 100)},
		Partials: []store.Partial{{Thread: "busy", Run: "now", Attempt: 1, Message: "m", Text: "one "}, {Thread: "busy", Run: "now", Attempt: 1, Message: "m", Offset: 4, Text: "two"}},
		Tickets: []*mailroom.Ticket{
			{ID: "z", Thread: "busy", Run: "now", Kind: mailroom.TicketApproval, State: mailroom.TicketDecided, Arguments: json.RawMessage(`{"a": 1}`), DecidedAt: &expires},
			{ID: "a", Thread: "busy", Run: "waits", Kind: mailroom.TicketInput, State: mailroom.TicketOpen, Prompt: "?", ExpiresAt: &expires, Holds: true},
			{ID: "b", Thread: "busy", Run: "waits", Kind: mailroom.TicketInput, State: mailroom.TicketOpen, ExpiresAt: &zero, DecidedAt: &zero, Arguments: json.RawMessage{}},
		},
		Tokens: []*auth.Token{
			{Name: "zoe", Sum: "s", Scopes: []auth.Permission{auth.PermissionWork}, Agents: []string{"a"}, CreatedAt: at(1)},
			{Name: "ann", Sum: "t", Scopes: auth.Permissions(), Quotas: auth.Quotas{auth.QuotaBytes: 9}, Used: auth.Use{Threads: 2, Bytes: 3, Notifications: 4}, RevokedAt: at(4)},
			{Name: "bob", Sum: "u", Scopes: []auth.Permission{auth.PermissionRead}, Agents: []string{}, Quotas: auth.Quotas{}, Terms: auth.Terms{ExpiresAt: at(99)}},
			{Name: "bob~1", Sum: "v", Scopes: []auth.Permission{}, Terms: auth.Terms{Kind: auth.KindSession, For: "bob", Scopes: auth.Permissions(), Threads: []string{}, ExpiresAt: at(98), Client: "Chromium"}},
			{Name: "bob~2", Sum: "w", Terms: auth.Terms{Kind: auth.KindLink, For: "bob", Scopes: []auth.Permission{}, ExpiresAt: at(97)}},
			{Name: "bob~3", Sum: "x", Terms: auth.Terms{Kind: auth.KindLimited, For: "bob", Threads: []string{"long"}, Run: "long-1", ExpiresAt: at(96)}},
		},
		Use: []store.UseChange{{Token: "zoe", Add: auth.Use{Workers: 1}}},
		Workers: []*store.Worker{
			{ID: "w", Host: "h", PID: 4, Node: "n", Agents: []string{"a"}, LeaseUntil: at(3), Duties: []string{"d"}, Version: "1"}, {ID: "v", Owner: "zoe", Dead: true, Uncharged: true},
		},
		Definitions: []store.Definition{{Agent: "a", Version: "2", Body: json.RawMessage(`{"x":1}`)}, {Agent: "a", Version: "1"}},
		Pauses:      []store.Pause{{Agent: "a", By: "ann", Reason: "costs", At: time.UnixMicro(7).UTC()}},
		Summaries:   endWithLabel(at(3)),
		Meters:      []store.Meter{{Key: "rate:a", At: at(8)}, {Key: "running:b", Count: 3, RaisedUSD: 4}},
	})
	gone.DeletedAt, gone.FirstSeq = at(5), 3
	r.write(&store.Changes{
		Threads: []*mailroom.Thread{gone}, Runs: []*mailroom.Run{newRun("ended", "gone", mailroom.StatusCancelled)}, Keys: []store.SubmitKey{r.key("gone", "k", store.DispositionQueued)},
		DropEntries: []store.Prefix{{Thread: "gone", Seq: 3}},
	})
	c := &store.Changes{}
	for i := range small {
		small := newThread(fmt.Sprint("t", i))
		c.Threads, c.Entries = append(c.Threads, small), append(c.Entries, r.grow(small, 2, 10))
		c.Runs = append(c.Runs, newRun(fmt.Sprint("r", i), small.ID, mailroom.StatusFailed))
		c.Cursors = append(c.Cursors, store.Cursor{Channel: "c", Identity: fmt.Sprint(i), Position: json.RawMessage("1"), MovedAt: at(i)})
	}
	project := newThread("project:p")
	c.Threads = append(c.Threads, project)
	c.Reservations = []store.Reservation{{ID: "v", Thread: project.ID, Name: "src/**", Holder: "x", Owner: "ann", Shared: true, Fence: 4, TakenAt: at(1), ExpiresAt: at(9)}}
	blobs := newThread("blobs")
	blobs.BlobBytes = map[string]int64{"a": 1}
	c.Threads = append(c.Threads, blobs)
	for i := range 501 {
		name := fmt.Sprintf("b%03d", i)
		c.Blobs = append(c.Blobs, store.Blob{Thread: blobs.ID, Agent: "a", Name: name, Upload: "1", WrittenAt: at(i)})
	}
	for i := range 5 {
		body := bytes.Repeat([]byte{byte(i)}, store.BlobPieceBytes)
		c.BlobPieces = append(c.BlobPieces, store.BlobPiece{Thread: blobs.ID, Upload: "1", Number: i, Body: body})
	}
	c.BlobPieces = append(c.BlobPieces, store.BlobPiece{Thread: blobs.ID, Upload: "2", Body: []byte("x")})
	r.write(c)
	r.write(&store.Changes{DropThreads: []string{"t3", "t4"}}) // gaps in the keys
}

// contents has all rows of a store in the order of its lists, without keys.
type contents struct {
	Threads      []*mailroom.Thread
	Runs         []*mailroom.Run
	Entries      map[string][]string
	Keys         map[string][]store.SubmitKey
	Partials     map[string][]store.Partial
	Tickets      []*mailroom.Ticket
	Tokens       []*auth.Token
	Workers      []*store.Worker
	Definitions  []store.Definition
	Pauses       []store.Pause
	Cursors      []store.Cursor
	Reservations []store.Reservation
	Blobs        map[string][]any // rows, and pieces by upload and number
	Counts       store.Counts
	Summaries    []store.Summary
	Meters       []store.Meter
}

func read(t *testing.T, v transfer.Viewer) *contents {
	t.Helper()
	c := &contents{Blobs: map[string][]any{}, Entries: map[string][]string{}, Keys: map[string][]store.SubmitKey{},
		Partials: map[string][]store.Partial{}}
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	note(v.View(t.Context(), func(r store.Reader) (err error) {
		c.Threads, err = r.Threads(store.ThreadQuery{})
		note(err)
		deleted, err := r.Threads(store.ThreadQuery{Deleted: true})
		c.Threads = append(c.Threads, deleted...)
		note(err)
		for _, row := range c.Threads {
			row.Key = 0
			log, err := r.Entries(store.EntryQuery{Thread: row.ID})
			note(err)
			for _, e := range log {
				c.Entries[row.ID] = append(c.Entries[row.ID], string(e.Raw))
			}
			c.Keys[row.ID], err = r.Keys(store.KeyQuery{Thread: row.ID, All: true})
			note(err)
			c.Blobs[row.ID], err = readBlobs(r, row.ID)
			note(err)
		}
		c.Runs, err = r.Runs(store.RunQuery{})
		note(err)
		var ids []string
		for _, run := range c.Runs {
			run.Key, ids = 0, append(ids, run.ID)
		}
		pieces, err := r.Partials(ids...)
		note(err)
		for _, p := range pieces {
			c.Partials[p.Run] = append(c.Partials[p.Run], p)
		}
		c.Tickets, err = r.Tickets(store.TicketQuery{})
		note(err)
		for _, k := range c.Tickets {
			k.Key = 0
		}
		c.Tokens, err = r.Tokens()
		note(err)
		slices.SortFunc(c.Tokens, func(a, b *auth.Token) int { return cmp.Compare(a.Key, b.Key) })
		for _, k := range c.Tokens {
			k.Key = 0
		}
		c.Workers, err = r.Workers()
		note(err)
		rows, err := r.Agents()
		c.Definitions, c.Pauses = rows.Definitions, rows.Pauses
		note(err)
		c.Cursors, err = r.Cursors(store.CursorQuery{})
		note(err)
		c.Reservations, err = r.Reservations(store.ReservationQuery{})
		note(err)
		for _, step := range store.AllSteps() {
			rows, err := r.Count(store.CountQuery{Summaries: &store.SummaryQuery{Step: step}})
			note(err)
			c.Summaries = append(c.Summaries, rows.Summaries...)
		}
		meters, err := r.Count(store.CountQuery{Meters: &store.MeterQuery{}})
		c.Meters = meters.Meters
		note(err)
		c.Counts, err = r.Count(store.CountQuery{})
		return err
	}))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return c
}

// readBlobs returns the rows of the blobs of a thread, and their pieces.
func readBlobs(r store.Reader, thread string) (all []any, err error) {
	rows, sizes := store.BlobQuery{}, store.BlobQuery{Sizes: true}
	for _, q := range []*store.BlobQuery{&rows, &sizes} {
		if _, err := r.Keys(store.KeyQuery{Thread: thread, Blobs: q}); err != nil {
			return nil, err
		}
	}
	for _, b := range rows.Found {
		all = append(all, b)
	}
	for _, u := range sizes.Uploads {
		for n := range u.Pieces {
			q := store.BlobQuery{Piece: &store.BlobPiece{Upload: u.Upload, Number: n}}
			if _, err := r.Keys(store.KeyQuery{Thread: thread, Blobs: &q}); err != nil {
				return nil, err
			}
			all = append(all, u, sha256.Sum256(q.Body))
		}
	}
	return all, nil
}

// wantSame compares each kind of rows. cmp calls functions by reflection for each field of each row, so it
// compares only the kinds that are not deeply equal.
func wantSame(t *testing.T, what string, want, got *contents) {
	t.Helper()
	a, b := reflect.ValueOf(want).Elem(), reflect.ValueOf(got).Elem()
	for i := range a.NumField() {
		x, y := a.Field(i).Interface(), b.Field(i).Interface()
		if reflect.DeepEqual(x, y) {
			continue
		}
		if diff := gocmp.Diff(x, y, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", what, a.Type().Field(i).Name, diff)
		}
	}
}

func copyAll(t *testing.T, from transfer.Viewer, to store.Store) {
	t.Helper()
	reports := 0
	_, err := transfer.Copy(t.Context(), from, to, func(transfer.Rows) { reports++ })
	if err != nil || reports < 3 {
		t.Fatalf("copy: %v after %d reports", err, reports)
	}
}

// openKind returns an empty store in a kind of database.
func openKind(t *testing.T, kind string) (s store.Store) {
	t.Helper()
	var err error
	if kind == "SQLite" {
		s, err = sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "mail.db"), sqlite.Options{})
	} else {
		cluster := pgtest.Shared(t)
		o := postgres.Options{
			URL: cluster.URL(), Schema: cluster.Schema(t), AllowUnsafe: true,
			// On a busy machine a transaction is silent for seconds.
			IdleInTransaction: 5 * time.Minute, LockTimeout: 5 * time.Minute, ConnectTimeout: time.Minute,
		}
		s, err = postgres.Open(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestACopyHasEveryRowOfItsSource copies from each kind of database to each kind.
func TestACopyHasEveryRowOfItsSource(t *testing.T) {
	for _, way := range [][2]string{{"SQLite", "PostgreSQL"}, {"PostgreSQL", "SQLite"}, {"SQLite", "SQLite"},
		{"PostgreSQL", "PostgreSQL"}} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			from, to := openKind(t, way[0]), openKind(t, way[1])
			fill(t, from, many)
			want := read(t, from)
			copyAll(t, from, to)
			wantSame(t, "rows", want, read(t, to))
			wantSame(t, "rows of the source", want, read(t, from))
			threads, err := transfer.Compare(t.Context(), from, to, func(int) {})
			if err != nil || threads != len(want.Threads) {
				t.Errorf("compared %d threads, %v, want %d", threads, err, len(want.Threads))
			}
			// A purge finds the runs that begin before others, and the keys that were joined.
			for _, s := range []store.Store{from, to} {
				if err := s.Update(t.Context(), func(tx store.Tx) error {
					return tx.Write(&store.Changes{DropEntries: []store.Prefix{{Thread: "long", Seq: 98}}})
				}); err != nil {
					t.Fatal(err)
				}
			}
			wantSame(t, "rows behind a purge", read(t, from), read(t, to))
			if kept := read(t, to); len(kept.Runs) >= len(want.Runs) || len(kept.Keys["long"]) >= len(want.Keys["long"]) {
				t.Error("the purge dropped no runs or no keys")
			}
		})
	}
}

// TestOldTermsAreCopied copies tokens whose ends an older version kept in nanoseconds and in other zones.
func TestOldTermsAreCopied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	from, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := from.Close(); err != nil {
			t.Error(err)
		}
	})
	rows{t, from}.write(&store.Changes{Tokens: []*auth.Token{{Name: "ann"}, {Name: "bob"}, {Name: "eve"}}})
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for name, terms := range map[string]string{
		"ann": `{"kind":"session","for":"bob","scopes":["read"],"expires_at":"2026-12-27T21:42:47.994875046Z"}`,
		"bob": `{"expires_at":"2026-12-27T21:42:47.9948759-11:30"}`,
		"eve": `{"threads":[],"expires_at":"2026-12-27T21:42:47.000000001+05:30"}`,
	} {
		if _, err := raw.ExecContext(t.Context(), "UPDATE token SET terms = ? WHERE name = ?", terms, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"SQLite", "PostgreSQL"} {
		to := openKind(t, kind)
		if _, err := transfer.Copy(t.Context(), from, to, func(transfer.Rows) {}); err != nil {
			t.Fatal(err)
		}
		wantSame(t, "rows in "+kind, read(t, from), read(t, to))
		if _, err := transfer.Compare(t.Context(), from, to, func(int) {}); err != nil {
			t.Errorf("compare with the copy in %s: %v", kind, err)
		}
	}
}

// repeating is a store whose Update discards the first call of each function, as after a conflict.
type repeating struct{ store.Store }

func (s repeating) Update(ctx context.Context, f func(store.Tx) error) error {
	conflict := errors.New("conflict")
	if err := s.Store.Update(ctx, func(tx store.Tx) error { return cmp.Or(f(tx), conflict) }); err != conflict {
		return err
	}
	return s.Store.Update(ctx, f)
}

func TestATransactionOfACopyMayRunAgain(t *testing.T) {
	from, to := memory.New(), memory.New()
	fill(t, from, many)
	copyAll(t, from, repeating{to})
	wantSame(t, "rows", read(t, from), read(t, to))
}

// difference is a change of one row of a copy, and what Compare says about it.
type difference struct {
	name   string
	change func(tx store.Tx) (*store.Changes, error)
	want   transfer.DifferenceError
}

func differences() []difference {
	fixed := func(c store.Changes) func(store.Tx) (*store.Changes, error) {
		return func(store.Tx) (*store.Changes, error) { return &c, nil }
	}
	thread := func(id string, change func(t *mailroom.Thread, c *store.Changes)) func(store.Tx) (*store.Changes, error) {
		return func(tx store.Tx) (*store.Changes, error) {
			l, err := tx.Load(store.Need{Threads: []string{id}})
			if err != nil {
				return nil, err
			}
			c := &store.Changes{Threads: l.Threads}
			change(l.Threads[0], c)
			return c, nil
		}
	}
	lose := func(run string) func(store.Tx) (*store.Changes, error) {
		return func(tx store.Tx) (*store.Changes, error) {
			found, err := tx.Runs(store.RunQuery{IDs: []string{run}})
			if err != nil {
				return nil, err
			}
			found[0].Lost++
			return &store.Changes{Runs: found}, nil
		}
	}
	text := store.Partial{Thread: "busy", Run: "now", Attempt: 1, Message: "m", Offset: 4, Text: "TWO"}
	return []difference{
		{"a field of a thread", thread("busy", func(t *mailroom.Thread, _ *store.Changes) { t.Metadata = json.RawMessage("{}") }),
			transfer.DifferenceError{Thread: "busy", What: "the fields"}},
		{"an entry that is missing", fixed(store.Changes{DropEntries: []store.Prefix{{Thread: "busy", Seq: 2}}}),
			transfer.DifferenceError{Thread: "busy", What: "the entries"}},
		{"a run", lose("long-9"), transfer.DifferenceError{Thread: "long", What: "the runs"}},
		{"a run of a deleted thread", lose("ended"), transfer.DifferenceError{Thread: "gone", What: "the runs"}},
		{"flushed text", fixed(store.Changes{Partials: []store.Partial{text}}), transfer.DifferenceError{Thread: "busy", What: "the runs"}},
		{"a ticket", func(tx store.Tx) (*store.Changes, error) {
			k, err := tx.Tickets(store.TicketQuery{IDs: []string{"a"}})
			if err == nil {
				k[0].Holds = false
			}
			return &store.Changes{Tickets: k}, err
		}, transfer.DifferenceError{Thread: "busy", What: "the tickets"}},
		{"a key", thread("t60", func(_ *mailroom.Thread, c *store.Changes) { c.Keys = []store.SubmitKey{{Thread: "t60", Key: "more"}} }),
			transfer.DifferenceError{Thread: "t60", What: "the submit keys"}},
		{"a blob", fixed(store.Changes{DropBlobs: []store.BlobRef{{Thread: "blobs", Agent: "a", Name: "b007"}}}),
			transfer.DifferenceError{Thread: "blobs", What: "the blobs"}},
		{"a piece", fixed(store.Changes{DropUploads: []store.UploadRef{{Thread: "blobs", Upload: "2"}}}),
			transfer.DifferenceError{Thread: "blobs", What: "the blobs"}},
		{"a reservation", fixed(store.Changes{DropReservations: []string{"v"}}),
			transfer.DifferenceError{Thread: "project:p", What: "the reservations"}},
		{"a worker", fixed(store.Changes{DropWorkers: []string{"v"}}), transfer.DifferenceError{What: "the workers"}},
		{"a token's use", fixed(store.Changes{Use: []store.UseChange{{Token: "ann", Add: auth.Use{Bytes: 1}}}}),
			transfer.DifferenceError{What: "the tokens"}},
		{"a pause", fixed(store.Changes{Pauses: []store.Pause{{Agent: "b"}}}), transfer.DifferenceError{What: "the pauses of agents"}},
		{"a definition", fixed(store.Changes{Definitions: []store.Definition{{Agent: "b"}}}),
			transfer.DifferenceError{What: "the definitions of agents"}},
		{"a summary", fixed(store.Changes{Summaries: store.SumUp([]store.Summary{store.EndOf(&mailroom.Run{Status: mailroom.StatusFailed})})}),
			transfer.DifferenceError{What: "the summary of ended runs"}},
		{"a meter", fixed(store.Changes{Meters: []store.Meter{{Key: "rate:a", Count: 1}}}), transfer.DifferenceError{What: "the meters"}},
		{"a cursor", fixed(store.Changes{DropCursors: []store.Cursor{{Channel: "c", Identity: "69"}}}),
			transfer.DifferenceError{What: "the cursors"}},
	}
}

// TestEachDifferenceIsFound changes one row of a copy at a time.
func TestEachDifferenceIsFound(t *testing.T) {
	from := memory.New()
	fill(t, from, 70)
	for _, x := range differences() {
		t.Run(x.name, func(t *testing.T) {
			to := memory.New()
			copyAll(t, from, to)
			if err := to.Update(t.Context(), func(tx store.Tx) error {
				c, err := x.change(tx)
				if err != nil {
					return err
				}
				return tx.Write(c)
			}); err != nil {
				t.Fatal(err)
			}
			_, err := transfer.Compare(t.Context(), from, to, func(int) {})
			if got, ok := errors.AsType[*transfer.DifferenceError](err); !ok || *got != x.want {
				t.Errorf("got %v, want %v", err, &x.want)
			}
		})
	}
	t.Run("a thread that is missing", func(t *testing.T) {
		to := memory.New()
		copyAll(t, from, to)
		rows{t, to}.write(&store.Changes{DropThreads: []string{"t9"}})
		_, err := transfer.Compare(t.Context(), from, to, func(int) {})
		if err == nil || !strings.Contains(err.Error(), "(73 threads") || !strings.Contains(err.Error(), "(72 threads") {
			t.Errorf("got %v, want the counts", err)
		}
	})
}

// endWithLabel returns the rows of an end that is counted for a label too.
func endWithLabel(at time.Time) []store.Summary {
	r := &mailroom.Run{Agent: "a", Status: mailroom.StatusFailed, FinishedAt: at}
	r.Labelled = mailroom.Labelled{At: at, Key: "customer=acme"}
	return store.SumUp([]store.Summary{store.EndOf(r), store.LabelEnd(r, store.EndOf(r))})
}
