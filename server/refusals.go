package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mailroom"
	"mailroom/internal/recovery"
	"mailroom/ledger"
)

const (
	// refusalInterval is the least time between two records of refused secrets in the audit log. So an attacker who
	// guesses secrets, or a worker with a revoked token, adds 144 records a day to it at most.
	refusalInterval = 10 * time.Minute
	// refusalGather is how long refusals are gathered for a record that is due.
	refusalGather = time.Second
	// maxRefusedAddresses bounds the addresses that are counted, and maxNamedAddresses those that a record names.
	maxRefusedAddresses, maxNamedAddresses = 1000, 10
)

// refusals sums up the requests that were refused because their secret is unknown, expired or revoked. A refusal
// changes nothing, so those since the last record are lost with the process.
type refusals struct {
	mu        sync.Mutex
	count     int64            // since the last record; guarded by mu
	addresses map[string]int64 // the same by remote address, as far as there is room; guarded by mu
	recorded  time.Time        // time of the last record; owned by recordRefusals
	wake      chan struct{}    // one slot: a request was counted, so that a server without refusals does not wake up
}

// note counts a request if it was refused for its secret. The routes without a token carry theirs in the body.
func (f *refusals) note(q *requestState) {
	if q.code != mailroom.CodeUnauthenticated || q.token == "" && q.route != "POST /v1/session" {
		return
	}
	f.add(q.from, 1)
}

func (f *refusals) add(from string, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count += n
	if f.addresses == nil {
		f.addresses = map[string]int64{}
	}
	if _, known := f.addresses[from]; known || len(f.addresses) < maxRefusedAddresses {
		f.addresses[from] += n
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns the record that is due at now, and begins a new sum.
func (f *refusals) take(now time.Time) (a ledger.Action, from string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == 0 || now.Sub(f.recorded) < refusalInterval {
		return a, "", false
	}
	order := slices.SortedFunc(maps.Keys(f.addresses), func(x, y string) int {
		return cmp.Or(cmp.Compare(f.addresses[y], f.addresses[x]), cmp.Compare(x, y))
	})
	var named []string
	for _, at := range order[:min(len(order), maxNamedAddresses)] {
		named = append(named, fmt.Sprintf("%s (%d)", at, f.addresses[at]))
	}
	a = ledger.Action{Name: "sign-in.refused", ObjectKind: "server", Detail: map[string]string{
		"requests": strconv.FormatInt(f.count, 10), "addresses": strconv.Itoa(len(order)), "from": strings.Join(named, ", "),
	}}
	f.recorded, f.count, f.addresses = now, 0, nil
	return a, order[0], true
}

// recordRefusals records the refusals until ctx ends.
func (s *Server) recordRefusals(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.refused.wake:
		}
		due := time.NewTimer(max(refusalGather, time.Until(s.refused.recorded.Add(refusalInterval))))
		select {
		case <-ctx.Done():
			due.Stop()
			return
		case <-due.C:
		}
		a, from, ok := s.refused.take(time.Now())
		if !ok {
			continue
		}
		by := ledger.WithCaller(ctx, func() ledger.Caller { return ledger.Caller{From: from} })
		err := recovery.Call(s.log, "record of refusals", func() error { return s.options.Ledger.Accounts.Record(by, a) })
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "cannot record refused sign-ins in the audit log", "error", err,
				"requests", a.Detail["requests"])
		}
	}
}
