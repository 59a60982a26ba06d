package workers

import (
	"context"
	"errors"
	"testing"
	"time"

	"mailroom"
	"mailroom/api"
	"mailroom/auth"
	"mailroom/server/internal/request"
	"mailroom/store"
	"mailroom/thread"
)

// waitingLeases has one worker. Its claims wait until their context ends.
type waitingLeases struct {
	waiting chan struct{} // closed by the claim
	ended   chan struct{} // closed when the claim has returned
	left    bool          // the lease was ended after the claim
}

// workerRows reads the row of the worker.
type workerRows struct{ store.Reader }

func (workerRows) Workers(ids ...string) ([]*store.Worker, error) {
	if len(ids) == 0 {
		return nil, errors.New("a request of one worker reads the rows of all workers")
	}
	return []*store.Worker{{ID: "w", Owner: "laptop", Agents: []string{"far"}}}, nil
}
func (workerRows) Threads(store.ThreadQuery) ([]*mailroom.Thread, error) { return nil, nil }

func (*waitingLeases) View(_ context.Context, f func(store.Reader) error) error {
	return f(workerRows{})
}
func (*waitingLeases) LeaseTime() time.Duration { return time.Minute }
func (*waitingLeases) Register(context.Context, store.Worker) (time.Time, error) {
	return time.Time{}, nil
}
func (*waitingLeases) Renew(context.Context, thread.Renewal) (thread.Renewed, error) {
	return thread.Renewed{}, nil
}

func (l *waitingLeases) Claim(ctx context.Context, _ thread.ClaimRequest) ([]thread.ClaimedRun, error) {
	close(l.waiting)
	<-ctx.Done()
	close(l.ended)
	return nil, ctx.Err()
}

func (l *waitingLeases) Deregister(context.Context, thread.Leave) error {
	select {
	case <-l.ended:
		l.left = true
	default:
	}
	return nil
}

// The server may not have noticed yet that the worker has hung up. A claim that goes on would claim runs for a worker
// that has said what it has.
func TestAWorkerThatLeavesEndsItsWaitingClaimFirst(t *testing.T) {
	l := &waitingLeases{waiting: make(chan struct{}), ended: make(chan struct{})}
	ops := New(Options{Leases: l,
		Authorize: context.WithCancel,
		Hold:      func(context.Context) (func(), error) { return func() {}, nil }})
	ctx := request.WithCaller(t.Context(), func() *auth.Token { return &auth.Token{Name: "laptop"} })
	answered := make(chan error, 1)
	go func() {
		in := claimInput{Body: api.ClaimRequest{Worker: "w", Round: 1, Wait: "60s"}}
		rest, err := ops.Claim(ctx, &in)
		if err == nil {
			_, err = rest()
		}
		answered <- err
	}()
	<-l.waiting
	in := leaveInput{WorkerPath: WorkerPath{Worker: "w"}, Body: &api.Leave{Entered: []string{}}}
	if _, err := ops.Leave(ctx, &in); err != nil || !l.left {
		t.Fatalf("the lease was ended after the claim: %t (%v), want true", l.left, err)
	}
	if err := <-answered; err != nil {
		t.Error("the claim:", err)
	}
}
