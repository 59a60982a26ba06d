package mailroom

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Quota names one thing that an owner may have so much of.
type Quota string

const (
	QuotaThreads Quota = "threads" // threads that belong to it
	QuotaBytes   Quota = "bytes"   // of the logs of its threads
	QuotaWorkers Quota = "workers" // its workers whose lease has not ended
	QuotaStreams Quota = "streams" // its streams and waits that are open, and as many sockets
	// QuotaNotifications bounds the notifications that it sent and that inboxes still
	// hold: one counts once for each inbox that has not read it.
	QuotaNotifications Quota = "notifications"
)

// AllQuotas are all there are.
func AllQuotas() []Quota {
	return []Quota{QuotaThreads, QuotaBytes, QuotaNotifications, QuotaWorkers, QuotaStreams}
}

// Use is what an owner has: sums of rows, written with them. See [Token.Used]. Open
// streams are no rows: the server that has them counts them in memory.
type Use struct {
	Threads int64 `json:"threads"`
	Bytes   int64 `json:"bytes"`
	Workers int64 `json:"workers"`
	// Notifications are those of QuotaNotifications.
	Notifications int64 `json:"notifications"`
}

// Plus adds two uses up.
func (u Use) Plus(v Use) Use {
	return Use{u.Threads + v.Threads, u.Bytes + v.Bytes, u.Workers + v.Workers, u.Notifications + v.Notifications}
}

// Minus is u without v.
func (u Use) Minus(v Use) Use {
	return Use{u.Threads - v.Threads, u.Bytes - v.Bytes, u.Workers - v.Workers, u.Notifications - v.Notifications}
}

// Of is the use of one quota, 0 of what no row tells.
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

// Quotas bound a Use: what is not in them has the server's default, and 0 is no
// bound.
type Quotas map[Quota]int64

// WithDefaults returns q with the defaults for what is not in it.
func (q Quotas) WithDefaults(defaults Quotas) Quotas {
	all := Quotas{}
	for _, name := range AllQuotas() {
		all[name] = defaults[name]
	}
	maps.Copy(all, q)
	return all
}

// Check refuses what is no quota.
func (q Quotas) Check() error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(AllQuotas(), name) {
			return invalid("quotas", "must name threads, bytes, notifications, workers or streams", string(name))
		}
		if q[name] < 0 {
			return invalid("quotas."+string(name), "must be 0, for no bound, or more", q[name])
		}
	}
	return nil
}

// remedy is what there is too much of, and what to do about it. add is what was asked
// for.
func (q Quota) remedy(add int64) string {
	if q == QuotaNotifications {
		return fmt.Sprintf("unread notifications, and this is for %d inboxes: wait until they are read, name fewer agents, or ask the operator for more", add)
	}
	return string(q) + ": remove some, or ask the operator for more"
}

// CheckUse refuses what would make more of a Use than q allows. What is there already
// stays, also if a quota was lowered below it.
func (q Quotas) CheckUse(owner string, have, more Use) error {
	for _, name := range AllQuotas() {
		limit, used, add := q[name], have.Of(name), more.Of(name)
		if limit == 0 || add <= 0 || used+add <= limit {
			continue
		}
		return &Error{
			Code:    CodeQuotaExceeded,
			Message: fmt.Sprintf("%s has %d of %d %s", owner, used, limit, name.remedy(add)),
			Fields:  []Field{{Location: strings.Join([]string{"quota", string(name)}, "."), Message: fmt.Sprintf("limit %d, used %d", limit, used), Value: used}},
		}
	}
	return nil
}
