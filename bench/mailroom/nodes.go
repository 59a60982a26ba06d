package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"mailroom/store/postgres"
)

// MaxNodes limits the nodes of a load.
const MaxNodes = 16

// balanceEvery is how often nodes learn how many runs are outstanding elsewhere.
const balanceEvery = 100 * time.Millisecond

// nodes are child processes on one schema, each a node with its own engine and producers. The parent sends a request,
// one line of JSON, to all nodes at once, and each node answers with a line.
type nodes struct {
	children []*child
	latest   []snapshot // latest snapshot of each child
}

// nodeOptions are the first line that a node reads from its standard input.
type nodeOptions struct {
	Store, Schema string
	Name          string // name of the node
	AgentVersion  string
	Created       time.Time // see driver
	Producers     int       // 0: the node only runs
	Rate          int       // submits per second; 0: full load
	Slots         int       // 0: the node only submits
	Writers       int
	Threads       int
	Keys          bool
}

// nodeCommand is what a node is asked to do before it answers.
type nodeCommand string

const (
	nodeCount   nodeCommand = "count"   // nothing
	nodeProduce nodeCommand = "produce" // start the producers
	nodeRecord  nodeCommand = "record"  // start recording times
	nodeStop    nodeCommand = "stop"    // stop recording
	nodeRest    nodeCommand = "rest"    // stop the producers
	nodeTimes   nodeCommand = "times"   // add the recorded times
)

type nodeRequest struct {
	Command   nodeCommand
	Elsewhere int64 // outstanding runs at other nodes
}

type nodeReply struct {
	Snapshot snapshot
	Times    *recorded // times for nodeTimes
}

// measureNodes measures one load on several nodes over a new schema. At a steady rate the first node
// submits and the others run, so that every run starts at another node than the one that accepted it.
func (b *bench) measureNodes(ctx context.Context, l load) (result *Load, err error) {
	o := postgres.Options{URL: b.Store, Schema: newSchema(), Node: "bench"}
	shared, err := postgres.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shared.Close(), dropSchema(ctx, o)) }()
	ns := &nodes{}
	defer func() {
		for _, c := range ns.children {
			err = errors.Join(err, c.finish())
		}
	}()
	created := time.Now()
	for i := range b.Nodes {
		n := nodeOptions{
			Store: b.Store, Schema: o.Schema, Name: "node" + strconv.Itoa(i), AgentVersion: b.AgentVersion, Created: created,
			Rate:      l.rate,
			Producers: b.Producers, Slots: b.Slots, Writers: b.Writers, Threads: b.result.Settings.Threads, Keys: b.Keys,
		}
		if l.apart && i == 0 {
			n.Slots = 0
		} else if l.apart {
			n.Producers = 0
		}
		if err := b.startNode(ctx, ns, n); err != nil {
			return nil, err
		}
	}
	if err := ns.ask(ctx, nodeProduce, nil); err != nil {
		return nil, err
	}
	if result, err = b.record(ctx, ns, l.rate); err != nil {
		return nil, err
	}
	if err := ns.drain(ctx); err != nil {
		return nil, err
	}
	return result, checkCompleted(ctx, shared, ns.sum().Submitted)
}

// startNode starts a child and waits until it is ready.
func (b *bench) startNode(ctx context.Context, ns *nodes, o nodeOptions) error {
	c, err := b.startChild(ctx, nil, false, "node")
	if err != nil {
		return err
	}
	ns.children, ns.latest = append(ns.children, c), append(ns.latest, snapshot{})
	if err := json.NewEncoder(c.stdin).Encode(o); err != nil {
		return fmt.Errorf("start %s: %w", o.Name, err)
	}
	if _, err := c.waitLine(nodeReady); err != nil {
		return fmt.Errorf("start %s: %w", o.Name, err)
	}
	return nil
}

// ask sends a command to all nodes. It reads their counters, and adds the times that they recorded to times.
func (ns *nodes) ask(ctx context.Context, command nodeCommand, times *recorded) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	all := ns.sum()
	for i, c := range ns.children {
		own := ns.latest[i]
		elsewhere := (all.Submitted - own.Submitted) - (all.Ended - own.Ended)
		if err := json.NewEncoder(c.stdin).Encode(nodeRequest{command, elsewhere}); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	for i, c := range ns.children {
		line, err := c.waitLine("{")
		if err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		var reply nodeReply
		if err := json.Unmarshal([]byte(line), &reply); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		ns.latest[i] = reply.Snapshot
		if times != nil && reply.Times != nil {
			times.add(reply.Times)
		}
	}
	return nil
}

func (ns *nodes) sum() snapshot {
	all := snapshot{At: time.Now()}
	for _, s := range ns.latest {
		all.add(s)
	}
	return all
}

func (ns *nodes) snapshot(ctx context.Context) (snapshot, error) {
	err := ns.ask(ctx, nodeCount, nil)
	return ns.sum(), err
}

func (ns *nodes) setRecording(ctx context.Context, on bool) error {
	if on {
		return ns.ask(ctx, nodeRecord, nil)
	}
	return ns.ask(ctx, nodeStop, nil)
}

func (ns *nodes) times(ctx context.Context) (*recorded, error) {
	all := &recorded{}
	return all, ns.ask(ctx, nodeTimes, all)
}

// wait waits until a time. Until then it sends each node the number of runs that are outstanding at the others.
func (ns *nodes) wait(ctx context.Context, at time.Time) error {
	for time.Until(at) > balanceEvery {
		if err := sleepUntil(ctx, time.Now().Add(balanceEvery)); err != nil {
			return err
		}
		if err := ns.ask(ctx, nodeCount, nil); err != nil {
			return err
		}
	}
	return sleepUntil(ctx, at)
}

func (ns *nodes) started(ctx context.Context) error {
	for ns.sum().Ended == 0 {
		if err := ns.wait(ctx, time.Now().Add(2*balanceEvery)); err != nil {
			return err
		}
	}
	return nil
}

// drain stops the producers and waits until all runs have ended.
func (ns *nodes) drain(ctx context.Context) error {
	if err := ns.ask(ctx, nodeRest, nil); err != nil {
		return err
	}
	for ns.sum().Ended < ns.sum().Submitted {
		if err := ns.wait(ctx, time.Now().Add(2*balanceEvery)); err != nil {
			return err
		}
	}
	return nil
}

// nodeReady is printed when a node accepts requests.
const nodeReady = "ready"

// runNode is one node of a load. It reads its options and then requests from stdin, until stdin ends.
func runNode(ctx context.Context, stdin io.Reader, w io.Writer) (err error) {
	requests, replies := json.NewDecoder(stdin), json.NewEncoder(w)
	var o nodeOptions
	if err := requests.Decode(&o); err != nil {
		return fmt.Errorf("read the options of the node: %w", err)
	}
	d := &driver{
		load: load{rate: o.Rate}, keys: o.Keys, name: o.Name + "-", producers: o.Producers, threads: o.Threads,
		created: o.Created,
		room:    newRoom(maxOutstanding), first: make(chan struct{}),
	}
	open := openNode(postgres.Options{URL: o.Store, Schema: o.Schema, Node: o.Name}, o.Writers)
	if d.fixture, err = newFixture(ctx, open, "", o.AgentVersion, d.onRunEnd); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.fixture.close()) }()
	if o.Slots > 0 {
		d.fixture.startEngine(newTimedAgent(d.onAgentStart), o.Slots)
	}
	if _, err := fmt.Fprintln(w, nodeReady); err != nil {
		return err
	}
	rest, produced := make(chan struct{}), make(chan error, 1)
	var q nodeRequest
	for err := requests.Decode(&q); !errors.Is(err, io.EOF); err = requests.Decode(&q) {
		if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		var reply nodeReply
		d.room.setElsewhere(q.Elsewhere)
		switch q.Command {
		case nodeProduce:
			go func() { // nodeRest waits for it; without, the node ends at the end of its input
				produced <- d.produceWhile(ctx, func(ctx context.Context) error {
					select {
					case <-rest:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				})
			}()
		case nodeRecord, nodeStop:
			d.recording.Store(q.Command == nodeRecord)
		case nodeRest:
			close(rest)
			if err := <-produced; err != nil {
				return err
			}
		case nodeTimes:
			reply.Times = &d.recorded
		}
		select {
		case err := <-produced:
			return fmt.Errorf("submitting ended early: %w", err)
		default:
		}
		if reply.Snapshot, err = d.snapshot(ctx); err != nil {
			return err
		}
		if err := replies.Encode(reply); err != nil {
			return err
		}
	}
	return nil
}

// add adds the times of another node.
func (r *recorded) add(o *recorded) {
	r.Submits.merge(&o.Submits)
	r.Starts.merge(&o.Starts)
	r.Dones.merge(&o.Dones)
	r.Urgents.merge(&o.Urgents)
}
