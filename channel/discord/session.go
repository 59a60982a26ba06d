package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"mailroom/channel"
)

// session is what the platform knows of a connection: it can be resumed by another.
type session struct {
	id    string // "" for none
	url   string // at which it is resumed
	token string // it was begun with
	seq   int64  // number of the last event that was taken
	bot   Bot
	// awaited are the servers whose history is still to be looked at, since the time
	// that the reading began with.
	awaited map[string]bool
	behind  map[string]gap // rooms whose history goes before their events, by their ids
}

// clone is a session whose maps and queues are its own.
func (s session) clone() session {
	s.awaited, s.behind = maps.Clone(s.awaited), maps.Clone(s.behind)
	for id, g := range s.behind {
		g.waiting = slices.Clip(g.waiting)
		s.behind[id] = g
	}
	return s
}

// memory is what the connections of one bot share. It outlives them, and not the
// process.
type memory struct {
	limits limits

	// Owned by mu.
	mu      sync.Mutex
	began   time.Time         // when a connection was tried first
	owner   *connection       // the only one that may change the session
	session session           // as its last event has left it
	failed  int               // tries to resume it that came to nothing, in a row
	after   time.Time         // no session is begun before
	threads map[string]string // the channel that a thread is of, by the thread
	roles   map[string]string // the bot's own role, by the server
	sent    map[string]string // messages of the bot, by their nonce
	nonces  []string          // of sent, the oldest first
}

const (
	mostThreads = 50_000
	mostSent    = 1_000
	mostResumes = 2 // that fail before another session is begun, if one can be
)

func newMemory() *memory {
	return &memory{threads: map[string]string{}, roles: map[string]string{}, sent: map[string]string{}}
}

// begin notes when it all began.
func (m *memory) begin(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.began.IsZero() {
		m.began = now
	}
}

// start is where the reading begins if nothing was ever read.
func (m *memory) start() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return snowflakeAt(m.began)
}

// owns has a connection, which was let in, be the one whose session is resumed next.
func (m *memory) owns(c *connection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owner, m.failed = c, 0
}

// resumable is the session that can be resumed with a token.
func (m *memory) resumable(token string) (s session, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session.token != token {
		m.session, m.failed = session{}, 0
	}
	s = m.session.clone()
	return s, s.id != ""
}

// hopeless counts a session that could not be resumed, and reports whether that was
// tried often enough: the address at which it is resumed may not be there any more.
func (m *memory) hopeless() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed++
	return m.failed >= mostResumes
}

// save keeps the session of a connection, if it is the one that counts. It is called
// after each event that was taken.
func (m *memory) save(c *connection, s session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner == c {
		m.session = s.clone()
	}
}

// forget has the next connection begin a session of its own.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.failed = session{}, 0
}

// invalidate has the next connection begin a session of its own, after a pause.
func (m *memory) invalidate(now time.Time) {
	m.forget()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.after = now.Add(identifyPause(rand.Float64()))
}

// awaitIdentify waits until a session may be begun.
func (m *memory) awaitIdentify(ctx context.Context) error {
	m.mu.Lock()
	wait := time.Until(m.after)
	m.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// learn notes of which channel a thread is.
func (m *memory) learn(thread, parent string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.threads) >= mostThreads {
		clear(m.threads) // each is asked for when it is needed
	}
	m.threads[thread] = parent
}

// parent is the channel that a thread is of, "" if it is not known to be one.
func (m *memory) parent(thread string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.threads[thread]
}

// has notes the bot's own role in a server.
func (m *memory) has(server, role string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roles[server] = role
}

// role is the bot's own in a server, "" if it has none.
func (m *memory) role(server string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.roles[server]
}

// saw notes a message of the bot that has arrived.
func (m *memory) saw(nonce, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.sent[nonce]; known || nonce == "" {
		return
	}
	if len(m.nonces) >= mostSent {
		delete(m.sent, m.nonces[0])
		m.nonces = m.nonces[1:]
	}
	m.sent[nonce] = id
	m.nonces = append(m.nonces, nonce)
}

// message is the one that was sent with a nonce, "" if it was not seen.
func (m *memory) message(nonce string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent[nonce]
}

// place is how far a bot has read. Ids of messages grow with time, wherever they are,
// so that one says enough of all channels. Private ones are listed nowhere else.
type place struct {
	At      string   `json:"at"`                // id of the newest message that was taken
	From    string   `json:"from,omitempty"`    // nothing is older; left out when At is much newer
	Private []string `json:"private,omitempty"` // channels, the one that was used last first
}

// mostPrivate private channels are looked at for what was said meanwhile.
const mostPrivate = 100

// reading is how far a connection has read.
type reading struct {
	at      uint64   // the newest that was taken
	from    uint64   // nothing older was ever to be read
	since   uint64   // what is newer is to be looked for in the history of the awaited
	held    uint64   // what a later process has to begin with while there are any
	private []string // as of a place
}

// overlap is how much later than a newer one a message may arrive. What was taken
// before is known by its id.
const overlap = time.Minute

// readPlace is where a reading begins.
func readPlace(position string, start uint64) (r reading, err error) {
	if position == "" {
		return reading{at: start, from: start, since: start, held: start}, nil
	}
	var p place
	if err := json.Unmarshal([]byte(position), &p); err != nil {
		return r, channel.Fatal(fmt.Errorf("read the saved position: %w", err))
	}
	r.at = snowflake(p.At)
	if r.at == 0 {
		return r, channel.Fatal(fmt.Errorf("read the saved position: %q is no id", p.At))
	}
	r.private, r.from = p.Private, min(snowflake(p.From), r.at)
	r.hold()
	return r, nil
}

// hold has a later process begin where this one is now, and the history be looked at
// from there.
func (r *reading) hold() {
	r.held = r.at
	r.since = max(r.from, r.at-min(r.at, later(overlap)))
}

// met notes that something was said in a private channel.
func (r *reading) met(private string) {
	if len(r.private) > 0 && r.private[0] == private {
		return
	}
	r.private = slices.DeleteFunc(slices.Clone(r.private), func(p string) bool { return p == private })
	r.private = append([]string{private}, r.private...)
	r.private = r.private[:min(len(r.private), mostPrivate)]
}

// left notes that a private channel is not there any more.
func (r *reading) left(private string) {
	r.private = slices.DeleteFunc(slices.Clone(r.private), func(p string) bool { return p == private })
}

// position is the one after what was taken so far. It does not move while there are
// servers whose history was not looked at.
func (r *reading) position(awaiting bool) string {
	at := r.at
	if awaiting {
		at = r.held
	}
	p := place{At: strconv.FormatUint(at, 10), Private: r.private}
	if r.from+later(overlap) > at {
		p.From = strconv.FormatUint(r.from, 10)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is text
	}
	return string(raw)
}

// epoch is the moment that ids count from, in milliseconds since 1970.
const epoch = 1420070400000

// snowflake is an id as a number, 0 if it is none. The upper bits are milliseconds.
func snowflake(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func snowflakeAt(t time.Time) uint64 { return later(t.Sub(time.UnixMilli(epoch))) }

// later is by how much an id is larger that was given so much later.
func later(d time.Duration) uint64 { return uint64(max(d, 0).Milliseconds()) << 22 }
