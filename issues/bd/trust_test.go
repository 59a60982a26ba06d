package bd

import (
	"strings"
	"testing"
)

func TestOnlyYesTrustsCommands(t *testing.T) {
	for answer, want := range map[string]bool{"yes\n": true, " YES \n": true, "yes": true, "y\n": false, "\n": false,
		"": false, "no\nyes\n": false, "yes please\n": false} {
		var talk strings.Builder
		f := &trusting{m: &Main{out: output{stderr: &talk}}}
		if err := f.confirm(strings.NewReader(answer)); (err == nil) != want {
			t.Errorf("%q: %v", answer, err)
		}
		if !strings.Contains(talk.String(), "Type yes") {
			t.Errorf("the question is %q", talk.String())
		}
	}
}
