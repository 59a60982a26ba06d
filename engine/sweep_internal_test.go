package engine

import (
	"context"
	"testing"
	"time"

	"mailroom/bus"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// The wall clock continued while the machine slept and its timers did not. A bubble cannot simulate
// that, so the test sets the state directly.
func TestFirstTickAfterASleepRenewsInsteadOfSweeping(t *testing.T) {
	e := New(ledger.New(memory.New(), ledger.Options{}).Workers(), bus.New(), Options{})
	e.lease.worker = "w"
	e.lease.extend(time.Now(), e.options.Lease)
	defer e.lease.stop()
	e.lease.renewed = e.lease.renewed.Add(-time.Hour)

	ctx, end := context.WithCancel(context.Background())
	end() // the result is not needed
	e.sweep(ctx)
	e.wg.Wait()
	if !e.lease.renewing || e.lease.sweeping {
		t.Errorf("got renewing %v, sweeping %v, want a renewal and no sweep", e.lease.renewing, e.lease.sweeping)
	}
}
