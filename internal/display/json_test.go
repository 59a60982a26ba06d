package display_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"mailroom/internal/display"
)

func TestJSONIsShownWithoutTheEscapesOfHTML(t *testing.T) {
	for text, want := range map[string]string{
		`{"cmd":"ls \u003elist \u0026\u0026 cat \u003C list"}`: `{"cmd":"ls >list && cat < list"}`,
		`"\\u003e \\\u003e \u00e9 \u0022"`:                     `"\\u003e \\> \u00e9 \u0022"`,
		`"\u003`:                                               `"\u003`, `\`: `\`, "": "", "null": "null",
	} {
		if got := display.JSON(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"a":["\u003e","\\\u0026"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var before, after any
		if json.Unmarshal([]byte(text), &before) != nil {
			_ = display.JSON(text) // does not panic
			return
		}
		if err := json.Unmarshal([]byte(display.JSON(text)), &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%q became %q: %v", text, display.JSON(text), err)
		}
	})
}
