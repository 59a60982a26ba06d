package dispatch

// Claimer is a worker that is subscribed to due runs. The committer calls its methods, without
// holding a lock: they must be fast and must not wait for the ledger.
type Claimer interface {
	// Capacity returns the worker's free capacity and the number of the round that may use it. It
	// is called at the start of each batch; a worker without slots is skipped. Wait is ignored.
	Capacity() ClaimRequest
	// Assign passes on the runs claimed in a round, after their entries were published and before
	// any later entry is: a worker that subscribes to the threads here misses no stop and no steer.
	// After an error, the outcome of the claim is unknown.
	Assign(asked ClaimRequest, work []Assignment, err error)
}
