package ledger_test

import (
	"testing"
	"time"

	"mailroom/internal/pgtest"
	"mailroom/ledger"
	"mailroom/store/postgres"
)

// The promotion of an asynchronous standby loses a submit. Another server writes the thread again, which
// then has the revision and other rows. The cached rows must not be used.
func TestRowsOfALostPrimaryAreNotUsed(t *testing.T) {
	t.Parallel()
	primary := pgtest.Durable(t)
	standby := pgtest.StandbyOf(t, primary)
	handle := func(node string) *postgres.Store {
		s, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.URLOf(primary, standby), Node: node})
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
	d := open(t, handle("a"), ledger.Options{})
	other := start(t, handle("b"), ledger.Options{})
	d.register("w")
	kept := d.submit(text("t", "kept"))
	for received := false; !received; {
		rows, err := primary.Select(t.Context(), "SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()")
		if err != nil {
			t.Fatal(err)
		}
		received = len(rows) > 0
		<-time.After(5 * time.Millisecond)
	}
	if err := standby.Stop(); err != nil {
		t.Fatal(err)
	}
	lost := d.submit(text("t", "lost"))
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := other.submit(text("t", "of another server"))
	wantEqual(t, "position in the log", again.Seq, lost.Seq)
	after := d.submit(text("t", "after"))
	var got []string
	for range 3 {
		work := d.claimOne("w")
		got = append(got, work.Run.ID)
		settle := complete(work.Claim, "ok")
		settle.Number = 1
		must(d.Settle(d.ctx, settle))(t)
	}
	wantEqual(t, "runs in order", got, []string{kept.Run, again.Run, after.Run})
}
