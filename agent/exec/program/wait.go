package program

import (
	"strconv"
	"strings"
	"time"

	"mailroom/internal/lazyregexp"
)

type retryAfter = time.Duration

var (
	again  = lazyregexp.New(`(?i)(?:try again|retry)(?: in| after):? ((?:[0-9.]+ ?[a-z]+,? ?)+)`)
	amount = lazyregexp.New(`(?i)([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|d)[a-z]*`)
)

// maxRetryAfter bounds the delay that a message can request.
const maxRetryAfter = 24 * time.Hour

// parseRetryAfter returns the delay that an error message asks for, such as "try again in 3 hours
// 20 minutes", or 0.
func parseRetryAfter(text string) time.Duration {
	m := again().FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	units := map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}
	var sum time.Duration
	for _, part := range amount().FindAllStringSubmatch(m[1], -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil || n > 1e9 {
			return 0
		}
		sum += time.Duration(n * float64(units[strings.ToLower(part[2])]))
	}
	return min(sum, maxRetryAfter)
}
