package engine

import (
	"context"
	"testing"
	"time"

	"mailroom/bus"
	"mailroom/ledger"
	"mailroom/store/memory"
)

// The wall clock went on while the machine slept and its timers stood still,
// which no bubble can show: so the moment after is made by hand.
func TestFirstTickAfterASleepRenewsInsteadOfSweeping(t *testing.T) {
	e := New(ledger.New(memory.New(), ledger.Options{}), bus.New(), Options{})
	e.lease.worker = "w"
	e.lease.extend(time.Now(), e.options.Lease)
	defer e.lease.stop()
	e.lease.renewed = e.lease.renewed.Add(-time.Hour)

	ctx, end := context.WithCancel(context.Background())
	end() // what is sent is not waited for
	e.sweep(ctx)
	e.wg.Wait()
	if !e.lease.renewing || e.lease.sweeping {
		t.Errorf("got renewing %v, sweeping %v, want a renewal and no sweep", e.lease.renewing, e.lease.sweeping)
	}
}
