package ledger_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"mailroom/internal/pgtest"
	"mailroom/store"
	"mailroom/store/postgres"
)

// faultDatabase is a database in which connections are cut.
type faultDatabase struct {
	cluster    *pgtest.Cluster
	proxy      *pgtest.Proxy
	day, trial string // schemas: the rows of fillDay, and those of the current trial
}

func newFaultDatabase(t *testing.T) *faultDatabase {
	t.Helper()
	c := pgtest.Shared(t)
	d := &faultDatabase{cluster: c, proxy: pgtest.StartProxy(t, c), day: c.Schema(t), trial: c.Schema(t)}
	writeDay(t, d.handle(d.day))
	s, err := d.handle(d.trial)() // creates the tables
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *faultDatabase) handle(schema string) func() (store.Store, error) {
	return func() (store.Store, error) {
		return postgres.Open(context.Background(), postgres.Options{URL: d.proxy.URL(), Schema: schema, AllowUnsafe: true})
	}
}

// copyRows copies the rows of one schema to another, with the sequences.
const copyRows = `DO $$ DECLARE name text; names text; BEGIN
	SELECT string_agg('%[2]s.' || tablename, ', ') INTO names FROM pg_tables WHERE schemaname = '%[1]s';
	EXECUTE 'TRUNCATE ' || names;
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '%[1]s' LOOP
		EXECUTE format('INSERT INTO %[2]s.%%I SELECT * FROM %[1]s.%%I', name, name);
	END LOOP;
	FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = '%[1]s' LOOP
		EXECUTE format('SELECT setval(''%[2]s.%%I'', (SELECT last_value FROM %[1]s.%%I))', name, name);
	END LOOP;
END $$`

// copyDay makes the rows of a new trial, and returns how to open them.
func (d *faultDatabase) copyDay(t *testing.T) func() (store.Store, error) {
	t.Helper()
	d.proxy.Cut(0, pgtest.Pass)
	conn, err := pgx.Connect(t.Context(), d.cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), fmt.Sprintf(copyRows, d.day, d.trial)); err != nil {
		t.Fatal(err)
	}
	return d.handle(d.trial)
}

// trips returns the number of trips of each Update of an operation on new connections, also those that
// prepare statements.
func (d *faultDatabase) trips(t *testing.T, o operation) (trips []int) {
	t.Helper()
	x := newTrial(t, d.copyDay(t))
	counts := []int{}
	x.observe = func() { counts = append(counts, d.proxy.Trips()) }
	must(o.do(t.Context(), x.fixture.Ledger))(t)
	counts = append(counts, d.proxy.Trips())
	if err := x.close(); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(counts); i++ {
		trips = append(trips, counts[i]-counts[i-1])
	}
	return trips
}

// lostConnections cuts each trip of the n-th Update, in each way.
func (d *faultDatabase) lostConnections(t *testing.T, o operation, n int) (faults []fault) {
	t.Helper()
	for trip := range d.trips(t, o)[n-1] {
		for name, with := range map[string]pgtest.Fate{
			"is lost": pgtest.DropRequest, "arrives without its last statement": pgtest.HalfRequest,
			"is executed and its answer is lost": pgtest.LoseAnswer, "finds that the server has left": pgtest.ServerLeaves,
		} {
			faults = append(faults, fault{
				name: fmt.Sprintf("trip %d %s", trip+1, name), unknown: true, cut: func() { d.proxy.Cut(trip+1, with) },
			})
		}
	}
	return faults
}

// lostAnswer loses the answer to the commit of the first Update.
func (d *faultDatabase) lostAnswer(t *testing.T, o operation) []fault {
	t.Helper()
	last := d.trips(t, o)[0]
	return []fault{{name: "the answer to its commit is lost", cut: func() { d.proxy.Cut(last, pgtest.LoseAnswer) }}}
}
