package main

import (
	"regexp"
	"strings"
)

// outcome is the result of a fuzz target.
type outcome struct {
	failed   bool
	input    string // the file of the failing input
	cutShort bool   // the target passed, but ended with the error of golang/go#75804
}

// written matches the line that names the file of a failing input.
var written = regexp.MustCompile(`(?m)^\s*Failing input written to (\S+)$`)

// judge returns the outcome of a target from its output and its exit.
//
// When the time of a target is over, the fuzzing coordinator of Go may take the end of its own deadline for a failure
// of a worker. The target then fails with nothing but "context deadline exceeded", and without an input
// (golang/go#75804, in Go 1.26). That says nothing about the code under test.
func judge(output string, err error) outcome {
	if err == nil {
		return outcome{}
	}
	if found := written.FindStringSubmatch(output); found != nil {
		return outcome{failed: true, input: found[1]}
	}
	_, after, failed := strings.Cut(output, "--- FAIL: ")
	_, reason, _ := strings.Cut(after, "\n")
	reason, _, _ = strings.Cut(reason, "\nFAIL")
	if failed && strings.TrimSpace(reason) == "context deadline exceeded" {
		return outcome{cutShort: true}
	}
	return outcome{failed: true}
}
