package display

import (
	"fmt"
	"strings"
)

// Dollars formats an amount of US dollars for people: $0, $0.000012, $0.0042, $12.50, $35748. Budgets count millionths,
// so less than that is "<$0.000001": what was spent never reads as nothing. The pages have the same rule
// (web/console/amounts.js).
func Dollars(usd float64) string {
	switch {
	case usd == 0:
		return "$0"
	case usd < 0:
		return "-" + Dollars(-usd)
	case usd < 0.000001:
		return "<$0.000001"
	case usd < 0.01:
		text := strings.TrimRight(fmt.Sprintf("%.6f", usd), "0")
		return "$" + text + strings.Repeat("0", max(0, len("0.0000")-len(text)))
	case usd < 1:
		return fmt.Sprintf("$%.4f", usd)
	case usd < 1000:
		return fmt.Sprintf("$%.2f", usd)
	}
	return fmt.Sprintf("$%.0f", usd)
}

// Cost formats what runs cost. The server computed a part of it from prices of models; the rest is what agents
// reported.
func Cost(usd, computed float64) string {
	switch {
	case computed <= 0:
		return Dollars(usd)
	case computed >= usd:
		return Dollars(usd) + " (computed)"
	}
	return fmt.Sprintf("%s (%s computed)", Dollars(usd), Dollars(computed))
}
