package jsontext

import (
	"strconv"
	"testing"
)

func TestARepeatedNameIsFound(t *testing.T) {
	for n := range 20 {
		var names Names
		for i := range n {
			if !names.Add([]byte(strconv.Itoa(i))) {
				t.Errorf("Add(%d) = false, want true at first", i)
			}
		}
		for i := range n {
			if names.Add([]byte(strconv.Itoa(i))) {
				t.Errorf("Add(%d) = true the second time, of %d", i, n)
			}
		}
	}
}

func TestHalvesOfSurrogatesAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		`"\ud83d\ude00"`: false, `"\ud83d"`: true, `"\ude00\ud83d"`: true, `"\ud83d\u0041"`: true, `"\ud83d\\ude00"`: true,
		`"\\ud83d"`: false, `"\u0041\n"`: false, `"\ud83d\ude00\ud83d"`: true, `"\`: false, `"\u00`: false,
	} {
		if got := HasLoneSurrogate([]byte(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
