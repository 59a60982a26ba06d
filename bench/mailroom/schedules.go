package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mailroom"
	"mailroom/auth"
	"mailroom/engine"
	"mailroom/internal/reserved"
	scheduler "mailroom/schedule"
	"mailroom/schedule/plan"
	"mailroom/thread"
)

// Schedules is a server with many schedules that each send one message a minute.
type Schedules struct {
	Schedules int     `json:"schedules"`
	Minutes   int     `json:"minutes"`
	Sent      int     `json:"sent"`
	Lost      int     `json:"lost"`  // minutes of schedules without a message
	Twice     int     `json:"twice"` // messages beyond one for a minute of a schedule
	Cores     float64 `json:"cores"` // CPU time of the server by time, with the runs that answer the messages
	// CPUPerMessage is in ms, AnswerCPU the part of a run that answers, as measured at the same rate without schedules.
	CPUPerMessage float64   `json:"cpu_ms_per_message"`
	AnswerCPU     float64   `json:"answer_cpu_ms"`
	PerSecond     Range     `json:"messages_per_second"`
	Memory        Footprint `json:"schedule"`
}

// Range is the least, the mean and the greatest of some numbers.
type Range struct {
	Least    int     `json:"least"`
	Mean     float64 `json:"mean"`
	Greatest int     `json:"greatest"`
}

const (
	manySchedules   = 10_000
	scheduleMinutes = 2
	scheduleThreads = 1000 // that the schedules send to
)

// schedules measures whole minutes, whatever b.For is: no schedule is more frequent.
func (b *bench) schedules(ctx context.Context, dir string) (err error) {
	n := b.scaled(manySchedules, 10)
	b.Progress("schedules: %d, for %d minutes after a minute of warm-up", n, scheduleMinutes)
	s := &Schedules{Schedules: n, Minutes: scheduleMinutes}
	if s.AnswerCPU, err = b.answerCPU(ctx, dir, n); err != nil {
		return err
	}
	if err := mkdir(dir + "/many"); err != nil {
		return err
	}
	h, err := newFixture(ctx, b.opener(), dir+"/many", b.AgentVersion, func(*mailroom.Run) {})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	operator := auth.NewOperator("bench")
	arrived := &arrivals{times: map[string][]time.Time{}}
	h.agents = map[string]engine.Agent{reserved.Scheduler: {Agent: scheduler.New(h.ledger, operator)}}
	h.startEngine(newTimedAgent(arrived.add), b.Slots)
	before := measureMemory()
	pages, err := b.schedulePages(ctx, h)
	if err != nil {
		return err
	}
	if err := makeSchedules(ctx, h, n, operator.ID()); err != nil {
		return err
	}
	s.Memory = before.footprint(n)
	more, err := b.schedulePages(ctx, h)
	if err != nil {
		return err
	}
	s.Memory.Disk = float64(more-pages) / float64(n)
	begin := time.Now().Truncate(time.Minute).Add(2 * time.Minute) // all are made; the minute before is warm-up
	end := begin.Add(scheduleMinutes * time.Minute)
	if err := sleepUntil(ctx, begin); err != nil {
		return err
	}
	used := cpuTime()
	if err := sleepUntil(ctx, end); err != nil {
		return err
	}
	used = cpuTime() - used
	if err := sleepUntil(ctx, end.Add(time.Minute+scheduleSlack)); err != nil { // what was put off
		return err
	}
	arrived.judge(s, begin, end)
	s.Cores = used.Seconds() / end.Sub(begin).Seconds()
	s.CPUPerMessage = ratio(milliseconds(int64(used)), float64(s.Sent))
	b.result.Schedules = s
	return nil
}

// scheduleSlack is how long after its time a message may arrive.
const scheduleSlack = 5 * time.Second

func (b *bench) schedulePages(ctx context.Context, h *fixture) (int64, error) {
	if h.schema != "" {
		return 0, nil
	}
	return h.databaseSize(ctx)
}

// answerCPU measures the CPU time of a run that answers a message, in ms, at the rate of n messages a minute.
func (b *bench) answerCPU(ctx context.Context, dir string, n int) (float64, error) {
	short := *b
	short.For = min(b.For, 10*time.Second)
	sub := dir + "/alone"
	if err := mkdir(sub); err != nil {
		return 0, err
	}
	l, err := short.measureLoad(ctx, sub, load{rate: max(1, n/60)})
	if err != nil {
		return 0, err
	}
	return l.CPUPerRun, nil
}

// makeSchedules makes n schedules. The jitter spreads them over the minute.
func makeSchedules(ctx context.Context, h *fixture, n int, source string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for i := range n {
		group.Go(func() error {
			spec := &plan.Spec{Cron: "* * * * *", Jitter: time.Minute, Agent: agentName, Text: "Report.",
				Thread: "report-" + strconv.Itoa(i%scheduleThreads), Overlap: "all"}
			if err := spec.Check(time.Now()); err != nil {
				return err
			}
			parts, err := plan.Command{Op: plan.OpSet, Spec: spec, By: auth.Operator, Source: source}.Parts()
			if err != nil {
				return err
			}
			_, err = h.ledger.Submit(ctx, thread.Submit{
				Thread: reserved.ScheduleID(auth.Operator, "s"+strconv.Itoa(i)), Agent: reserved.Scheduler,
				Messages: []thread.NewMessage{{Parts: parts}}, Sender: auth.Operator, Owner: auth.Operator,
				By: auth.RunToken(auth.Operator), ByServer: true,
				Origin: mailroom.Origin{Via: reserved.ViaSchedule, Sender: auth.Operator},
			})
			return err
		})
	}
	return group.Wait()
}

// arrivals are the messages of schedules that were answered.
type arrivals struct {
	mu    sync.Mutex
	times map[string][]time.Time // owned by mu: by schedule and nominal time
}

// add records that the run of a message has started.
func (a *arrivals) add(run mailroom.RunView) {
	now := time.Now()
	key := run.Metadata["nominal"] + " " + run.Metadata["schedule"]
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times[key] = append(a.times[key], now)
}

// judge counts what arrived of the minutes from begin to end.
func (a *arrivals) judge(s *Schedules, begin, end time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	seconds := make([]int, int(end.Sub(begin).Seconds()))
	for minute := begin; minute.Before(end); minute = minute.Add(time.Minute) {
		for i := range s.Schedules {
			got := a.times[minute.UTC().Format(time.RFC3339)+" s"+strconv.Itoa(i)]
			s.Twice += max(0, len(got)-1)
			if len(got) == 0 {
				s.Lost++
			}
		}
	}
	for _, all := range a.times {
		for _, at := range all {
			if second := int(at.Sub(begin).Seconds()); !at.Before(begin) && second < len(seconds) {
				seconds[second]++
				s.Sent++
			}
		}
	}
	s.PerSecond = Range{Least: slices.Min(seconds), Mean: float64(s.Sent) / float64(len(seconds)),
		Greatest: slices.Max(seconds)}
}

func schedulesRows(s *Schedules) [][]string {
	return [][]string{
		{"SCHEDULES", fmt.Sprintf("%s that each send a message a minute", count(int64(s.Schedules)))},
		{"messages", fmt.Sprintf("%s in %d minutes; lost %d, twice %d", count(int64(s.Sent)), s.Minutes, s.Lost, s.Twice)},
		{"messages a second", fmt.Sprintf("%d to %d, mean %.0f", s.PerSecond.Least, s.PerSecond.Greatest, s.PerSecond.Mean)},
		{"CPU", fmt.Sprintf("%.3f cores, %.3f ms per message; %.3f ms of it answers the message", s.Cores, s.CPUPerMessage,
			s.AnswerCPU)},
		{"a schedule", fmt.Sprintf("%s bytes of heap, %s on disk", round(s.Memory.Heap), round(s.Memory.Disk))},
	}
}
