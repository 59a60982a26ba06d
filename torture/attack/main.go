// Command attack does to a server what a hostile client could do. It runs one attack after the
// other, each on its own server and data folder, and prints the cost of each: CPU seconds, peak
// memory, and the longest wait for another token's submit, with and without the attack.
//
// The exit code is 1 if an attack exceeded a bound, and 3 if no attack did but the machine was too busy to judge some
// of them, because other programs lengthen waits too.
//
// All servers listen on the loopback address. Each attack is bounded in requests and in time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// attackTime bounds one attack.
const attackTime = 12 * time.Second

// attack is one hostile client.
type attack struct {
	name string
	run  func(ctx context.Context, t *target) error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	inside := flag.String("inside", "", "run one attack on the server in the environment (internal)")
	server := flag.String("server", "bin/mailroom", "server binary to attack")
	only := flag.String("only", "", "run only attacks whose name contains this")
	judged := flag.Bool("judge", true,
		"exit with code 1 if a bound is exceeded, and 3 if the machine is too busy to judge")
	flag.Parse()
	if *inside != "" {
		if err := runAttack(ctx, *inside); err != nil {
			fmt.Fprintln(os.Stderr, "attack:", err)
			os.Exit(2)
		}
		return
	}
	count, err := run(ctx, *server, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(2)
	}
	if *judged {
		os.Exit(count.code())
	}
}

// tally counts the attacks by their verdict.
type tally struct {
	done     int
	exceeded int // a bound
	unjudged int // the machine was too busy
}

// code returns the exit code.
func (c tally) code() int {
	switch {
	case c.exceeded > 0:
		return 1
	case c.unjudged > 0:
		return 3
	}
	return 0
}

// run runs the attacks.
func run(ctx context.Context, server, only string) (count tally, err error) {
	binary, err := filepath.Abs(server)
	if err != nil {
		return count, err
	}
	fmt.Printf("%-34s %9s %9s %9s %9s\n", "attack", "CPU s", "peak MiB", "wait ms", "without")
	for _, a := range attacks() {
		if !strings.Contains(a.name, only) {
			continue
		}
		tries, err := tryAll(ctx, binary, a)
		if err != nil {
			return count, fmt.Errorf("%s: %w", a.name, err)
		}
		v := judge(tries)
		count.done++
		if len(v.exceeded) > 0 {
			count.exceeded++
		}
		if v.unjudged != "" {
			count.unjudged++
		}
		r := best(tries)
		fmt.Printf("%-34s %9.2f %9.1f %9.0f %9.0f  %s\n", a.name, r.cpu.Seconds(), float64(r.peak)/(1<<20),
			milliseconds(r.wait), milliseconds(r.without()), v)
	}
	if count.done == 0 {
		return count, fmt.Errorf("no attack is named %q", only)
	}
	fmt.Printf("%d attacks, %d exceeded a bound (%d MiB, %s of additional wait, or an exit of the server)\n",
		count.done, count.exceeded, mostMemory>>20, mostWait)
	if count.unjudged > 0 {
		fmt.Printf("%d could not be judged: the machine was too busy. Run them again when it does nothing else.\n",
			count.unjudged)
	}
	return count, nil
}

// tryAll tries an attack until its wait is within the bound, up to mostTries times.
func tryAll(ctx context.Context, binary string, a attack) (tries []try, err error) {
	for len(tries) < mostTries {
		r, err := measure(ctx, binary, a)
		if err != nil {
			return nil, err
		}
		tries = append(tries, r)
		if !r.slow() || r.died {
			break
		}
	}
	return tries, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// measure starts a server, measures submits without and with the attack, and stops the server. If the attack
// lengthens the wait, measure repeats the measurement without the attack for as long as the attack lasted, because
// the longest of many waits is longer than the longest of a few.
func measure(ctx context.Context, binary string, a attack) (r try, err error) {
	t, err := start(ctx, binary)
	if err != nil {
		return r, err
	}
	defer t.stop()
	if r.before, err = probe(ctx, t, time.Second, nil); err != nil {
		return r, err
	}
	spent, machine, begin := t.cpu(), machineTime(), time.Now()
	own := ownTime()
	hostile, stop := context.WithCancel(ctx)
	var used time.Duration // processor time of the attack's process
	ended, over := make(chan error, 1), make(chan struct{})
	go func() { // waited for below
		defer close(over)
		var err error
		used, err = runInChild(hostile, t, a)
		ended <- err
	}()
	r.wait, err = probe(ctx, t, 0, ended)
	stop()
	<-over
	if err != nil && !t.hasExited() {
		return r, err
	}
	length := time.Since(begin)
	r.died = t.hasExited()
	r.cpu, r.peak = t.cpu()-spent, t.peak()
	r.others = max(0, (machineTime()-machine-r.cpu-used-(ownTime()-own)).Seconds()/length.Seconds())
	if r.slow() && !r.died {
		r.after, err = probe(ctx, t, length, nil)
	}
	return r, err
}

// machineTime returns how long all processors have worked, or 0 on a system that does not report it.
func machineTime() time.Duration {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return busyTime(raw)
}

// runInChild runs an attack in a child process with a low priority, so that its computations take
// no processor time from the server, as if it came from another machine. It returns the processor time of the child.
func runInChild(ctx context.Context, t *target, a attack) (used time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "15", self, "-inside", a.name)
	cmd.Env = append(os.Environ(), "ATTACK_URL="+t.url, "ATTACK_TOKEN="+t.token)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil {
		used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err != nil && ctx.Err() == nil && !t.hasExited() {
		return used, fmt.Errorf("%w: %.500s", err, out)
	}
	return used, nil
}

// runAttack runs an attack in this process.
func runAttack(ctx context.Context, name string) error {
	t := &target{url: os.Getenv("ATTACK_URL"), token: os.Getenv("ATTACK_TOKEN"), client: client()}
	t.addr = strings.TrimPrefix(t.url, "https://")
	ctx, cancel := context.WithTimeout(ctx, attackTime)
	defer cancel()
	for _, a := range attacks() {
		if a.name == name {
			if err := a.run(ctx, t); ctx.Err() == nil {
				return err
			}
			return nil
		}
	}
	return fmt.Errorf("no attack is named %q", name)
}
