// Package worker serves agents from a process of its own, for a server that it reaches over HTTP. This is a
// whole worker:
//
//	func main() {
//		worker.Main("shout", func(ctx context.Context, s mailroom.Session) error {
//			input, err := s.Input(ctx)
//			if err != nil {
//				return err
//			}
//			return s.Stream(ctx, strings.ToUpper(input[0].Text))
//		})
//	}
//
// [Serve] serves several agents, with options. The rules are the same as for an engine inside the server: one lease,
// numbered claims and steps, writes fenced by their claim. Nothing is lost if the server is unreachable for less than a
// lease. If it is unreachable for longer, the worker drops its runs before another one can claim them.
//
// [Dial] and [Ledger] are the engine's side of this, for its own tests.
package worker
