package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"mailroom/server/reference"
)

// stable returns the example with what differs between two recordings replaced: ids in the order in which they appear,
// and times, secrets and measurements by the name of their field.
func stable(t *testing.T, e reference.Example) reference.Example {
	t.Helper()
	raw := string(mustJSON(t, e))
	ids := map[string]string{}
	raw = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).ReplaceAllStringFunc(raw,
		func(id string) string {
			if ids[id] == "" {
				ids[id] = fmt.Sprintf("01994d2e-8c00-7000-8000-%012d", len(ids)+1)
			}
			return ids[id]
		})
	raw = regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(raw, strings.Repeat("5e1f0a9c", 8))
	raw = regexp.MustCompile(`:[A-Z2-7]{16}"`).ReplaceAllString(raw, `:EXAMPLEOFUPLOAD7"`) // random
	raw = regexp.MustCompile(`mr_[0-9A-Za-z]{20,}`).ReplaceAllString(raw, "mr_example")
	raw = regexp.MustCompile(`id: [0-9a-z]{12}-`).ReplaceAllString(raw, "id: eu2zkxl2pt5s-") // of the process
	for field, value := range fixed() {
		raw = regexp.MustCompile(`(\\?"`+field+`\\?": ?)(\\?"[^"\\]*\\?"|-?[0-9.e+-]+|\[[0-9, ]*\])`).ReplaceAllString(raw,
			"${1}"+value)
	}
	times := regexp.MustCompile(`(\\?"(\w+)\\?": ?\\?")20\d\d-\d\d-\d\dT[0-9:.]+Z`)
	raw = times.ReplaceAllStringFunc(raw, func(found string) string {
		at := strings.LastIndex(found, `"2`) + 1
		name := regexp.MustCompile(`\w+`).FindString(found)
		return found[:at] + timeOf(name)
	})
	raw = regexp.MustCompile(`(\\?"next\\?": ?)\[[^\]]*\]`).ReplaceAllString(raw, "${1}"+nextTimes)
	var out reference.Example
	if err := json.Unmarshal([]byte(raw), &out); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if strings.HasSuffix(out.Type, "json") {
		out.Response = indented(t, out.Response)
	}
	return out
}

// fixed are the values of fields that measure or are secret.
func fixed() map[string]string {
	secret := func(kind string) string { return `"` + kind + `-example"` }
	return map[string]string{
		"oldest_due_ms": "0", "start_delay_ms": "12", "ran_ms": "3400", "deadline_ms": "3600000", "downtime_ms": "0",
		"lease_ms":     "15000", // of a server; workers here have an hour, because none renews its lease
		"start_delays": "[1,0,0,0,0,0,0,0,0,0,0,0,0]",
		"secret":       secret("secret"), "half": secret("half"), "link": secret("link"), "public_key": secret("key"),
	}
}

// nextTimes are the next times of a schedule on weekdays at 7 in Berlin, in the minute of the examples.
const nextTimes = `["2026-03-03T06:00:00Z","2026-03-04T06:00:00Z","2026-03-05T06:00:00Z","2026-03-06T06:00:00Z",` +
	`"2026-03-09T06:00:00Z"]`

// timeOf returns the time of a field. All examples take place in one minute, so that they can be read together.
func timeOf(field string) string {
	switch field {
	case "started_at", "accepted_at":
		return "2026-03-02T09:00:01Z"
	case "finished_at", "decided_at", "updated_at", "last_at":
		return "2026-03-02T09:00:09Z"
	case "lease_until":
		return "2026-03-02T09:00:30Z"
	case "expires_at", "link_expires_at", "until":
		return "2026-03-02T10:00:00Z"
	case "from":
		return "2026-03-01T00:00:00Z"
	case "to":
		return "2026-03-03T00:00:00Z"
	}
	return "2026-03-02T09:00:00Z"
}

// indented formats JSON with its fields in their order.
func indented(t *testing.T, raw []byte) json.RawMessage {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		t.Fatalf("%v in %.200s", err, raw)
	}
	return out.Bytes()
}
