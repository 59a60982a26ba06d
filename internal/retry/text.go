package retry

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"mailroom"
)

// Parts names the parts of the text of a policy, for messages.
const Parts = "attempts=5, first=10s, factor=2, most=5m, outage_most=5m and outage=12h"

// Parse parses a policy in the form of the command line, such as "first=10s,factor=2": any of [Parts], each at most
// once. "" is the zero Policy. The error names the part.
func Parse(text string) (p Policy, err error) {
	for rest, more := text, text != ""; more; {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		name, value, _ := strings.Cut(part, "=")
		if err := p.set(name, value); err != nil {
			return Policy{}, err
		}
	}
	return p, p.Check()
}

// set sets one part that is not set yet.
func (p *Policy) set(name, text string) error {
	switch to := p.duration(name); {
	case name == "attempts":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > MaxAttempts {
			return fmt.Errorf("attempts: %q is not a number from 1 to %d", text, MaxAttempts)
		}
		return once(name, &p.Attempts, n)
	case name == "factor":
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n >= MinFactor && n <= MaxFactor) { // also not NaN
			return fmt.Errorf("factor: %q is not a number from %d to %d", text, MinFactor, MaxFactor)
		}
		return once(name, &p.Factor, n)
	case to == nil:
		return fmt.Errorf("unknown part %q; use %s", name, Parts)
	default:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%s: %q is not a duration such as 30s", name, text)
		}
		if least := least(name); d < least || d > MaxDelay {
			return fmt.Errorf("%s: %q is not from %s to %s", name, text, format(least),
				format(MaxDelay))
		}
		return once(name, to, d)
	}
}

func once[N comparable](name string, to *N, n N) error {
	var zero N
	if *to != zero {
		return fmt.Errorf("%s is given twice", name)
	}
	*to = n
	return nil
}

func (p *Policy) duration(name string) *time.Duration {
	return map[string]*time.Duration{"first": &p.First, "most": &p.Most, "outage_most": &p.OutageMost,
		"outage": &p.Outage}[name]
}

func least(name string) time.Duration {
	if name == "outage" {
		return MinOutage
	}
	return MinDelay
}

// Check returns an error if a field is out of its bounds, or if Most is shorter than First. Zero fields are not given.
func (p Policy) Check() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"first", p.First}, {"most", p.Most}, {"outage_most", p.OutageMost}, {"outage", p.Outage}} {
		if d.d != 0 && (d.d < least(d.name) || d.d > MaxDelay) {
			return fmt.Errorf("%s: %s is not from %s to %s", d.name, format(d.d),
				format(least(d.name)), format(MaxDelay))
		}
	}
	switch {
	case p.Attempts < 0 || p.Attempts > MaxAttempts:
		return fmt.Errorf("attempts: %d is not from 1 to %d", p.Attempts, MaxAttempts)
	case p.Factor != 0 && !(p.Factor >= MinFactor && p.Factor <= MaxFactor):
		return fmt.Errorf("factor: %v is not a number from %d to %d", p.Factor, MinFactor, MaxFactor)
	case p.Most != 0 && p.First > p.Most:
		return fmt.Errorf("most: %s is shorter than first, %s", format(p.Most), format(p.First))
	}
	return nil
}

// String returns the text from which Parse reads p, without the fields that are zero.
func (p Policy) String() string {
	var parts []string
	if p.Attempts != 0 {
		parts = append(parts, "attempts="+strconv.Itoa(p.Attempts))
	}
	add := func(name string, d time.Duration) {
		if d != 0 {
			parts = append(parts, name+"="+format(d))
		}
	}
	add("first", p.First)
	if p.Factor != 0 {
		parts = append(parts, "factor="+strconv.FormatFloat(p.Factor, 'g', -1, 64))
	}
	add("most", p.Most)
	add("outage_most", p.OutageMost)
	add("outage", p.Outage)
	return strings.Join(parts, ",")
}

// Of returns the policy that the last claim of a run has recorded in its row, with zero fields for the defaults. A run
// that was never claimed has what its submit said.
func Of(r *mailroom.Run) Policy {
	if r.Attempt == 0 {
		own, _ := Parse(r.SubmitRetry) // checked at the submit
		own.Attempts = r.MaxAttempts
		return own
	}
	return Policy{Attempts: r.MaxAttempts, First: r.RetryFirst, Factor: r.RetryFactor, Most: r.RetryMost,
		OutageMost: r.RetryOutageMost, Outage: r.RetryOutage}
}

// format formats a duration without zero units: 1h, not 1h0m0s.
func format(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
