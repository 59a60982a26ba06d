package httpcall

import "context"

// BindContext returns a copy of ctx that is also cancelled when connection is done, with its
// cause. The caller calls release when it no longer needs the context.
func BindContext(ctx, connection context.Context) (bound context.Context, release func()) {
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(connection, func() { cancel(context.Cause(connection)) })
	return bound, func() {
		stop()
		cancel(nil)
	}
}
