package postgres

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// errNotPrimary is the refusal of a server that accepts no writes, such as one that is being promoted.
var errNotPrimary = errors.New("the server accepts no writes")

// primaryOnly accepts a connection to a server that accepts writes.
func primaryOnly(ctx context.Context, conn *pgconn.PgConn) error {
	err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, conn)
	if err != nil && err.Error() == "read only connection" { // of pgconn, which gives it no type
		return errNotPrimary
	}
	return err
}

// MayAppear reports whether an error of Open may end by itself: no server answers at the address, its name has
// no address yet, or the server starts, ends, is a standby or has no connection left. A wrong password, a
// missing database, a certificate that is refused and tables that are refused do not.
func MayAppear(err error) bool {
	if err == nil {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch outcomeOf(pg) {
		case lost, conflict, exhausted:
			return true
		}
		return false
	}
	for _, one := range []error{
		errNotPrimary, context.DeadlineExceeded,
		io.EOF, io.ErrUnexpectedEOF, syscall.ECONNREFUSED, syscall.ECONNRESET,
	} {
		if errors.Is(err, one) {
			return true
		}
	}
	var unknown *net.DNSError
	if errors.As(err, &unknown) {
		return true
	}
	var op *net.OpError
	if !errors.As(err, &op) || op.Op == "remote error" || op.Op == "local error" { // alerts of TLS
		return false
	}
	var at *fs.PathError // a certificate or a key that cannot be read
	return !errors.As(err, &at)
}
