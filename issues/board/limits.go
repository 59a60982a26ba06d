package board

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"mailroom/channel/httpcall"
)

// maxLimit bounds a pause that a platform asks for. The limits of both platforms are renewed within an hour.
const maxLimit = time.Hour

// Limits follows the rate limits of a token at a platform that counts them in headers: X-Ratelimit-NAME-Remaining and
// X-Ratelimit-NAME-Reset, the time at which the limit is renewed. A limit without a name has no NAME.
type Limits struct {
	names []string
	unit  time.Duration // of X-Ratelimit-Reset, since the Unix epoch
	least time.Duration // pause after a refusal that names none

	// Owned by mu.
	mu       sync.Mutex
	until    time.Time         // no call before it
	left     map[string]string // what is left of each limit, by name, as the platform says
	answered time.Time         // time of the last answer by the clock of the platform; zero: it had none
}

// NewLimits returns the limits of these names.
func NewLimits(unit, least time.Duration, names ...string) *Limits {
	return &Limits{names: names, unit: unit, least: least, left: map[string]string{}}
}

// Left returns what is left of a limit, as the platform says; "" if it has not said it.
func (l *Limits) Left(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left[name]
}

// Answered returns the time of the last answer by the clock of the platform. It is zero if the answer had no time.
func (l *Limits) Answered() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

// Wait returns how long no call may be made. A program that goes on calling may be banned.
func (l *Limits) Wait(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.until.Sub(now), 0)
}

// Note remembers what a response says, and returns how long no call may follow. limited says that the call was refused
// because of a limit.
func (l *Limits) Note(r httpcall.Response, limited bool, now time.Time) (pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered, _ = http.ParseTime(r.Header.Get("Date"))
	server := ServerTime(r, now)
	spent := false
	for _, name := range l.names {
		prefix := "X-Ratelimit-"
		if name != "" {
			prefix += name + "-"
		}
		left := r.Header.Get(prefix + "Remaining")
		if _, err := strconv.ParseFloat(left, 64); err != nil {
			continue
		}
		l.left[name] = left
		if left != "0" {
			continue
		}
		spent = true
		reset, err := strconv.ParseInt(r.Header.Get(prefix+"Reset"), 10, 64)
		if err == nil && reset > 0 && reset < math.MaxInt64/int64(l.unit) {
			at := time.Unix(0, 0).Add(time.Duration(reset) * l.unit)
			pause = max(pause, at.Sub(server)+time.Second)
		}
	}
	if after := r.RetryAfter(); after > 0 && (limited || spent) {
		pause = after
	}
	if pause <= 0 && limited {
		pause = l.least
	}
	pause = min(max(pause, 0), maxLimit)
	if until := now.Add(pause); until.After(l.until) {
		l.until = until
	}
	return pause
}

// ServerTime returns the time of a response by the clock of the server, or now if the response has none.
func ServerTime(r httpcall.Response, now time.Time) time.Time {
	if at, err := http.ParseTime(r.Header.Get("Date")); err == nil {
		return at
	}
	return now
}
