package ledger_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// outcomes counts the kinds of entries of a history, and the ends of its runs.
func (m *model) outcomes() {
	for _, log := range m.after.Logs {
		for _, raw := range log {
			var e struct{ Kind string }
			if json.Unmarshal([]byte(raw), &e) == nil {
				m.coverage["entry "+e.Kind]++
			}
		}
	}
	for _, r := range m.after.Runs {
		end := fmt.Sprint("run ", r.Status, " ", r.Reason)
		if r.Error != nil {
			end += string(r.Error.Class)
		}
		m.coverage[strings.TrimSpace(end)]++
	}
}

// TestTheHistoriesReachEveryOperation plays the histories of one seed and checks that every operation,
// refusal and end of a run occurs in them, because the random tests check only those that occur. No refusal changes
// anything. -v prints the counts.
func TestTheHistoriesReachEveryOperation(t *testing.T) {
	setFlag(t, "rapid.seed", "28")
	setFlag(t, "rapid.checks", "160")
	setFlag(t, "rapid.steps", "60")
	came, ran := coverage{}, coverage{}
	rapid.Check(t, func(rt *rapid.T) {
		w := twinOf(rt, 1, onMemory())
		w.quick = true
		for name, n := range play(rt, w) {
			came[name] += n
		}
		for name, n := range w.operations {
			ran[name] += n
		}
	})
	for _, name := range slices.Sorted(maps.Keys(came)) {
		t.Logf("%6d %s", came[name], name)
	}
	for _, name := range coveredOperations() {
		if came[name] == 0 {
			t.Errorf("never occurred: %s", name)
		}
	}
	for _, name := range operationNames(t) {
		if ran[name] == 0 && !slices.Contains(apart(), name) {
			t.Errorf("the histories never run operation %s, so that no refusal of it is checked", name)
		}
	}
}

// apart returns the operations that the histories do not run. Ids that differ between the stores are drawn in some; the
// others need a clock that steps back, a program that fails, a server that is gone, a changed limit, or a thread of
// thousands of entries. Each is in a test of its own, with the same check of refusals.
func apart() []string {
	return []string{
		"sign_in", "sign_out", "end_replaced", "cancel revoked", "check_clock", "replan", "end_probe", "drop",
		"drop_summaries", "raise_budget",
		"release_sticky", "open_gates", "sweep_limits",
	}
}

// operationNames returns the names of all operations in the source.
func operationNames(t *testing.T) (names []string) {
	t.Helper()
	named := regexp.MustCompile(
		`(?:op\{name: |\bon(?:Run|Message|Project|Reservation)\((?:\w+, )?(?:l, |ps\.ledger, )?|plan\.op\()"([^"]+)"`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
	}
	if len(names) < 50 {
		t.Errorf("found the operations %q, fewer than there are", names)
	}
	return names
}

// coveredOperations returns the operations with their refusals, the dispositions of submits, the kinds
// of entries and the ends of runs that must occur.
func coveredOperations() (names []string) {
	for _, of := range []string{
		"append, append again, append: conflict, ask, ask: conflict, ask: invalid, flush, steered, effect, effects",
		"blob written, blob repeated, blob replaced, blob deleted",
		"upload, upload: conflict, drop upload, late upload: lease_lost",
		"late append: lease_lost, late flush: lease_lost, late settle: lease_lost, late steered: lease_lost",
		"settle complete, settle fail, settle release, settle again, park, park: conflict, park: invalid",
		"cancel, cancel: conflict, cancel tree, interrupt, interrupt: not_found, retry, retry: conflict",
		"give way, gave way, claim, claim: lease_lost, register, renew, renew: lease_lost, leave, sweep, orphans, end local",
		"decide, decide: conflict, decide: gone, decide: invalid, submit decisions, submit decisions: conflict",
		"submit, submit queued, submit steered, submit collected, submit resumed, submit duplicate",
		"submit: busy, submit: not_found, append: not_found, submit: conflict, submit: invalid, submit: rate_limited",
		"edit, edit: conflict, edit: not_found, retract, retract: conflict, retract: not_found",
		"create token, create token: conflict, revoke token, revoke token: not_found, tokens used",
		"define, forget, delete, delete: conflict, delete: not_found, deliver, patch, purge, purged run",
		"run of a session, run of bounded crashes, run completed, run failed crashed, run failed exhausted, run failed permanent",
		"run cancelled cancelled, run cancelled deadline, run cancelled interrupted, run cancelled retracted, run cancelled superseded",
		"entry effect.settled, entry effect.unknown, entry message.read, entry run.resumed, entry run.stop_requested",
		"notify, notify: invalid, notify: not_found, inbox, inbox: invalid, acknowledge, acknowledge: invalid, expire notifications",
		"reserve, reserve: conflict, reserve: not_found, renew reservation, release reservation, release reservation: not_found",
		"pause, resume, resume: conflict, cursor, cursor: conflict, take duty, take duty: lease_lost, release duty",
		"record, entry audit",
		"lent, entry budget.low, entry budget.spent, entry budget.raised, run completed budget",
		"open, open: conflict, append entry, set quotas, set quotas: not_found, submit all, submit all: busy",
		"entry send, entry step, entry ticket.decided, entry ticket.expired, entry tool.started, entry tool.finished, entry x.note",
	} {
		names = append(names, strings.Split(of, ", ")...)
	}
	return names
}
