package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom"
	"mailroom/internal/pgtest"
	"mailroom/store"
)

// A pooler deallocates statements, and a migration of a newer server changes the type of a column: reads and
// writes go on, with statements that are prepared again.
func TestAStatementThatTheServerDroppedIsPreparedAgain(t *testing.T) {
	s := openIn(t, pgtest.Shared(t).Schema(t), "a")
	defer closeStore(t, s)
	paused := func() (pauses []store.Pause) {
		t.Helper()
		if err := s.View(t.Context(), func(r store.Reader) error {
			rows, err := r.Agents()
			pauses = rows.Pauses
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return pauses
	}
	pause := func(reason string) {
		t.Helper()
		update(t, s, func(tx store.Tx) error {
			if _, err := tx.Load(store.Need{Topics: []string{"agents"}, Pauses: true}); err != nil {
				return err
			}
			return tx.Write(&store.Changes{Pauses: []store.Pause{{Agent: "a", Reason: reason}}})
		})
		if got := paused(); len(got) != 1 || got[0].Reason != reason {
			t.Errorf("got pauses %+v, want one with the reason %s", got, reason)
		}
	}
	pause("before")
	for _, text := range []string{"DEALLOCATE ALL", "ALTER TABLE pause ALTER COLUMN reason TYPE varchar",
		"DISCARD PLANS"} {
		s.ending.Wait() // until the reader is free
		readers := []*session{}
		for r, ok := s.idle.Take(); ok; r, ok = s.idle.Take() {
			readers = append(readers, r)
		}
		for _, r := range readers {
			s.idle.Give(r)
		}
		for _, c := range append(readers, s.writer) {
			if _, err := c.conn.PgConn().Exec(t.Context(), text).ReadAll(); err != nil {
				t.Fatal(err)
			}
		}
		epoch, before := s.Epoch(), s.Traffic()
		pause("after " + text)
		if after := s.Traffic(); s.Epoch() != epoch || after.Tries-before.Tries > 2 {
			t.Errorf("%s: took %d tries and %d connections, want two tries at most on the same one", text,
				after.Tries-before.Tries, s.Epoch()-epoch)
		}
	}
}

func TestTheLastOfManyTriesSaysWhatWasWrong(t *testing.T) {
	for want, err := range map[string]error{
		"other servers hold the rows":                      &pgconn.PgError{Code: "55P03"},
		"the connection to the database was lost":          errors.New("broken pipe"),
		"the database accepts no writes":                   &pgconn.PgError{Code: readOnly},
		"the database has dropped the prepared statements": &pgconn.PgError{Code: "26000"},
		"because this server was silent":                   &pgconn.PgError{Code: "25P03"},
	} {
		got := errTries(err)
		if !strings.Contains(got.Message, want) || !strings.Contains(got.Message, "nothing was written") ||
			got.Code != mailroom.CodeUnavailable {
			t.Errorf("%v: got %q, want %q", err, got.Message, want)
		}
	}
}
