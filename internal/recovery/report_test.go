package recovery_test

import (
	"os"
	"strings"
	"testing"

	"mailroom/internal/recovery"
)

const stack = "\nmain.work(...)\n\t/src/main.go:7 +0x1d\n"

func TestACrashReportShowsWhetherARunCausedIt(t *testing.T) {
	for _, c := range []struct {
		name, report string
		want         bool // the goroutine belonged to no run
	}{
		{"nothing", "", false},
		{"a panic of no run", "panic: broken\n\ngoroutine 7 [running]:" + stack, true},
		{"a panic of a run", "panic: broken\n\ngoroutine 7 [running, labels:{\"run\": \"r1\"}]:" + stack, false},
		{"a run's, with other labels", "panic: broken\n\ngoroutine 7 [running, labels:{\"a\": \"b\", \"run\": \"r1\"}]:" + stack, false},
		{"another label that quotes the run's", `goroutine 7 [running, labels:{"a": "\"run\": \"r1\""}]:` + stack, true},
		{"a panic locked to its thread", "goroutine 1 [running, locked to thread]:" + stack, true},
		{"an error of the runtime", "goroutine 7 gp=0xc000007c00 m=3 mp=0xc000100008 [running]:" + stack, true},
		{"an error of the runtime, of a run",
			"goroutine 7 gp=0xc000007c00 m=3 mp=0xc000100008 [running, labels:{\"run\": \"r1\"}]:" + stack, false},
		{"a stack overflow of a run",
			"runtime stack:\nruntime.throw()\n\ngoroutine 9 gp=0x1 m=0 mp=0x2 [running, labels:{\"run\": \"r\"}]:" + stack,
			false},
		{"a signal from outside", "goroutine 0 gp=0x1 m=0 mp=0x2 [idle]:\n\ngoroutine 7 [running]:" + stack, false},
		{"on another thread", "runtime stack:\n\ngoroutine 7 [running]:\n\tgoroutine running on other thread; stack unavailable\n", false},
		{"a text that looks like a goroutine",
			"panic: x\n\tgoroutine 1 [running]:\n\ngoroutine 7 [running, labels:{\"run\": \"r1\"}]:" + stack, false},
		{"cut off", "panic: broken\n\ngoroutine 7 [running]:", false},
		{"cut off in the labels", "panic: broken\n\ngoroutine 7 [running", false},
		{"text alone", "panic: broken\n", false},
	} {
		if got := recovery.OutsideRun([]byte(c.report)); got != c.want {
			t.Errorf("%s: of no run: %v, want %v", c.name, got, c.want)
		}
	}
}

// FuzzOutsideRun checks that the result depends only on the runtime's whole line, for any panic text.
func FuzzOutsideRun(f *testing.F) {
	f.Add("broken", "r1", 10)
	f.Add("x\n\ngoroutine 1 [running]:\nmain.main()", "r1", 40)
	f.Add("goroutine 1 [running]:", "}]:\ngoroutine 1 [running]:\n", 0)
	f.Fuzz(func(t *testing.T, text, run string, cut int) {
		begin := "panic: " + strings.ReplaceAll(text, "\n", "\n\t") + "\n\n"
		quoted := strings.NewReplacer("\n", `\n`, `"`, `\"`, `\`, `\\`).Replace(run)
		of := begin + `goroutine 7 [running, labels:{"run": "` + quoted + `"}]:` + stack
		free := begin + "goroutine 7 [running]:" + stack
		if recovery.OutsideRun([]byte(of)) {
			t.Errorf("OutsideRun(%q) = true, want false for a run's crash", of)
		}
		if !recovery.OutsideRun([]byte(free)) {
			t.Errorf("OutsideRun(%q) = false, want true", free)
		}
		if n := min(max(cut, 0), len(of)); recovery.OutsideRun([]byte(of[:n])) {
			t.Errorf("OutsideRun(%q) = true, want false for a truncated report", of[:n])
		}
		if n := min(max(cut, 0), len(begin)); recovery.OutsideRun([]byte(free[:n])) {
			t.Errorf("OutsideRun(%q) = true, want false for a truncated report", free[:n])
		}
		recovery.OutsideRun([]byte(text)) // must not panic
	})
}

func TestLabelsArePrintedBesideOtherSettings(t *testing.T) {
	for given, want := range map[string]string{
		"":                             "tracebacklabels=1",
		"netdns=go":                    "netdns=go,tracebacklabels=1",
		"tracebacklabels=0,netdns=go,": "tracebacklabels=0,netdns=go,tracebacklabels=1",
		"netdns=go,tracebacklabels=1":  "netdns=go,tracebacklabels=1",
	} {
		t.Setenv("GODEBUG", given)
		if err := recovery.PrintLabels(); err != nil {
			t.Fatal(err)
		}
		if got := os.Getenv("GODEBUG"); got != want {
			t.Errorf("GODEBUG %q becomes %q, want %q", given, got, want)
		}
	}
}
