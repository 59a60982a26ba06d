package server

import (
	"fmt"
	"sync"
	"time"

	"mailroom"
)

// slots bounds how many streams or sockets each token has open.
type slots struct {
	limit func(who string) int64 // slots of a caller; 0: no limit
	what  string

	mu   sync.Mutex
	open map[string]int // owned by mu
}

func newSlots(what string, limit func(who string) int64) *slots {
	return &slots{limit: limit, what: what, open: map[string]int{}}
}

// total returns the number of open slots of all tokens.
func (s *slots) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, taken := range s.open {
		n += taken
	}
	return n
}

// used returns the number of open slots of a token.
func (s *slots) used(who string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[who]
}

// acquire opens a slot for a token. Its refusal has the code rate_limited and not
// [mailroom.CodeQuotaExceeded], because slots become free when streams end.
func (s *slots) acquire(who string) (release func(), err error) {
	most := s.limit(who)
	s.mu.Lock()
	defer s.mu.Unlock()
	if used := s.open[who]; most > 0 && int64(used) >= most {
		return nil, &mailroom.Error{
			Code: mailroom.CodeRateLimited, RetryAfter: time.Second,
			Message: fmt.Sprintf("this token has %d of %d %s open: close some", used, most, s.what),
		}
	}
	s.open[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[who]--; s.open[who] == 0 {
			delete(s.open, who)
		}
	}, nil
}
