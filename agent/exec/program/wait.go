package program

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

type retryAfter = time.Duration

var (
	again  = regexp.MustCompile(`(?i)(?:try again|retry)(?: in| after):? ((?:[0-9.]+ ?[a-z]+,? ?)+)`)
	amount = regexp.MustCompile(`(?i)([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|d)[a-z]*`)
)

// maxRetryAfter bounds what is believed of a text.
const maxRetryAfter = 24 * time.Hour

// parseRetryAfter is how long a provider's words ask to be left alone: "try again in 3
// hours 20 minutes". 0 if they do not.
func parseRetryAfter(text string) time.Duration {
	m := again.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	units := map[string]time.Duration{
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}
	var sum time.Duration
	for _, part := range amount.FindAllStringSubmatch(m[1], -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil || n > 1e9 {
			return 0
		}
		sum += time.Duration(n * float64(units[strings.ToLower(part[2])]))
	}
	return min(sum, maxRetryAfter)
}
