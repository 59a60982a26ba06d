package recovery

import (
	"bytes"
	"os"
	"strings"
)

// RunLabel is the key of the pprof label of each goroutine that works for a run; its value is the run's ID. Goroutines
// inherit the labels of the one that starts them.
const RunLabel = "run"

// PrintLabels makes the crash reports of this process print the labels of goroutines. The runtime has no other switch
// for it than GODEBUG, where the last value of a setting wins.
func PrintLabels() error {
	const setting = "tracebacklabels=1"
	given := os.Getenv("GODEBUG")
	if given != "" && !strings.HasSuffix(given, ",") {
		given += ","
	}
	return os.Setenv("GODEBUG", strings.TrimSuffix(given, setting+",")+setting)
}

// OutsideRun reports whether a crash report shows that the goroutine that crashed worked for no run. The report is what
// the Go runtime of a process that called [PrintLabels] wrote to its crash output. The answer is false where the report
// does not show it: it is empty or cut off, or a signal ended the process.
//
// The report begins with the panic's text, which may come from outside. The runtime puts a tab after each newline of
// the text, so the first line that begins with "goroutine " is the runtime's own, and names the goroutine that crashed.
func OutsideRun(report []byte) bool {
	for len(report) > 0 {
		line, rest, whole := bytes.Cut(report, []byte("\n"))
		if header, ok := bytes.CutPrefix(line, []byte("goroutine ")); ok {
			return whole && headerOutsideRun(header) && !bytes.HasPrefix(rest, []byte("\tgoroutine running on other thread"))
		}
		report = rest
	}
	return false
}

// headerOutsideRun reads the line of a goroutine, such as `7 gp=0xc0 m=3 mp=0xc1 [running, labels:{"run": "r1"}]:`.
// The runtime quotes keys and values of labels, so no value contains a quoted key.
func headerOutsideRun(header []byte) bool {
	_, state, ok := bytes.Cut(header, []byte(" ["))
	return ok && bytes.HasPrefix(state, []byte("running")) && bytes.HasSuffix(state, []byte("]:")) &&
		!bytes.Contains(state, []byte(`"`+RunLabel+`": `))
}
