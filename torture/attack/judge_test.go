package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestOnlyAWaitThatACalmMachineRepeatsIsBlamedOnTheAttack(t *testing.T) {
	fast := try{wait: 200 * ms, before: 5 * ms}
	slow := try{wait: 300 * ms, before: 5 * ms, after: 6 * ms}
	beside := try{wait: 900 * ms, before: 5 * ms, after: 700 * ms} // the wait after the attack is as long
	busy := slow
	busy.others = 1.5
	jumpy := try{wait: 900 * ms, before: 5 * ms, after: 300 * ms}
	for name, c := range map[string]struct {
		tries    []try
		exceeded []string
		judged   bool
	}{
		"within the bound":                   {[]try{fast}, nil, true},
		"within the wait without the attack": {[]try{beside}, nil, true},
		"slow in each try":                   {[]try{slow, slow, slow}, []string{"wait"}, true},
		"fast in one try":                    {[]try{slow, slow, fast}, nil, true},
		"fast in one try on a busy machine":  {[]try{busy, busy, fast}, nil, true},
		"slow beside other programs":         {[]try{busy, busy, busy}, nil, false},
		"slow once beside other programs":    {[]try{slow, busy, slow}, nil, false},
		"slow where submits wait anyway":     {[]try{jumpy, slow, slow}, nil, false},
		"memory beside other programs":       {[]try{{peak: mostMemory + 1, others: 2}}, []string{"memory"}, true},
		"memory in a try that was repeated": {[]try{{peak: mostMemory + 1, wait: 300 * ms}, fast},
			[]string{"memory"}, true},
		"the server ended, on a busy machine": {[]try{{died: true, wait: 900 * ms, others: 2}}, []string{"THE SERVER ENDED"},
			true},
		"memory, and a wait of a busy machine": {
			[]try{{peak: mostMemory + 1, wait: 300 * ms, others: 2}, busy, busy}, []string{"memory"}, false},
	} {
		got := judge(c.tries)
		if !reflect.DeepEqual(got.exceeded, c.exceeded) || (got.unjudged == "") != c.judged {
			t.Errorf("%s: got %+v, want exceeded %q, judged %t", name, got, c.exceeded, c.judged)
		}
	}
}

func TestAnUnjudgedAttackReportsTheLoadOfTheMachine(t *testing.T) {
	busy := try{wait: 900 * ms, before: 310 * ms, others: 1.52}
	want := "machine too busy to judge the wait: others use 1.5 processors, without the attack a submit waits up to 310 ms"
	if got := judge([]try{busy, busy, busy}).String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheExitCodeDistinguishesABoundFromABusyMachine(t *testing.T) {
	for _, c := range []struct {
		count tally
		want  int
	}{
		{tally{done: 3}, 0}, {tally{done: 3, exceeded: 1}, 1}, {tally{done: 3, unjudged: 1}, 3}, {tally{done: 3, exceeded: 1, unjudged: 1}, 1},
	} {
		if got := c.count.code(); got != c.want {
			t.Errorf("%+v: exit code %d, want %d", c.count, got, c.want)
		}
	}
}

func TestTheTimeOfTheProcessorsLeavesOutIdlenessAndInterrupts(t *testing.T) {
	if got, want := busyTime([]byte("cpu  100 20 30 9999 50 60 70 8 0 0\ncpu0 1 2 3\n")), 1580*ms; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, damaged := range []string{"", "cpu 1 2", "intr 1 2 3 4 5 6 7 8 9", "cpu a b c d e f g h"} {
		if got := busyTime([]byte(damaged)); got != 0 {
			t.Errorf("%q: %s", damaged, got)
		}
	}
	raw, err := os.ReadFile("/proc/stat")
	if err == nil && strings.HasPrefix(string(raw), "cpu ") && busyTime(raw) <= 0 {
		t.Errorf("this machine: %s of %.80s", busyTime(raw), raw)
	}
}
