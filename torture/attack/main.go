// Command attack does to a server what a hostile client could do. It runs one attack after the
// other, each on its own server and data folder, and prints the cost of each: CPU seconds, peak
// memory, and the longest wait for another token's submit, with and without the attack.
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

// Bounds that an attack must not exceed.
const (
	mostMemory = 300 << 20              // peak memory of the server, in bytes
	mostWait   = 250 * time.Millisecond // wait for a submit, in addition to the wait without the attack
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
	judge := flag.Bool("judge", true, "exit with code 1 if a bound is exceeded")
	flag.Parse()
	if *inside != "" {
		if err := runAttack(ctx, *inside); err != nil {
			fmt.Fprintln(os.Stderr, "attack:", err)
			os.Exit(2)
		}
		return
	}
	bad, err := run(ctx, *server, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(2)
	}
	if bad > 0 && *judge {
		os.Exit(1)
	}
}

// run runs the attacks and returns how many exceeded a bound.
func run(ctx context.Context, server, only string) (bad int, err error) {
	binary, err := filepath.Abs(server)
	if err != nil {
		return 0, err
	}
	list := attacks()
	fmt.Printf("%-34s %9s %9s %9s %9s\n", "attack", "CPU s", "peak MiB", "wait ms", "without")
	done := 0
	for _, a := range list {
		if !strings.Contains(a.name, only) {
			continue
		}
		if ctx.Err() != nil {
			return bad, context.Cause(ctx)
		}
		r, err := measure(ctx, binary, a)
		if err != nil {
			return bad, fmt.Errorf("%s: %w", a.name, err)
		}
		verdict := r.verdict()
		if verdict != "" {
			bad++
		}
		fmt.Printf("%-34s %9.2f %9.1f %9.0f %9.0f  %s\n", a.name, r.cpu.Seconds(), float64(r.peak)/(1<<20),
			milliseconds(r.wait), milliseconds(r.without), verdict)
		done++
	}
	if done == 0 {
		return 0, fmt.Errorf("no attack is named %q", only)
	}
	fmt.Printf("%d attacks, %d exceeded a bound (%d MiB, %s of additional wait, or an exit of the server)\n", done, bad, mostMemory>>20, mostWait)
	return bad, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// result is the cost of an attack.
type result struct {
	cpu           time.Duration
	peak          int64
	wait, without time.Duration
	died          bool
}

func (r result) verdict() string {
	var said []string
	if r.died {
		said = append(said, "THE SERVER ENDED")
	}
	if r.peak > mostMemory {
		said = append(said, "memory")
	}
	if r.wait > r.without+mostWait {
		said = append(said, "wait")
	}
	return strings.Join(said, ", ")
}

// measure starts a server, measures submits without and with the attack, and stops the server.
func measure(ctx context.Context, binary string, a attack) (r result, err error) {
	t, err := start(ctx, binary)
	if err != nil {
		return r, err
	}
	defer t.stop()
	if r.without, err = probe(ctx, t, time.Second, nil); err != nil {
		return r, err
	}
	before := t.cpu()
	hostile, stop := context.WithCancel(ctx)
	ended, over := make(chan error, 1), make(chan struct{})
	go func() { // waited for below
		defer close(over)
		ended <- runInChild(hostile, t, a)
	}()
	r.wait, err = probe(ctx, t, 0, ended)
	stop()
	<-over
	if err != nil && !t.hasExited() {
		return r, err
	}
	r.died = t.hasExited()
	r.cpu, r.peak = t.cpu()-before, t.peak()
	return r, nil
}

// runInChild runs an attack in a child process with a low priority, so that its computations take
// no processor time from the server, as if it came from another machine.
func runInChild(ctx context.Context, t *target, a attack) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "15", self, "-inside", a.name)
	cmd.Env = append(os.Environ(), "ATTACK_URL="+t.url, "ATTACK_TOKEN="+t.token)
	if out, err := cmd.CombinedOutput(); err != nil && ctx.Err() == nil && !t.hasExited() {
		return fmt.Errorf("%w: %.500s", err, out)
	}
	return nil
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
