package ledger

import (
	"context"

	"mailroom"
	"mailroom/auth"
)

// Caller is the row of the token that a request came with. A request is admitted by its token before the write that it
// asks for: in between it waits for its body, in the queue of the committer, and as long as its process is stopped. So
// each write reads the row again, in its transaction.
type Caller struct {
	Row string // name of the row; "": the operator, whose token has none, or the server itself
	ID  string // see auth.Token.ID

	// For the audit log.

	Name string // name for which the token acts; "": the request has no token
	Kind string // see entry.Audit
	From string // remote address, or the channel
}

type callerKey struct{}

// WithCaller returns a context whose operations are those of a caller. who is called when an operation begins,
// because the caller may not be known before. A nil who is the server itself.
func WithCaller(ctx context.Context, who func() Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

// ofCaller makes o read the row of its caller, and fail if that row is no longer valid.
func (o *op) ofCaller(ctx context.Context) {
	who, _ := ctx.Value(callerKey{}).(func() Caller)
	if who == nil {
		return
	}
	c := who()
	if c.Row == "" {
		return
	}
	o.tokens = append(o.tokens[:len(o.tokens):len(o.tokens)], c.Row)
	apply := o.apply
	o.apply = func(tx *transaction) error {
		if err := checkCaller(tx, c); err != nil {
			return err
		}
		return apply(tx)
	}
}

// checkCaller refuses the operation of a row that was revoked, replaced or has expired. A token that was derived from
// another one is dropped together with it, so it is enough to check the caller's own row.
func checkCaller(tx *transaction, c Caller) error {
	row, err := tx.rows.token(c.Row)
	switch {
	case err != nil:
		return err
	case row == nil, row.ID() != c.ID, !row.RevokedAt.IsZero(), row.Expired(tx.now()):
		return errEnded()
	}
	return nil
}

func errEnded() error {
	return mailroom.Errorf(mailroom.CodeUnauthenticated, "the token was revoked or has expired")
}

// RowOf returns the caller of a row.
func RowOf(row *auth.Token) Caller { return Caller{Row: row.Name, ID: row.ID()} }
