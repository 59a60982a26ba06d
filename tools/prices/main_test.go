package main

import (
	"os"
	"strings"
	"testing"
)

func TestTheTableOfPricesIsWhatItsSourceSays(t *testing.T) {
	want, err := generate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s is not what %s %s says; run `go run .` in tools/prices", table, module, version)
	}
	if n := strings.Count(string(want), "\n"); n < 80 {
		t.Errorf("the table has only %d lines", n)
	}
}

func TestAPriceOfTheCacheIsNeverTooLow(t *testing.T) {
	for name, test := range map[string]struct {
		model model
		want  string
	}{
		"both":           {model{"m", 2, 10, 2.5, 0.1}, "m 2 10 0.1 2.5"},
		"read only":      {model{"m", 2, 10, 0, 0.5}, "m 2 10 0.5 2"},
		"read elsewhere": {model{"m", 2, 10, 0.2, 0}, "m 2 10 0.2 2"},
		"neither":        {model{"m", 2, 10, 0, 0}, "m 2 10 2 2"},
		"too high":       {model{"m", 0.25, 1.5, 0, 1.5}, "m 0.25 1.5 0.25 0.25"},
		"not exact":      {model{"m", 0.39999999999999997, 1, 0, 0.0000001}, "m 0.4 1 0.000001 0.4"},
	} {
		if got, ok, err := test.model.line(); got != test.want || !ok || err != nil {
			t.Errorf("%s: got %q, %t, %v, want %q", name, got, ok, err, test.want)
		}
	}
	if _, ok, err := (model{ID: "free"}).line(); ok || err != nil {
		t.Errorf("a model without a price has one: %v", err)
	}
}
