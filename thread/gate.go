package thread

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"mailroom"
	"mailroom/store"
)

// A run can have a concurrency key, and an agent a number of runs that may run at once for each key of an owner. A
// thread whose next run finds its key full waits at the gate of the key: its Due.Agent is the gate's name, so no claim
// looks at it. The commit that frees a place of the key takes the first threads from the gate and keeps the freed
// places for them, until their runs are claimed. So a claim costs the same however many keys there are and however many
// threads wait, and a place cannot get lost: a thread that no longer wants its place, because it was deleted or another
// run is next there, gives it up in the commit that says so.
//
// The rate of a key uses the same gate. While threads wait there, the next start is kept for the first of them, which
// is due for workers at the time of that start: claims find it as they find a retry, and nothing looks at the key
// before. The claim takes the start from the rate, and its commit keeps the next start for the next thread. A thread
// that gives up its start has taken nothing, so the next thread gets the same time.
//
// The other way, to keep no place, needs no count of waiting threads. But then the thread that was let out may be
// deleted before a worker takes it, and no later commit would let out the next one.

// KeyGate returns the name of the gate of an owner's key: the Due.Agent of the threads that wait there. It is short
// whatever the key is. "" means that there is no gate: the run has no key, or its agent a name that no configuration
// can have.
func KeyGate(agent, owner, key string) string {
	if key == "" || strings.Contains(agent, dueSeparator) {
		return ""
	}
	sum := sha256.Sum256([]byte(owner + "\x00" + key))
	return store.GatePrefix + base64.RawURLEncoding.EncodeToString(sum[:15]) + " " + agent
}

// GateAgent returns the agent of a gate. ok is false if due is the Due.Agent of threads that are at no gate.
func GateAgent(due string) (agent string, ok bool) {
	if !strings.HasPrefix(due, store.GatePrefix) || strings.Contains(due, dueSeparator) {
		return "", false
	}
	_, agent, ok = strings.Cut(due, " ")
	return agent, ok
}

// KeyMeterPrefix begins the keys of the meters of gates. Their Count is the number of places that are taken or kept,
// their Turns the number of threads that wait, and their Tokens the number of kept places of paced threads.
const KeyMeterPrefix = MeterPrefix + "key:"

// GateMeter returns the key of the meter of a gate.
func GateMeter(gate string) string { return KeyMeterPrefix + gate }

// MeterGate returns the gate whose meter has this key.
func MeterGate(key string) (gate string, ok bool) { return strings.CutPrefix(key, KeyMeterPrefix) }

// Counted returns the meters whose Count has a thread, and the ones whose Turns and Tokens have it, or "". A thread
// with budgets has a meter of its own, by which it is found.
func Counted(row *mailroom.Thread) (places []string, waits, paced string) {
	places = row.Meters
	switch {
	case row.Gate == "":
	case row.Kept:
		places = []string{GateMeter(row.Gate)}
		if row.Paced {
			paced = GateMeter(row.Gate)
		}
	default:
		waits = GateMeter(row.Gate)
	}
	if len(row.Budgets) > 0 && row.DeletedAt.IsZero() {
		places = append(slices.Clip(places), BudgetMeterPrefix+row.ID)
	}
	return places, waits, paced
}

// gateOf returns the gate of a run of a thread, "" if it has no key.
func gateOf(row *mailroom.Thread, r *mailroom.Run) string {
	if r == nil || r.LimitKey == "" {
		return ""
	}
	return KeyGate(r.Agent, row.Owner, r.LimitKey)
}

// NextGate returns the gate of the run that a claim would probably start, if it is loaded.
func NextGate(t *State) string {
	if c := t.current(); c != nil {
		return gateOf(&t.Thread, c)
	}
	if r := t.Runs.queue.ready.first(); r != nil {
		return gateOf(&t.Thread, r)
	}
	return gateOf(&t.Thread, t.Runs.queue.scheduled.first())
}

// Admit applies a limit, which has this meter, to a run: it returns "" if the run may start, else CauseLimit or
// CauseRate, and the time of the next start of the rate. Zero: that start is kept for another thread. kept says that a
// place of the key is kept for the run's own thread.
//
// While threads wait for the rate of a key, others go behind them, and a start that is kept is for one thread only.
func Admit(l Limit, m store.Meter, kept bool, now time.Time) (c Cause, next time.Time) {
	if l.Running > 0 && !kept && m.Count >= int64(l.Running) {
		return CauseLimit, time.Time{}
	}
	if l.Rate.N <= 0 {
		return "", time.Time{}
	}
	others := int64(0)
	if !kept {
		others = m.Tokens
	}
	n, next := l.Rate.Starts(m.At, now, int(others)+1)
	if int64(n) <= others || !kept && m.Turns > 0 {
		return CauseRate, next
	}
	return "", time.Time{}
}

// Admission says whether a run may start that has a key.
type Admission struct {
	OK    bool
	Meter string // of OK: the meter that counts the claim as a running run; "": none
	// At, without OK, is when a start of the key's rate is due that is kept for the thread. Zero: the thread waits at the
	// gate.
	At time.Time
}

// holdBack makes the thread wait until a place of its next run's key is free, or until its start is due.
func holdBack(t *State, gate string, a Admission, now time.Time) {
	t.Gate, t.Kept, t.Paced = gate, false, false
	if !a.At.IsZero() {
		keepPlace(t, a.At, now)
	}
	t.schedule(now)
}

// keepPlace keeps a place of the gate for the thread, and with the time at also a start of the rate.
func keepPlace(t *State, at, now time.Time) {
	t.Kept, t.Paced = true, !at.IsZero()
	if at.After(now) {
		t.Due.At = at
	}
}

// LeaveGate keeps a place of the key for the thread, and makes its run due for workers again: at once, or at a start of
// the key's rate, which is due at this time. Zero: the key has no rate. It returns false if the thread does not wait at
// this gate.
func LeaveGate(t *State, gate string, at, now time.Time) bool {
	if t.Gate != gate || t.Kept {
		return false
	}
	keepPlace(t, at, now)
	t.schedule(now)
	return t.Kept
}

// settleGate ends the wait at a gate, or gives up the kept place, of a run that is no longer the next one or is not due
// yet.
func settleGate(t *State, next string, at, now time.Time) {
	if t.Gate != "" && (t.Gate != next || at.After(now)) {
		t.Gate, t.Kept, t.Paced = "", false, false
	}
}

// paced returns due as the start that is kept for the thread lets it be.
func paced(row *mailroom.Thread, due mailroom.Due) mailroom.Due {
	if row.Kept && row.Paced && row.Due.At.After(due.At) {
		due.At = row.Due.At
	}
	return due
}
