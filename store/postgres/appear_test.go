package postgres

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/internal/machinetest"
	"mailroom/internal/pgtest"
)

func TestOnlyADatabaseThatIsAwayMayAppear(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).URL()
	for name, c := range map[string]struct {
		url  string
		want bool
	}{
		"no server at the socket":    {"host=/nowhere user=x", true},
		"no server at the port":      {"postgres://x@" + machinetest.Reserve(t) + "/x", true},
		"an unknown host":            {"postgres://x@database.invalid/x?sslmode=disable", true},
		"an unknown database":        {strings.Replace(url, "dbname=postgres", "dbname=none", 1), false},
		"an unknown role":            {strings.Replace(url, "user=pgtest", "user=stranger", 1), false},
		"a missing file":             {url + " sslmode=verify-full sslrootcert=/nowhere", false},
		"an invalid address":         {"postgres://x@[/x", false},
		"settings that lose commits": {url, false},
	} {
		s, err := Open(t.Context(), Options{URL: c.url, Schema: "refused"})
		if err == nil {
			closeStore(t, s)
		}
		if got := MayAppear(err); err == nil || got != c.want {
			t.Errorf("%s: got %t for %v, want %t", name, got, err, c.want)
		}
	}
	for want, errs := range map[bool][]error{
		true: {&pgconn.PgError{Code: "57P03"}, &pgconn.PgError{Code: "53300"}, errNotPrimary, context.DeadlineExceeded},
		false: {
			nil, &pgconn.PgError{Code: "28P01"}, ErrUnfinished, ErrNoStore, &VersionError{}, x509.UnknownAuthorityError{},
			errors.New("other"),
		},
	} {
		for _, err := range errs {
			if err != nil {
				err = fmt.Errorf("open store in PostgreSQL: %w", err)
			}
			if got := MayAppear(err); got != want {
				t.Errorf("%v: got %t, want %t", err, got, want)
			}
		}
	}
}
