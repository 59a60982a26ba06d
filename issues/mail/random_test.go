package mail

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

var seed = flag.Uint64("seed", 0, "of random histories; 0 is a new one")

// flakyServer keeps reservations. It fails some requests, half of them after it has executed them.
type flakyServer struct {
	mu      sync.Mutex
	random  *rand.Rand
	holders map[string]string // agents, by issue
	keys    map[string]int    // deliveries of each notice
}

func (f *flakyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	<-time.After(time.Duration(rand.IntN(4)) * time.Millisecond) // reorders requests
	f.mu.Lock()
	defer f.mu.Unlock()
	const fails, isLost = 0, 1
	luck := f.random.IntN(8)
	if luck == fails {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	status := http.StatusCreated
	parts := strings.Split(r.URL.Path, "/") // "", api, reservations, agent, issue
	switch {
	case r.Method == http.MethodDelete:
		if f.holders[parts[4]] == parts[3] {
			delete(f.holders, parts[4])
		}
	case parts[2] == "notifications":
		f.keys[r.Header.Get("Idempotency-Key")]++
	default:
		var ask struct {
			Path  string `json:"file_path"`
			Agent string `json:"agent_name"`
		}
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			panic(err)
		}
		issue := strings.TrimPrefix(ask.Path, ".beads/issues/")
		if by := f.holders[issue]; by != "" && by != ask.Agent {
			status = http.StatusConflict
		} else {
			f.holders[issue] = ask.Agent
		}
	}
	if luck == isLost {
		status = http.StatusBadGateway
	}
	w.WriteHeader(status)
	fmt.Fprintln(w, "{}")
}

func (f *flakyServer) holder(issue string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holders[issue]
}

// TestRandomCommandsLoseNoReservation lets agents reserve, work and release concurrently, each
// command with its own Client, while the server fails now and then. A granted issue stays reserved
// until its agent releases it. In the end nothing is reserved and every notice has arrived.
func TestRandomCommandsLoseNoReservation(t *testing.T) {
	seed := *seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	f := &flakyServer{random: rand.New(rand.NewPCG(seed, 0)), holders: map[string]string{}, keys: map[string]int{}}
	web := httptest.NewServer(f)
	defer web.Close()
	folder, ctx := t.TempDir(), t.Context()
	open := func(agent string) *Client {
		b, err := Open(folder, Settings{URL: web.URL, Agent: agent, Timeout: time.Minute}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		// Skip ahead, so that a backoff ends.
		b.update(ctx, func(s *server, _ time.Time) bool { s.Backoff = nil; return true })
		return b
	}
	const agents, rounds, issues = 4, 6, 2
	granted := 0
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range agents {
		random := rand.New(rand.NewPCG(seed, uint64(i)+1))
		group.Go(func() {
			name := fmt.Sprint("agent-", i)
			for range rounds {
				issue := fmt.Sprint("x-", random.IntN(issues))
				b := open(name)
				err := b.Reserve(ctx, issue)
				sure := err == nil && !b.disabled // the server has granted it
				b.Flush(ctx)
				if err != nil {
					continue
				}
				if random.IntN(4) == 0 {
					b.ReleaseAll(ctx) // the command has failed
					b.Flush(ctx)
					continue
				}
				for range random.IntN(3) { // other commands of the same agent
					open(name).Flush(ctx)
				}
				if by := f.holder(issue); sure && by != name {
					t.Errorf("%s was granted %s, and %q has it", name, issue, by)
				}
				if sure {
					mu.Lock()
					granted++
					mu.Unlock()
				}
				end := open(name)
				end.Enqueue(ctx, Release(issue), Notice("issue.closed", nil))
				end.Flush(ctx)
			}
		})
	}
	group.Wait()
	for range 1000 { // failures are temporary
		last := open("agent-0")
		last.Flush(ctx)
		if s, err := last.Status(); err == nil && s.Queued == 0 {
			break
		}
	}
	if granted == 0 || len(f.keys) == 0 || len(f.holders) > 0 {
		t.Errorf("%d granted reservations, %d notices, reserved at the end: %v", granted, len(f.keys), f.holders)
	}
}
