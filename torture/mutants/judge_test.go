package main

import "testing"

func TestAMutantIsKilledOnlyByATestThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		want   fate
		test   string
	}{
		"a test fails":         {"=== RUN   TestA\n    a_test.go:1: got 2\n--- FAIL: TestA (0.00s)\nFAIL\n", killed, "TestA"},
		"a part of it fails":   {"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\nFAIL\n", killed, "TestA/b"},
		"a test panics":        {"=== RUN   TestA\npanic: deadlock: all goroutines in bubble are blocked\n\ngoroutine 7\n", killed, ""},
		"a test passes":        {"=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n", survived, ""},
		"a test waits forever": {"--- FAIL: TestA (0.00s)\n=== RUN   TestB\npanic: test timed out after 3m0s\n", notJudged, ""},
		"no test exists":       {"testing: warning: no tests to run\nPASS\nok  \tx\t0.1s [no tests to run]\n", notJudged, ""},
		"it does not compile":  {"# x\n./a.go:1:2: undefined: b\nFAIL\tx [build failed]\nFAIL\n", notJudged, ""},
		"a test prints panic":  {"    a_test.go:1: panic: no\n--- PASS: TestA (0.00s)\nPASS\n", survived, ""},
	} {
		if got := verdictOf(c.output); got.fate != c.want || got.test != c.test {
			t.Errorf("%s: got %q by %q, want %q by %q", name, got.fate, got.test, c.want, c.test)
		}
	}
}
