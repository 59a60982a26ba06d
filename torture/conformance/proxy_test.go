package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// fault is what the network does to requests of a worker.
type fault struct {
	At string `json:"at"` // the kind of the request, see kindOf; "" is any
	// Nth is the number of the request of its kind, from 1; 0 is the next one. Of answers to claims, only those with a
	// run count.
	Nth   int `json:"nth"`
	Times int `json:"times"` // how many such requests from there on; 0 is one, -1 all
	// Do is what happens:
	//
	//	lose   the server handles the request, and the answer is lost with the connection
	//	drop   the request is lost with the connection, and the server does not see it
	//	twice  the server gets the request twice, and the worker the second answer
	//	cut    the connection ends in the middle of the answer
	//	503    a gateway answers in place of the server, without JSON
	//	delay  the answer comes Ms milliseconds later
	//	slow   the answer trickles, in pieces of a hundredth with Ms milliseconds between them
	//	newer  the answer has fields, and entries of kinds, that the worker does not know
	//	older  the answer is of a server with the worker contract Contract
	//	clock  all times in the answer are Ms milliseconds off, as for a worker whose clock is wrong
	//	kill-before, kill-after  the worker dies before the server gets the request, or before it gets the answer
	Do string `json:"do"`
	Ms int    `json:"ms"`
	// Contract is for older; 0 leaves it out, as the first servers did.
	Contract int `json:"contract"`
}

// exchange is a request of a worker and the answer, as the server gave it.
type exchange struct {
	kind             string
	method, path     string
	request, answer  []byte
	status, position int // position is the number of the request of its kind, from 1
}

// proxy passes requests of workers on to a server, and injects faults.
type proxy struct {
	ln     net.Listener
	server http.Server
	client http.Client
	done   sync.WaitGroup

	mu       sync.Mutex
	upstream string // guarded by mu, as all below
	faults   []fault
	met      map[string]int // requests by kind, and under "answer KIND" their answers
	fired    []string       // faults that happened
	seen     []exchange
	onKill   func() // kills the worker
}

// newProxy listens. close stops it.
func newProxy(upstream string) (*proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{ln: ln, upstream: upstream, met: map[string]int{}, onKill: func() {}}
	p.client.Transport = &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}
	p.server.Handler = http.HandlerFunc(p.handle)
	p.done.Go(func() { _ = p.server.Serve(ln) }) // ends with close
	return p, nil
}

func (p *proxy) url() string { return "http://" + p.ln.Addr().String() }

func (p *proxy) close() error {
	err := p.server.Close()
	p.done.Wait()
	p.client.CloseIdleConnections()
	return err
}

// arm adds faults. A fault without nth concerns the next request of its kind.
func (p *proxy) arm(faults ...fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range faults {
		if f.Nth == 0 && f.At != "" && f.Times >= 0 {
			f.Nth = p.met[f.counter(f.At)] + 1
		}
		p.faults = append(p.faults, f)
	}
}

// reset forgets all faults and counts.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.fired, p.seen, p.met = nil, nil, nil, map[string]int{}
}

// history returns what has passed, and the faults that have happened.
func (p *proxy) history() (seen []exchange, fired []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(seen, p.seen...), append(fired, p.fired...)
}

// kindOf names a request of a worker by what it is for.
func kindOf(method, path string, body []byte) string {
	words := strings.Split(strings.Trim(path, "/"), "/")
	last := words[len(words)-1]
	var in struct {
		Worker  string
		Effects []any
	}
	_ = json.Unmarshal(body, &in) // a request without a body has no fields
	switch {
	case path == "/v1/claims" && in.Worker == "":
		return "register"
	case path == "/v1/claims":
		return "claim"
	case last == "entries" && in.Effects != nil:
		return "effect"
	case last == "entries":
		return "step"
	case last == "deltas":
		return "text"
	}
	return last // renew, leave, settle, steered, input, transcript, log, tickets, effects, run
}

// ofAnswer reports whether the fault happens to an answer. The others happen to a request.
func (f *fault) ofAnswer() bool {
	return !slices.Contains([]string{"drop", "503", "twice", "kill-before"}, f.Do)
}

// counter returns the key in proxy.met under which the requests, or answers, of a kind are counted for a fault.
func (f *fault) counter(kind string) string {
	if f.ofAnswer() {
		return "answer " + kind
	}
	return kind
}

// match counts a request, or an answer, and returns the faults that it meets.
func (p *proxy) match(kind string, answer bool) (met []fault, nth int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counter := (&fault{Do: map[bool]string{true: "lose", false: "drop"}[answer]}).counter(kind)
	p.met[counter]++
	nth = p.met[counter]
	for _, f := range p.faults {
		times := max(f.Times, 1)
		here := f.Times < 0 || f.Nth <= nth && nth < f.Nth+times
		if here && f.ofAnswer() == answer && (f.At == "" || f.At == kind) {
			met = append(met, f)
			p.fired = append(p.fired, fmt.Sprintf("%s %s %d", f.Do, kind, nth))
		}
	}
	return met, nth
}

func (p *proxy) handle(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the worker has gone
	}
	kind := kindOf(r.Method, r.URL.Path, body)
	met, _ := p.match(kind, false)
	for _, f := range met {
		switch f.Do {
		case "drop":
			hangUp(w)
			return
		case "kill-before":
			p.kill()
			hangUp(w)
			return
		case "503":
			http.Error(w, "<html>no backend is there</html>", http.StatusServiceUnavailable)
			return
		case "twice":
			if _, _, err := p.forward(r, body); err != nil {
				hangUp(w)
				return
			}
		}
	}
	answer, text, err := p.forward(r, body)
	if err != nil {
		hangUp(w) // no server is there, or the worker has gone
		return
	}
	if kind == "claim" && !bytes.Contains(text, []byte(`"claims":[{`)) {
		kind = "idle"
	}
	met, nth := p.match(kind, true)
	p.mu.Lock()
	p.seen = append(p.seen, exchange{kind, r.Method, r.URL.RequestURI(), body, text, answer.StatusCode, nth})
	p.mu.Unlock()
	p.reply(r.Context(), w, met, answer, text)
}

func (p *proxy) kill() {
	p.mu.Lock()
	kill := p.onKill
	p.mu.Unlock()
	kill()
}

// forward sends a request to the server.
func (p *proxy) forward(r *http.Request, body []byte) (*http.Response, []byte, error) {
	p.mu.Lock()
	to := p.upstream
	p.mu.Unlock()
	q, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	q.Header = r.Header.Clone()
	answer, err := p.client.Do(q)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer, text, err
}

// reply gives an answer to the worker, with its faults.
func (p *proxy) reply(ctx context.Context, w http.ResponseWriter, met []fault, answer *http.Response, text []byte) {
	pieces, pause := 1, time.Duration(0)
	for _, f := range met {
		wait := time.Duration(f.Ms) * time.Millisecond
		switch f.Do {
		case "lose":
			hangUp(w)
			return
		case "kill-after":
			p.kill()
			hangUp(w)
			return
		case "cut":
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			w.WriteHeader(answer.StatusCode)
			_, _ = w.Write(text[:len(text)/2]) // hangUp follows
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "delay":
			waitFor(ctx, wait)
		case "slow":
			pieces, pause = 100, wait
		case "newer":
			text = addUnknown(text)
		case "older":
			text = lowerContract(text, f.Contract)
		case "clock":
			text = shiftTimes(text, wait)
			if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
				answer.Header.Set("Date", date.Add(wait).Format(http.TimeFormat))
			}
		}
	}
	for _, name := range []string{"Content-Type", "Retry-After", "Date"} {
		if v := answer.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	if len(text) > 0 {
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	}
	w.WriteHeader(answer.StatusCode)
	for size := max(1, len(text)/pieces); len(text) > 0; {
		n := min(size, len(text))
		if _, err := w.Write(text[:n]); err != nil {
			return
		}
		if text = text[n:]; pause > 0 {
			_ = http.NewResponseController(w).Flush() // a worker that has gone is noticed by the next write
			waitFor(ctx, pause)
		}
	}
}

// hangUp ends the connection of a request without an answer.
func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// waitFor waits that long, or until ctx ends.
func waitFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// rewrite decodes an answer, changes each object in it, and encodes it again.
func rewrite(text []byte, change func(map[string]any)) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var all any
	if d.Decode(&all) != nil {
		return text
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, child := range v {
				walk(child)
			}
			change(v)
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(all)
	out, err := json.Marshal(all)
	if err != nil {
		return text
	}
	return out
}

// addUnknown changes an answer to that of a newer server: objects have more fields, and logs an entry of a new kind.
// Values that belong to the agent stay as they are.
func addUnknown(text []byte) []byte {
	return rewrite(text, func(o map[string]any) {
		if items, ok := o["items"].([]any); ok && len(items) > 0 {
			if first, ok := items[0].(map[string]any); ok && first["kind"] != nil && first["seq"] != nil {
				o["items"] = append(items, map[string]any{"thread": first["thread"], "seq": first["seq"],
					"kind": "future.kind", "at": first["at"], "run": first["run"], "attempt": 0,
					"body": map[string]any{"future": true}})
			}
		}
		if tickets, ok := o["tickets"].([]any); ok && o["claim"] != nil {
			o["tickets"] = append(tickets, map[string]any{"id": "future", "name": "future", "kind": "future.kind",
				"state": "open", "digest": "", "prompt": nil, "action": nil, "arguments": nil, "decision": nil,
				"answer": nil, "run": "", "thread": ""})
		}
		for _, known := range []string{"id", "claim", "worker", "lease_ms", "seq", "offset", "items", "name"} {
			if _, ok := o[known]; ok {
				o["future"] = map[string]any{"list": []any{1, "two", nil}}
				return
			}
		}
	})
}

// lowerContract changes an answer to that of an older server.
func lowerContract(text []byte, contract int) []byte {
	return rewrite(text, func(o map[string]any) {
		if o["contract"] == nil {
			return
		}
		if o["contract"] = contract; contract == 0 {
			delete(o, "contract")
		}
	})
}

// shiftTimes moves all times in an answer.
func shiftTimes(text []byte, by time.Duration) []byte {
	return rewrite(text, func(o map[string]any) {
		for name, v := range o {
			s, ok := v.(string)
			if !ok {
				continue
			}
			if at, err := time.Parse(time.RFC3339Nano, s); err == nil {
				o[name] = at.Add(by).Format(time.RFC3339Nano)
			}
		}
	})
}
