package storetest_test

import (
	gocmp "cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"mailroom"
	"mailroom/auth"
	"mailroom/entry"
	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/postgres"
	"mailroom/store/sqlite"
)

// The same random history must give the same answers from every store.
func TestStoresAgree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mail.db")
	persistent, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := persistent.Close(); err != nil {
			t.Error(err)
		}
	}()
	// The store's own checkpoints lock the file occasionally.
	beside, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := beside.Close(); err != nil {
			t.Error(err)
		}
	}()
	rapid.Check(t, func(rt *rapid.T) {
		wipe(rt, beside)
		agree(rt, t, &pair{want: memory.New(), got: persistent})
	})
}

// TestPostgresAgreesWithTheMemoryStore is the same for PostgreSQL.
func TestPostgresAgreesWithTheMemoryStore(t *testing.T) {
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	persistent, err := postgres.Open(t.Context(), postgres.Options{
		URL: cluster.URL(), Schema: schema, AllowUnsafe: true,
		// On a busy machine a transaction is silent for seconds.
		IdleInTransaction: 5 * time.Minute, LockTimeout: 5 * time.Minute, ConnectTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := persistent.Close(); err != nil {
			t.Error(err)
		}
	}()
	beside, err := pgx.Connect(t.Context(), cluster.URL()+" search_path="+schema)
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close(context.Background())
	rapid.Check(t, func(rt *rapid.T) {
		keys := postgresKeys{rt: rt, conn: beside}
		keys.wipe()
		agree(rt, t, &pair{want: memory.New(), got: persistent, save: keys.save})
	})
}

func agree(rt *rapid.T, t *testing.T, p *pair) {
	for range rapid.IntRange(1, 6).Draw(rt, "updates") {
		p.update(rt, t, drawHistory(rt))
	}
	p.view(rt, t)
}

// postgresKeys are the sequences of keys in PostgreSQL. A transaction that is rolled back takes keys
// from them; the test gives these back, so that the keys are those of a store in memory.
type postgresKeys struct {
	rt   *rapid.T
	conn *pgx.Conn
}

func (k postgresKeys) exec(text string, args ...any) {
	if _, err := k.conn.Exec(context.Background(), text, args...); err != nil {
		k.rt.Fatal(err)
	}
}

func (k postgresKeys) wipe() {
	for _, table := range []string{
		"thread", "run", "entry", "submit_key", "partial", "ticket", "worker", "definition", "token", "token_use", "tally",
		"cursor", "reservation", "blob", "blob_piece",
		"failure", "meter",
	} {
		k.exec("DELETE FROM " + table)
	}
	for _, name := range []string{"thread_key", "run_key", "ticket_key", "token_key"} {
		k.exec("ALTER SEQUENCE " + name + " RESTART")
	}
}

// save returns a function that restores the sequences.
func (k postgresKeys) save() (restore func()) {
	type sequence struct {
		last   int64
		called bool
	}
	saved := map[string]sequence{}
	for _, name := range []string{"thread_key", "run_key", "ticket_key", "token_key"} {
		var s sequence
		if err := k.conn.QueryRow(context.Background(), "SELECT last_value, is_called FROM "+name).Scan(&s.last,
			&s.called); err != nil {
			k.rt.Fatal(err)
		}
		saved[name] = s
	}
	return func() {
		for name, s := range saved {
			k.exec("SELECT setval($1::regclass, $2, $3)", name, s.last, s.called)
		}
	}
}

// wipe resets the database to its initial contents, which takes less time than opening another. A row
// of the table tally and the table sqlite_sequence have the keys given so far.
func wipe(rt *rapid.T, db *sql.DB) {
	for _, text := range []string{
		"DELETE FROM partial", "DELETE FROM ticket", "DELETE FROM submit_key", "DELETE FROM entry", "DELETE FROM run",
		"DELETE FROM reservation", "DELETE FROM blob", "DELETE FROM blob_piece",
		"DELETE FROM thread", "DELETE FROM worker", "DELETE FROM definition",
		"DELETE FROM token", "DELETE FROM cursor", "DELETE FROM meter",
		"DELETE FROM tally WHERE what <> '' OR agent <> ''", "UPDATE tally SET thread = 0, run = 0",
		"DELETE FROM sqlite_sequence WHERE name IN ('ticket', 'token')",
	} {
		if _, err := db.Exec(text); err != nil {
			rt.Fatal(err)
		}
	}
}

type pair struct {
	want, got store.Store
	save      func() (restore func()) // of what a failed Update of got changes; nil: it changes nothing
}

// update applies the same changes to both stores and compares their answers.
func (p *pair) update(rt *rapid.T, t *testing.T, h history) {
	var said [2]answers
	var errs [2]error
	restore := func() {}
	if p.save != nil {
		restore = p.save()
	}
	for i, s := range []store.Store{p.want, p.got} {
		errs[i] = s.Update(t.Context(), func(tx store.Tx) error {
			said[i] = nil
			return h.apply(tx, &said[i])
		})
	}
	if errs[1] != nil {
		restore()
	}
	if want, got := mailroom.CodeOf(errs[0]), mailroom.CodeOf(errs[1]); want != got {
		rt.Fatalf("update: got error %v, want %v", errs[1], errs[0])
	}
	if _, ok := errors.AsType[*mailroom.Error](errs[0]); ok {
		return // a store may report a refused Write late
	}
	compare(rt, "update", said[0], said[1])
}

func (p *pair) view(rt *rapid.T, t *testing.T) {
	q := drawQueries(rt)
	var said [2]answers
	for i, s := range []store.Store{p.want, p.got} {
		if err := s.View(t.Context(), func(r store.Reader) error { return q.queryAll(r, &said[i]) }); err != nil {
			rt.Fatal(err)
		}
	}
	compare(rt, "view", said[0], said[1])
}

func compare(rt *rapid.T, what string, want, got answers) {
	if len(want) != len(got) {
		rt.Fatalf("%s: got %d answers, want %d", what, len(got), len(want))
	}
	byJSON := cmp.Transformer("entry", func(e mailroom.Entry) string { return string(e.Raw) })
	for i := range want {
		for _, each := range unequal(want[i], got[i]) {
			if diff := cmp.Diff(each[0], each[1], cmpopts.EquateEmpty(), byJSON); diff != "" {
				rt.Fatalf("%s, answer %d (-memory +other):\n%s", what, i, diff)
			}
		}
	}
}

// unequal returns the parts of two values that are not deeply equal: the rows of lists of the same length, or the
// values. cmp, which knows what counts as equal, is too slow for the many rows that are.
func unequal(want, got any) (pairs [][2]any) {
	if reflect.DeepEqual(want, got) {
		return nil
	}
	a, b := reflect.ValueOf(want), reflect.ValueOf(got)
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() || a.Kind() != reflect.Slice || a.Len() != b.Len() {
		return [][2]any{{want, got}}
	}
	for i := range a.Len() {
		pairs = append(pairs, unequal(a.Index(i).Interface(), b.Index(i).Interface())...)
	}
	return pairs
}

// answers collects what a store returned.
type answers []any

func (a *answers) add(v any, err error) error {
	*a = append(*a, v)
	return err
}

// history is one Update, described without the stores' own keys.
type history struct {
	threads  []mailroom.Thread // set in the rows of these ids, created if missing
	runs     []mailroom.Run
	lines    map[string]int // entries to append, by thread
	keys     []store.SubmitKey
	tickets  []mailroom.Ticket
	tokens   []auth.Token
	use      []store.UseChange
	cursors  []store.Cursor
	reserved []store.Reservation
	blobs    []store.Blob
	uploads  []store.UploadRef // that get another piece
	kept     []store.Definition
	pieces   []string // runs that get another partial
	workers  []*store.Worker
	drops    store.Changes
	due      []store.Capacity
	ahead    []store.Capacity // named in the first Load, for aheadAt
	aheadAt  time.Time
	now      time.Time
	fails    bool

	repeated bool     // the other partial replaces the last one
	again    []string // threads that are locked again
	queries  queries
}

// addLoaded adds loaded rows in a fixed order, without what a store may leave out.
func (a *answers) addLoaded(l *store.Loaded, known store.Known, err error) error {
	if err != nil {
		return a.add(nil, err)
	}
	at := map[string]*mailroom.Thread{}
	var threads []any
	for _, t := range l.Threads {
		at[t.ID] = t
		if known != nil && known(t.ID) == store.VersionOf(t) {
			threads = append(threads, store.VersionOf(t))
		} else {
			threads = append(threads, t)
		}
	}
	heads := slices.DeleteFunc(slices.Clone(l.Heads), func(h store.Head) bool {
		t := at[h.Thread]
		return t.Current == "" && t.Due.At.IsZero() || h.Set == store.RunsScheduled && t.HeldAt.IsZero()
	})
	slices.SortFunc(heads, func(x, y store.Head) int {
		return gocmp.Or(gocmp.Compare(x.Thread, y.Thread), int(x.Set)-int(y.Set))
	})
	// of a thread that is due twice
	heads = slices.CompactFunc(heads, func(x, y store.Head) bool { return x.Thread == y.Thread && x.Set == y.Set })
	runs, keys := slices.Clone(l.Runs), slices.Clone(l.Keys)
	tickets := slices.DeleteFunc(slices.Clone(l.Tickets), func(k *mailroom.Ticket) bool {
		return slices.ContainsFunc(l.Runs, func(r *mailroom.Run) bool { return r.ID == k.Run && r.Asked == 0 })
	})
	slices.SortFunc(runs, func(x, y *mailroom.Run) int { return gocmp.Compare(x.ID, y.ID) })
	slices.SortFunc(tickets, func(x, y *mailroom.Ticket) int { return gocmp.Compare(x.ID, y.ID) })
	slices.SortFunc(keys, func(x, y store.SubmitKey) int {
		return gocmp.Or(gocmp.Compare(x.Thread, y.Thread), gocmp.Compare(x.Key, y.Key))
	})
	return errors.Join(a.add(l.Workers, nil), a.add(threads, nil), a.add(heads, nil), a.add(runs, nil),
		a.add(tickets, nil), a.add(keys, nil))
}

type refused struct{}

func (refused) Error() string { return "refused" }

func (h history) apply(tx store.Tx, said *answers) error {
	var ids []string
	for _, t := range h.threads {
		ids = append(ids, t.ID)
	}
	known := func(string) store.Version { return store.Version{Key: 1, Revision: 1} }
	first, err := tx.Load(store.Need{
		Due: h.ahead, DueAt: h.aheadAt, Topics: []string{"x"}, Workers: []string{"w1", "w2"}, Threads: ids, Queues: ids,
		Runs: []string{"r3"}, Known: known,
		Keys: []store.KeyRef{{Thread: "t1", Key: "k1"}, {Thread: "t1", Key: "k2"}, {Thread: "t2", Key: "k1"},
			{Thread: "none", Key: "k1"}},
	})
	if err != nil {
		return said.add(nil, err)
	}
	full, err := tx.Load(store.Need{Threads: ids}) // with the rows that the store left out
	if err != nil {
		return said.add(nil, err)
	}
	rows := slices.Clone(full.Threads)
	due, next, err := tx.Due(h.now, h.due, known)
	if err := errors.Join(said.addLoaded(first, known, nil), said.addLoaded(due, known, err),
		said.add(next, nil)); err != nil {
		return err
	}
	late, err := tx.Load(store.Need{Workers: []string{"w2", "w3"}, Threads: h.again})
	if err := said.addLoaded(late, nil, err); err != nil {
		return err
	}
	c := &store.Changes{
		Threads: rows, Workers: h.workers, Keys: h.keys, Definitions: h.kept, Cursors: h.cursors, Reservations: h.reserved,
		Blobs:       h.blobs,
		Use:         h.use,
		DropThreads: h.drops.DropThreads, DropWorkers: h.drops.DropWorkers, DropPartials: h.drops.DropPartials,
		DropEntries: h.drops.DropEntries, DropDefinitions: h.drops.DropDefinitions,
		DropCursors: h.drops.DropCursors, DropReservations: h.drops.DropReservations,
		DropBlobs: h.drops.DropBlobs, DropUploads: h.drops.DropUploads,
	}
	if err := h.change(tx, c); err != nil {
		return err
	}
	if err := h.addTokens(tx, c); err != nil {
		return err
	}
	if err := tx.Write(c); err != nil {
		return err
	}
	if err := errors.Join(said.add(c.Runs, nil), said.add(c.Tickets, nil), said.add(c.Tokens, nil)); err != nil {
		return err
	}
	if err := h.queries.queryAll(tx, said); err != nil {
		return err
	}
	if h.fails {
		return refused{}
	}
	return nil
}

// addTokens adds the tokens; an existing name updates its row.
func (h history) addTokens(r store.Reader, c *store.Changes) error {
	there, err := r.Tokens()
	for _, row := range h.tokens {
		for _, old := range there {
			if old.Name == row.Name {
				row.Key = old.Key
			}
		}
		c.Tokens = append(c.Tokens, &row)
	}
	return err
}

// change sets the values of the locked rows, and adds the others.
func (h history) change(tx store.Tx, c *store.Changes) error {
	for i, t := range h.threads {
		row := c.Threads[i]
		if slices.Contains(c.DropThreads, row.ID) {
			row.Key = 0 // created again
		}
		t.Key, t.LastSeq = row.Key, row.LastSeq
		if row.Key != 0 {
			t.Owner = row.Owner
		}
		var list []mailroom.Entry
		for range h.lines[t.ID] {
			t.LastSeq++
			e, err := entry.New(t.ID, t.LastSeq, []string{entry.KindStep, entry.KindMessage}[t.LastSeq%2],
				fmt.Sprint("r", t.LastSeq%3), 1, t.UpdatedAt, entry.StepNamed{Name: "ünï\n"})
			if err != nil {
				return err
			}
			list = append(list, e)
		}
		c.Entries = append(c.Entries, list)
		*row = t
	}
	for _, run := range h.runs {
		old, err := h.runThatStays(tx, run.ID)
		if err != nil {
			return err
		}
		if old != nil {
			run.Key, run.Stored, run.Thread, run.Agent, run.FirstSeq = old.Key, old.Stored, old.Thread, old.Agent, old.FirstSeq
		} else {
			row := c.Threads[slices.IndexFunc(c.Threads, func(t *mailroom.Thread) bool { return t.ID == run.Thread })]
			run.FirstSeq = max(row.LastSeq-run.FirstSeq, 0)
		}
		c.Runs = append(c.Runs, &run)
	}
	if err := errors.Join(h.addTickets(tx, c), h.addPieces(tx, c)); err != nil {
		return err
	}
	for _, id := range h.pieces {
		there, err := tx.Partials(id)
		if err != nil {
			return err
		}
		end := 0
		if len(there) > 0 && !slices.Contains(c.DropPartials, id) {
			end = there[len(there)-1].Offset + 5
			if h.repeated {
				end -= 5
			}
		}
		thread := ""
		for _, run := range c.Runs {
			if run.ID == id {
				thread = run.Thread
			}
		}
		if thread != "" {
			c.Partials = append(c.Partials, store.Partial{Thread: thread, Run: id, Offset: end, Text: "piece"})
		}
	}
	return nil
}

// addPieces adds the next piece of each upload.
func (h history) addPieces(r store.Reader, c *store.Changes) error {
	for _, u := range h.uploads {
		q := store.BlobQuery{Sizes: true}
		if _, err := r.Keys(store.KeyQuery{Thread: u.Thread, Blobs: &q}); err != nil {
			return err
		}
		piece := store.BlobPiece{Thread: u.Thread, Upload: u.Upload, Body: []byte("piece\x00")}
		dropped := slices.Contains(h.drops.DropUploads, u) || slices.Contains(h.drops.DropThreads, u.Thread)
		for _, there := range q.Uploads {
			if there.Upload == u.Upload && !dropped {
				piece.Number = there.Pieces
			}
		}
		c.BlobPieces = append(c.BlobPieces, piece)
	}
	return nil
}

// runThatStays returns an existing run that h does not drop, or nil.
func (h history) runThatStays(r store.Reader, id string) (*mailroom.Run, error) {
	rows, err := r.Runs(store.RunQuery{IDs: []string{id}})
	if err != nil || len(rows) == 0 || slices.Contains(h.drops.DropThreads, rows[0].Thread) {
		return nil, err
	}
	for _, p := range h.drops.DropEntries {
		if p.Thread == rows[0].Thread && rows[0].FirstSeq < p.Seq {
			return nil, nil
		}
	}
	return rows[0], nil
}

// addTickets adds the tickets: existing ones that stay are changed, others are created if their run
// is written.
func (h history) addTickets(r store.Reader, c *store.Changes) error {
	for _, k := range h.tickets {
		old, err := r.Tickets(store.TicketQuery{IDs: []string{k.ID}})
		if err != nil {
			return err
		}
		if len(old) > 0 {
			run, err := h.runThatStays(r, old[0].Run)
			if err != nil {
				return err
			}
			if run != nil {
				k.Key, k.Run, k.Thread = old[0].Key, old[0].Run, old[0].Thread
			}
		}
		if k.Key == 0 {
			i := slices.IndexFunc(c.Runs, func(run *mailroom.Run) bool { return run.ID == k.Run })
			if i < 0 {
				continue
			}
			k.Thread = c.Runs[i].Thread
		}
		c.Tickets = append(c.Tickets, &k)
	}
	return nil
}
