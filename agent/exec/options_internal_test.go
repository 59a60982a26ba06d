package exec

import (
	"encoding/json"
	"strings"
	"testing"

	"mailroom"
	"mailroom/agent/exec/program"
)

// The name of a model is an argument of the program, so it must not be another argument.
func TestAModelOfOptionsIsCheckedAndMustBeAllowed(t *testing.T) {
	for _, p := range program.All() {
		for _, c := range []struct {
			takes         []string
			options, want string
			fails         bool
		}{
			{nil, "", "", false},
			{nil, `{"model":"small"}`, "", true},
			{[]string{OptionModel}, `{"model":"small"}`, "small", false},
			{[]string{OptionModel}, `{"model":"--dangerously-skip-permissions"}`, "", true},
			{[]string{OptionModel}, `{"model":"a b"}`, "", true},
			{[]string{OptionModel}, `{"model":""}`, "", true},
			{[]string{OptionModel}, `{"model":7}`, "", true},
			{[]string{OptionModel}, `{"model":"` + strings.Repeat("x", 201) + `"}`, "", true},
			{[]string{OptionModel}, `{"model":"small","args":["x"]}`, "", true},
		} {
			built, err := NewProgram(ProgramOptions{Profile: p, TakesOptions: c.takes})
			if err != nil {
				t.Fatal(err)
			}
			got, err := built.(*programAgent).model(mailroom.RunView{Options: json.RawMessage(c.options)})
			if got != c.want || (err != nil) != c.fails {
				t.Errorf("%s, takes %q, options %s: %q, %v", p.Name, c.takes, c.options, got, err)
			}
		}
	}
}
