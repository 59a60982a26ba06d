package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kinds of cycles, by the process that is killed and the time of the kill.
const (
	byChance  = "at a random time"            // the plain binary, from outside
	atStart   = "at a random time of a start" // the same
	atPoint   = "at a point"                  // the server kills itself
	worker    = "a second worker"             // SIGKILL to its process, from outside
	frozen    = "a second worker, frozen"     // stopped for longer than its lease, then continued
	twoAtOnce = "the server of two workers"   // while the other worker continues
)

// plan describes one cycle.
type plan struct {
	kind           string
	doom           string        // name of the kill point, if kind is atPoint
	load           time.Duration // longest time until the kill
	long           bool          // runs stream for seconds
	pace           int           // longest pause of users, in milliseconds; 0: the usual one
	purge          bool          // run the server with a short retention
	doctor, backup bool          // run under load
	seed           uint64        // seed of the users' random choices

	// The fields below are for servers that share a database.
	lasts  time.Duration // time from the fault to its repair
	also   string        // a second fault during the first one, of another server; "": none
	resets bool          // connections that were cut off are closed when they are repaired
}

func (p plan) String() string {
	if p.kind == atPoint {
		return p.doom
	}
	if p.also != "" {
		return p.kind + ", and " + p.also
	}
	return p.kind
}

// beside reports whether a second worker runs beside the one inside the server.
func (p plan) beside() bool { return p.kind == worker || p.kind == frozen || p.kind == twoAtOnce }

// plain reports whether the server is the released build and not the one with kill points.
func (p plan) plain() bool { return p.kind == atStart || p.kind == byChance && !p.long }

// points returns the points at which the tagged server can kill itself, each with the highest count that a cycle
// uses.
func points() []struct {
	name string
	most int
} {
	return []struct {
		name string
		most int
	}{
		{"at begin", 40}, {"at token", 30}, {"at text", 150}, {"at effect", 8}, {"at effected", 8}, {"at result", 8},
		{"at step", 40},
		{"before run.completed", 60}, {"after run.completed", 60},
		{"before run.waiting", 6}, {"after run.waiting", 6},
		{"before renewal", 4}, {"after renewal", 4},
		{"before purge", 6}, {"after purge", 6},
		{"before message", 100}, {"after message", 100},
		{"before run.queued", 80}, {"after run.queued", 80},
		{"before run.started", 60}, {"after run.started", 60},
		{"before step", 40}, {"after step", 40},
		{"before effect.intended", 6}, {"after effect.intended", 6},
		{"before effect.settled", 6}, {"after effect.settled", 6},
		{"before ticket.decided", 4}, {"after ticket.decided", 4},
		{"before ticket.opened", 6}, {"after ticket.opened", 6},
		{"before run.cancelled", 20}, {"after run.cancelled", 20},
		{"before run.rescheduled", 3}, {"after run.rescheduled", 3},
		{"before send", 4}, {"after send", 4},
		{"before message.edited", 5}, {"after message.retracted", 4},
		{"before flush", 2}, {"after flush", 2},
		{"before burial", 1}, {"after burial", 1},
		{"before definition", 1}, {"after definition", 1},
		{"before deletion", 1}, {"after deletion", 1},
		{"before any", 200}, {"after any", 200},
	}
}

// plans makes n cycles. They visit all points in turn, with kills at random times and of second workers between them.
func plans(n int, dice *rand.Rand) []plan {
	all := points()
	order := dice.Perm(len(all))
	if n < len(all) { // a short round begins with the most productive points
		order = append([]int{2, 7, 18}, order...)
	}
	var list []plan
	for i := range n {
		p := plan{load: time.Duration(100+dice.IntN(800)) * time.Millisecond, seed: dice.Uint64(), long: i%20 == 7}
		switch i % 10 {
		case 0, 3, 7:
			p.kind = byChance
		case 8:
			p.kind = []string{atStart, frozen}[i/10%2]
		case 5:
			p.kind = []string{frozen, worker, twoAtOnce}[i/10%3]
		default:
			point := all[order[0]]
			order = append(order[1:], order[0])
			p.kind = atPoint
			p.doom = fmt.Sprintf("%s %d", point.name, 1+dice.IntN(point.most))
			p.purge = point.name == "before purge" || point.name == "after purge"
			p.load = 4 * time.Second
		}
		p.purge = p.purge || i%9 == 7 && !p.beside() && !p.long // more would purge entries before they are read
		p.doctor, p.backup = i%20 == 3, i%20 == 13
		if p.beside() {
			p.load += 1200 * time.Millisecond // the second worker polls for work once a second
		}
		if p.long {
			p.load += 3 * time.Second
		}
		list = append(list, p)
	}
	return list
}
