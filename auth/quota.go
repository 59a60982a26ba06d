package auth

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mailroom"
	"mailroom/internal/check"
)

// Quota names a resource whose use by one owner is limited.
type Quota string

const (
	QuotaThreads Quota = "threads" // threads of the owner
	QuotaBytes   Quota = "bytes"   // size of the logs of these threads
	QuotaWorkers Quota = "workers" // workers of the owner that have a live lease
	QuotaStreams Quota = "streams" // open streams and waits of the owner; the same number of sockets
	// QuotaNotifications counts the unread notifications an owner has sent: one per inbox that has
	// not read it.
	QuotaNotifications Quota = "notifications"
)

// AllQuotas returns all quotas.
func AllQuotas() []Quota {
	return []Quota{QuotaThreads, QuotaBytes, QuotaNotifications, QuotaWorkers, QuotaStreams}
}

// Use is what an owner uses, summed up from rows and written with them; see [Token.Used]. Open
// streams are not included: each server counts its own in memory.
type Use struct {
	Threads int64 `json:"threads" doc:"Threads that it owns."`
	Bytes   int64 `json:"bytes" doc:"Size of the logs and blobs of its threads."`
	Workers int64 `json:"workers" doc:"Its workers with a live lease."`
	// Notifications counts as QuotaNotifications does.
	Notifications int64 `json:"notifications" doc:"Unread notifications that it sent, counted once for each inbox."`
}

// Plus returns the sum of u and v.
func (u Use) Plus(v Use) Use {
	return Use{u.Threads + v.Threads, u.Bytes + v.Bytes, u.Workers + v.Workers, u.Notifications + v.Notifications}
}

// Minus returns the difference of u and v.
func (u Use) Minus(v Use) Use {
	return Use{u.Threads - v.Threads, u.Bytes - v.Bytes, u.Workers - v.Workers, u.Notifications - v.Notifications}
}

// Of returns how much of a quota is used. It is 0 for QuotaStreams, which the server counts in
// memory.
func (u Use) Of(q Quota) int64 {
	switch q {
	case QuotaThreads:
		return u.Threads
	case QuotaBytes:
		return u.Bytes
	case QuotaWorkers:
		return u.Workers
	case QuotaNotifications:
		return u.Notifications
	}
	return 0
}

// Quotas are limits of a Use. A missing quota has the server's default; 0 means no limit.
type Quotas map[Quota]int64

// WithDefaults returns q with missing quotas taken from defaults.
func (q Quotas) WithDefaults(defaults Quotas) Quotas {
	all := Quotas{}
	for _, name := range AllQuotas() {
		all[name] = defaults[name]
	}
	maps.Copy(all, q)
	return all
}

// Check returns an error if q names an unknown quota or a negative limit.
func (q Quotas) Check() error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(AllQuotas(), name) {
			return check.Invalid("quotas", "must name threads, bytes, notifications, workers or streams", string(name))
		}
		if q[name] < 0 {
			return check.Invalid("quotas."+string(name), "must be 0 (no limit) or more", q[name])
		}
	}
	return nil
}

// remedy completes the error message: what the limit counts, and what to do. add is the requested
// increase.
func (q Quota) remedy(add int64) string {
	if q == QuotaNotifications {
		return fmt.Sprintf(
			"unread notifications, and this one has %d recipients: wait until some are read, name fewer agents, or ask the operator for a higher quota", add)
	}
	return string(q) + ": remove some, or ask the operator for a higher quota"
}

// CheckUse returns CodeQuotaExceeded if more would take a Use beyond q. Existing use is never
// affected, even if a quota was lowered below it.
func (q Quotas) CheckUse(owner string, have, more Use) error {
	for _, name := range AllQuotas() {
		limit, used, add := q[name], have.Of(name), more.Of(name)
		if limit == 0 || add <= 0 || used+add <= limit {
			continue
		}
		return &mailroom.Error{
			Code:    mailroom.CodeQuotaExceeded,
			Message: fmt.Sprintf("%s has %d of %d %s", owner, used, limit, name.remedy(add)),
			Fields: []mailroom.Field{{Location: strings.Join([]string{"quota", string(name)}, "."),
				Message: fmt.Sprintf("limit %d, used %d", limit, used), Value: used}},
		}
	}
	return nil
}
