package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// sizeUnits returns the units of sizes, largest first.
func sizeUnits() []sizeUnit {
	return []sizeUnit{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

type sizeUnit struct {
	name  string
	bytes int
}

// Size returns the Value of a number of bytes in *p, from least to most, that is written with a unit.
func Size[N int | int64](p *N, least, most int) Value {
	allowed := fmt.Sprintf("a size from %s to %s, such as %q", formatSize(least), formatSize(most), "64KiB")
	return Of(p, allowed, func(v any) (N, bool) {
		s, isText := v.(string)
		n, known := parseSize(s)
		return N(n), isText && known && n >= least && n <= most
	}, func(n N) any { return formatSize(int(n)) })
}

func parseSize(s string) (n int, ok bool) {
	for _, u := range sizeUnits() {
		if digits, found := strings.CutSuffix(s, u.name); found {
			n, err := strconv.ParseUint(digits, 10, 63)
			return int(n) * u.bytes, err == nil && n <= 1<<50/uint64(u.bytes)
		}
	}
	return 0, false
}

func formatSize(n int) string {
	if n == 0 {
		return "0B"
	}
	for _, u := range sizeUnits() {
		if n%u.bytes == 0 {
			return strconv.Itoa(n/u.bytes) + u.name
		}
	}
	return strconv.Itoa(n) + "B"
}
