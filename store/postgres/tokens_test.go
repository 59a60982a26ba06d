package postgres

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom"
	"mailroom/auth"
	"mailroom/internal/pgtest"
	"mailroom/store"
)

// loadToken locks threads and reads the row of ann in one trip, as a write of a request does.
func loadToken(tx store.Tx, threads ...string) (rows []*mailroom.Thread, token *auth.Token, err error) {
	l, err := tx.Load(store.Need{Threads: threads, Tokens: []string{"ann"}})
	if err != nil || len(l.Tokens) == 0 {
		return nil, nil, err
	}
	return l.Threads, l.Tokens[0], nil
}

// ends are the ways in which a token ends.
func ends() map[string]func(row *auth.Token) *store.Changes {
	return map[string]func(row *auth.Token) *store.Changes{
		"revoked": func(row *auth.Token) *store.Changes {
			ended := *row
			ended.RevokedAt = time.Now().UTC().Truncate(time.Microsecond)
			return &store.Changes{Tokens: []*auth.Token{&ended}}
		},
		"dropped": func(row *auth.Token) *store.Changes { return &store.Changes{DropTokens: []string{row.Name}} },
	}
}

// endToken ends the token of ann as the revocation at a server does.
func endToken(t *testing.T, s *Store, change func(row *auth.Token) *store.Changes) error {
	return s.Update(t.Context(), func(tx store.Tx) error {
		_, row, err := loadToken(tx)
		if err != nil || row == nil || !row.RevokedAt.IsZero() {
			return err
		}
		return tx.Write(change(row))
	})
}

func valid(row *auth.Token) bool { return row != nil && row.RevokedAt.IsZero() }

// TestATransactionThatReadATokenCommitsBeforeTheTokenEndsOrNotAtAll has a server that is paused between the trip that
// reads a token's row and the commit, while another one ends the token. Its try must not commit what the row allowed.
func TestATransactionThatReadATokenCommitsBeforeTheTokenEndsOrNotAtAll(t *testing.T) {
	for name, change := range ends() {
		t.Run(name, func(t *testing.T) {
			cluster := pgtest.Shared(t)
			schema := cluster.Schema(t)
			paused, err := Open(t.Context(), Options{URL: cluster.URL(), Schema: schema, Node: "a",
				IdleInTransaction: 50 * time.Millisecond, AllowUnsafe: true})
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, paused)
			other := openIn(t, schema, "b")
			defer closeStore(t, other)
			write(t, other, &store.Changes{Tokens: []*auth.Token{{Name: "ann", Sum: "x"}}})
			var seen []bool
			err = paused.Update(t.Context(), func(tx store.Tx) error {
				_, token, err := loadToken(tx, "t")
				if err != nil {
					return err
				}
				if seen = append(seen, valid(token)); !valid(token) {
					return nil
				}
				if err := endToken(t, other, change); err != nil { // while this one is silent
					t.Errorf("end: %v", err)
				}
				return tx.Write(&store.Changes{Threads: []*mailroom.Thread{{ID: "t"}}})
			})
			// A process that gets no processor for 50 ms is silent too, so the second try can have to run again.
			if err != nil || len(seen) < 2 || !seen[0] || slices.Contains(seen[1:], true) {
				t.Errorf("got error %v, and the token was valid in the tries %v; want later tries, without it", err, seen)
			}
			update(t, other, func(tx store.Tx) error {
				found, err := tx.Threads(store.ThreadQuery{})
				if len(found) != 0 {
					t.Errorf("%d threads were written for a token that had ended", len(found))
				}
				return err
			})
		})
	}
}

// TestATokenEndsBesideATripThatArrivedInPart has a server that stops in the middle of the trip with its commit: the
// database waits for the rest for any time, and the other server ends the session.
func TestATokenEndsBesideATripThatArrivedInPart(t *testing.T) {
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	p := pgtest.StartProxy(t, cluster)
	options := Options{URL: p.URL(), Schema: schema, Node: "a", AllowUnsafe: true}
	stalled, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, stalled)
	options.URL, options.Node, options.IdleInTransaction, options.LockTimeout = cluster.URL(), "b", 50*time.Millisecond,
		50*time.Millisecond
	other, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, other)
	write(t, other, &store.Changes{Tokens: []*auth.Token{{Name: "ann", Sum: "x"}}})
	writes := 0
	work := func() error {
		return stalled.Update(t.Context(), func(tx store.Tx) error {
			rows, token, err := loadToken(tx, "t")
			if err != nil || !valid(token) {
				return err
			}
			writes++
			rows[0].Revision++
			for i := range flushBytes / 10 { // more than one write
				rows = append(rows, &mailroom.Thread{ID: fmt.Sprintf("thread-%d-%04d", writes, i)})
			}
			return tx.Write(&store.Changes{Threads: rows})
		})
	}
	for range 2 { // prepares the statements
		if err := work(); err != nil {
			t.Fatal(err)
		}
	}
	p.Cut(2, pgtest.StallRequest)
	done := make(chan error, 1)
	go func() { done <- work() }()
	waitLocked(t, cluster, schema, done)
	if err := endToken(t, other, ends()["revoked"]); err != nil {
		t.Errorf("end: %v", err)
	}
	p.Cut(0, pgtest.Pass)
	if err := <-done; mailroom.CodeOf(err) != mailroom.CodeUnavailable {
		t.Errorf("got error %v, want one that does not say that it was written", err)
	}
	update(t, other, func(tx store.Tx) error {
		found, err := tx.Threads(store.ThreadQuery{IDs: []string{"thread-3-0000"}})
		if len(found) != 0 {
			t.Error("a write was committed after the end of its token")
		}
		return err
	})
}

// TestServersThatRevokeTokensAtTheSameTimeTryAgain has three servers that read and then revoke tokens at the same time.
// Each server holds the weak lock of a reader when it asks for the strong lock. The database ends all such transactions
// but one, and their servers try again.
func TestServersThatRevokeTokensAtTheSameTimeTryAgain(t *testing.T) {
	const servers, each = 3, 20
	cluster := pgtest.Shared(t)
	schema := cluster.Schema(t)
	var all []*Store
	var rows []*auth.Token
	for i := range servers {
		s := openIn(t, schema, fmt.Sprint("n", i))
		defer closeStore(t, s)
		all = append(all, s)
		for k := range each {
			rows = append(rows, &auth.Token{Name: fmt.Sprint(i, "-", k), Sum: fmt.Sprint(i, "-", k)})
		}
	}
	write(t, all[0], &store.Changes{Tokens: rows})
	var work sync.WaitGroup
	for i, s := range all {
		work.Go(func() {
			for k := range each {
				err := s.Update(t.Context(), func(tx store.Tx) error {
					l, err := tx.Load(store.Need{Tokens: []string{fmt.Sprint(i, "-", k)}})
					if err != nil {
						return err
					}
					return tx.Write(ends()["revoked"](l.Tokens[0]))
				})
				if err != nil {
					t.Errorf("server %d, token %d: %v", i, k, err)
				}
			}
		})
	}
	work.Wait()
	update(t, all[0], func(tx store.Tx) error {
		found, err := tx.Tokens()
		for _, row := range found {
			if valid(row) {
				t.Errorf("%s is valid", row.Name)
			}
		}
		if len(found) != servers*each {
			t.Errorf("%d tokens", len(found))
		}
		return err
	})
}
