package conformance

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mailroom"
	"mailroom/internal/killpoint"
	"mailroom/worker"
)

var (
	fullFlag   = flag.Bool("full", false, "play all scenarios, not only the fast ones")
	columnFlag = flag.String("columns", "", "only these columns, separated by commas")
	onlyFlag   = flag.String("only", "", "only scenarios whose name contains this, or one of these, separated by commas")
	tableFlag  = flag.Bool("table", false, "print the table also if all conform")
)

// role is a variable of the environment that makes this program the worker in Go.
const role = "CONFORMANCE_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		if err := workInGo(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var err error
	programs.dir, err = os.MkdirTemp("", "mailroom-conformance-")
	code := 1
	if err == nil {
		code = m.Run()
		err = os.RemoveAll(programs.dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// workInGo serves the agent until SIGTERM.
func workInGo(agent string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o := worker.Options{Grace: 2 * time.Second, StopGrace: 2 * time.Second}
	return worker.Serve(ctx, o, map[string]mailroom.Agent{agent: killpoint.Conform(os.Getenv("CONFORMANCE_DIR"))})
}

// columns returns the workers that the suite drives. CONFORMANCE_WORKER is the command of another one, to which the
// name of the agent is appended.
func columns(t testing.TB) (all []column) {
	t.Helper()
	if own := os.Getenv("CONFORMANCE_WORKER"); own != "" {
		return []column{{name: "yours", command: strings.Fields(own)}}
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	python := []string{program(t, "python3"), filepath.Join(root, "clients", "python", "test", "conform.py")}
	path := []string{"PYTHONPATH=" + filepath.Join(root, "clients", "python", "src"), "PYTHONDONTWRITEBYTECODE=1"}
	all = []column{
		{name: inside},
		{name: "go", command: []string{self}, env: []string{role + "=1"}},
		{name: "python", command: python, env: path},
		{name: "python-async", command: python, env: path, after: []string{"async"}},
		{name: "javascript", command: []string{program(t, "node"),
			filepath.Join(root, "clients", "js", "test", "conform.js")}},
	}
	if *columnFlag != "" {
		only := strings.Split(*columnFlag, ",")
		all = slices.DeleteFunc(all, func(c column) bool { return !slices.Contains(only, c.name) })
	}
	return all
}

func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// table collects the results, by scenario and column.
type table struct {
	mu    sync.Mutex
	cells map[[2]string]string
}

func (b *table) set(scenario, column, result string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cells[[2]string{scenario, column}] = result
	if *tableFlag {
		fmt.Fprintf(os.Stderr, "%s, %s: %s\n", scenario, column, result) // a full run takes minutes
	}
}

// print shows the table.
func (b *table) print(t *testing.T, all []scenario, columns []column) {
	var out strings.Builder
	fmt.Fprintf(&out, "%-34s", "")
	for _, c := range columns {
		fmt.Fprintf(&out, " %-13s", c.name)
	}
	for _, s := range all {
		fmt.Fprintf(&out, "\n%-34s", s.Name)
		for _, c := range columns {
			fmt.Fprintf(&out, " %-13s", cmp.Or(b.cells[[2]string{s.Name, c.name}], "not run"))
		}
	}
	fmt.Fprintln(&out)
	if *tableFlag {
		_, _ = os.Stdout.WriteString(out.String()) // also of a test that passes
		return
	}
	t.Logf("\n%s", &out)
}

// TestEveryWorkerConforms plays the scenarios with each worker, the scenarios beside each other.
func TestEveryWorkerConforms(t *testing.T) {
	all, err := loadScenarios()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(s scenario) bool {
		return s.Full && !*fullFlag || !containsAny(s.Name, *onlyFlag)
	})
	results := &table{cells: map[[2]string]string{}}
	of := columns(t)
	program := binary(t)
	t.Run("table", func(t *testing.T) {
		shared := newServer(t, program, &scenario{})
		for _, c := range of {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				common := newStage(t, c, shared, c.name, nil)
				t.Run("of", func(t *testing.T) { // it ends after its parallel tests, so that common outlives them
					for _, s := range all {
						t.Run(s.Name, func(t *testing.T) {
							t.Parallel()
							results.set(s.Name, c.name, playOne(t, common, &s))
						})
					}
				})
			})
		}
	})
	results.print(t, all, of)
}

// containsAny reports whether a name contains one of the texts of a list.
func containsAny(name, list string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(text string) bool { return strings.Contains(name, text) })
}

// playOne plays a scenario on the common stage, or on one of its own, and returns the result.
func playOne(t *testing.T, common *stage, s *scenario) (result string) {
	result = "FAIL"
	if s.Skip[common.column.name] != "" {
		return "–"
	}
	at := time.Now()
	g := common
	if !s.plain() {
		g = ownStage(t, common, s)
	} else {
		shared := *g
		shared.t, g = t, &shared
	}
	play := (&play{stage: g, s: s}).perform
	if len(s.Each) > 0 {
		play = func() error { return playEach(t, g, s) }
	}
	if err := play(); err != nil {
		t.Error(err)
		return result
	}
	return fmt.Sprintf("ok %.1f s", time.Since(at).Seconds())
}

// ownStage starts a worker for one scenario, and a server if something happens to it.
func ownStage(t *testing.T, common *stage, s *scenario) *stage {
	on := common.server
	own := func(op operation) bool { return op.verb() == "kill-server" || op.verb() == "start-server" }
	if s.Lease+s.Deadline != "" || common.column.name == inside || slices.ContainsFunc(s.Play, own) {
		on = newServer(t, on.binary, s)
	}
	return newStage(t, common.column, on, common.column.name+"."+s.Name, s.Faults)
}
