package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds that an attack must not exceed.
const (
	mostMemory = 300 << 20              // peak memory of the server, in bytes
	mostWait   = 250 * time.Millisecond // wait for a submit, in addition to the wait without the attack
)

// Bounds below which a machine counts as calm. Only on a calm machine can an attack be blamed for a wait.
const (
	calmWait   = mostWait / 2 // wait for a submit without the attack
	calmOthers = 0.25         // processors that other programs use
)

// mostTries is how often an attack is tried if its wait exceeds the bound. Other programs can only lengthen a wait.
// So the attack is to blame only if the wait exceeds the bound in each try, and the machine was calm around each try.
const mostTries = 3

// try is the cost of an attack on a new server. The waits with and without the attack are measured one after the
// other, because other programs share the machine.
type try struct {
	cpu    time.Duration
	peak   int64
	wait   time.Duration // the longest wait for a submit during the attack
	before time.Duration // the longest one in the second before the attack
	after  time.Duration // the longest one after a slow attack, for as long as it lasted
	others float64       // processors that other programs used during the attack
	died   bool
}

// without returns the longest wait without the attack.
func (t try) without() time.Duration { return max(t.before, t.after) }

// slow reports whether the wait exceeds the bound.
func (t try) slow() bool { return t.wait > t.without()+mostWait }

// calm reports whether other programs used little of the machine around the try.
func (t try) calm() bool { return t.without() <= calmWait && t.others <= calmOthers }

// verdict is the result of all tries of an attack.
type verdict struct {
	exceeded []string // bounds
	unjudged string   // why the wait could not be judged; "" if it was
}

// judge returns the verdict about an attack. A wait counts only on a calm machine; memory and the end of the server
// count always, because other programs do not affect them.
func judge(tries []try) (v verdict) {
	died, memory, slow, calm := false, false, len(tries) > 0, true
	others, without := 0.0, time.Duration(0)
	for _, t := range tries {
		died, memory = died || t.died, memory || t.peak > mostMemory
		slow, calm = slow && t.slow(), calm && t.calm()
		others, without = max(others, t.others), max(without, t.without())
	}
	if died {
		v.exceeded = append(v.exceeded, "THE SERVER ENDED")
	}
	if memory {
		v.exceeded = append(v.exceeded, "memory")
	}
	switch {
	case !slow || died:
	case calm:
		v.exceeded = append(v.exceeded, "wait")
	default:
		v.unjudged = fmt.Sprintf(
			"machine too busy to judge the wait: others use %.1f processors, without the attack a submit waits up to %.0f ms",
			others, milliseconds(without))
	}
	return v
}

func (v verdict) String() string {
	said := v.exceeded
	if v.unjudged != "" {
		said = append(said, v.unjudged)
	}
	return strings.Join(said, ", ")
}

// best returns the try with the shortest wait. The longer waits of the other tries may be due to other programs.
func best(tries []try) try {
	found := tries[0]
	for _, t := range tries[1:] {
		if t.wait < found.wait {
			found = t
		}
	}
	return found
}

// busyTime returns how long the processors of the machine have worked for processes, or for other machines on the
// same host, since it started (proc(5), the first line of stat, in ticks of 10 ms). The time of interrupts is left
// out, because it belongs to no process and is mostly caused by the attack.
func busyTime(stat []byte) time.Duration {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0
	}
	var ticks int64
	for _, at := range []int{1, 2, 3, 8} { // user, nice, system, steal
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
