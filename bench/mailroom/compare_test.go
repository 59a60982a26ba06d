package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A ratio compares figures of the same round, so that a slow round of both programs changes no ratio.
func TestAComparisonDividesTheFiguresOfEachRound(t *testing.T) {
	round := func(this, other float64) ComparisonRounds {
		return ComparisonRounds{This: &Result{Runs: &Load{RunsPerSecond: this}},
			Other: &Result{Runs: &Load{RunsPerSecond: other}}}
	}
	got := compareFigures([]ComparisonRounds{round(200, 100), round(20, 10), round(90, 30)})
	want := []ComparedFigure{{
		Name: "full load: runs/s", This: Spread{90, 20, 200}, Other: Spread{30, 10, 100}, Ratio: Spread{2, 2, 3},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func TestAComparisonLeavesOutWhatOneProgramDoesNotMeasure(t *testing.T) {
	got := compareFigures([]ComparisonRounds{
		{This: &Result{Runs: &Load{RunsPerSecond: 1, CPUPerRun: 1}}, Other: &Result{Runs: &Load{RunsPerSecond: 1}}},
	})
	if len(got) != 1 || got[0].Name != "full load: runs/s" {
		t.Errorf("got %+v, want the rate only", got)
	}
}

func TestTheMedianOfAnEvenNumberOfValuesIsBetweenTheMiddleOnes(t *testing.T) {
	if got, want := spreadOf([]float64{4, 1, 2, 10}), (Spread{3, 1, 10}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
