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
	// awaitedServers are the servers whose history is still to be looked at, since the time
	// that the reading began with.
	awaitedServers map[string]bool
	gaps           map[string]gap // rooms whose history goes before their events, by their ids
}

// clone is a session whose maps and queues are its own.
func (s session) clone() session {
	s.awaitedServers, s.gaps = maps.Clone(s.awaitedServers), maps.Clone(s.gaps)
	for id, g := range s.gaps {
		g.deferred = slices.Clip(g.deferred)
		s.gaps[id] = g
	}
	return s
}

// sharedState is what the connections of one bot share. It outlives them, and not the
// process.
type sharedState struct {
	limits rateLimits

	// Owned by mu.
	mu             sync.Mutex
	startedAt      time.Time         // when a connection was tried first
	owner          *connection       // the only one that may change the session
	session        session           // as its last event has left it
	resumeFailures int               // tries to resume it that came to nothing, in a row
	identifyAfter  time.Time         // no session is begun before
	threads        map[string]string // the channel that a thread is of, by the thread
	roles          map[string]string // the bot's own role, by the server
	sent           map[string]string // messages of the bot, by their nonce
	nonces         []string          // of sent, the oldest first
}

const (
	maxThreads = 50_000
	maxSent    = 1_000
	maxResumes = 2 // that fail before another session is begun, if one can be
)

func newSharedState() *sharedState {
	return &sharedState{threads: map[string]string{}, roles: map[string]string{}, sent: map[string]string{}}
}

// markStart notes when it all began.
func (m *sharedState) markStart(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.startedAt.IsZero() {
		m.startedAt = now
	}
}

// startID is where the reading begins if nothing was ever read.
func (m *sharedState) startID() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return snowflakeAt(m.startedAt)
}

// setOwner has a connection, which was let in, be the one whose session is resumed next.
func (m *sharedState) setOwner(c *connection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owner, m.resumeFailures = c, 0
}

// resumable is the session that can be resumed with a token.
func (m *sharedState) resumable(token string) (s session, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session.token != token {
		m.session, m.resumeFailures = session{}, 0
	}
	s = m.session.clone()
	return s, s.id != ""
}

// giveUpResume counts a session that could not be resumed, and reports whether that was
// tried often enough: the address at which it is resumed may not be there any more.
func (m *sharedState) giveUpResume() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resumeFailures++
	return m.resumeFailures >= maxResumes
}

// save keeps the session of a connection, if it is the one that counts. It is called
// after each event that was taken.
func (m *sharedState) save(c *connection, s session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner == c {
		m.session = s.clone()
	}
}

// dropSession has the next connection begin a session of its own.
func (m *sharedState) dropSession() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.resumeFailures = session{}, 0
}

// invalidate has the next connection begin a session of its own, after a pause.
func (m *sharedState) invalidate(now time.Time) {
	m.dropSession()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.identifyAfter = now.Add(identifyPause(rand.Float64()))
}

// awaitIdentify waits until a session may be begun.
func (m *sharedState) awaitIdentify(ctx context.Context) error {
	m.mu.Lock()
	wait := time.Until(m.identifyAfter)
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

// setThreadParent notes of which channel a thread is.
func (m *sharedState) setThreadParent(thread, parent string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.threads) >= maxThreads {
		clear(m.threads) // each is asked for when it is needed
	}
	m.threads[thread] = parent
}

// parent is the channel that a thread is of, "" if it is not known to be one.
func (m *sharedState) parent(thread string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.threads[thread]
}

// setRole notes the bot's own role in a server.
func (m *sharedState) setRole(server, role string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roles[server] = role
}

// role is the bot's own in a server, "" if it has none.
func (m *sharedState) role(server string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.roles[server]
}

// recordSent notes a message of the bot that has arrived.
func (m *sharedState) recordSent(nonce, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.sent[nonce]; known || nonce == "" {
		return
	}
	if len(m.nonces) >= maxSent {
		delete(m.sent, m.nonces[0])
		m.nonces = m.nonces[1:]
	}
	m.sent[nonce] = id
	m.nonces = append(m.nonces, nonce)
}

// sentMessage is the one that was sent with a nonce, "" if it was not seen.
func (m *sharedState) sentMessage(nonce string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent[nonce]
}

// savedPosition is how far a bot has read. Ids of messages grow with time, wherever they are,
// so that one says enough of all channels. Private ones are listed nowhere else.
type savedPosition struct {
	Newest  string   `json:"at"`                // id of the newest message that was taken
	Oldest  string   `json:"from,omitempty"`    // nothing is older; left out when At is much newer
	Private []string `json:"private,omitempty"` // channels, the one that was used last first
}

// maxPrivate private channels are looked at for what was said meanwhile.
const maxPrivate = 100

// cursor is how far a connection has read.
type cursor struct {
	newest  uint64   // the newest that was taken
	oldest  uint64   // nothing older was ever to be read
	since   uint64   // what is newer is to be looked for in the history of the awaited
	saved   uint64   // what a later process has to begin with while there are any
	private []string // as of a place
}

// overlap is how much later than a newer one a message may arrive. What was taken
// before is known by its id.
const overlap = time.Minute

// parsePosition is where a reading begins.
func parsePosition(position string, start uint64) (r cursor, err error) {
	if position == "" {
		return cursor{newest: start, oldest: start, since: start, saved: start}, nil
	}
	var p savedPosition
	if err := json.Unmarshal([]byte(position), &p); err != nil {
		return r, channel.Fatal(fmt.Errorf("read the saved position: %w", err))
	}
	r.newest = snowflake(p.Newest)
	if r.newest == 0 {
		return r, channel.Fatal(fmt.Errorf("read the saved position: %q is no id", p.Newest))
	}
	r.private, r.oldest = p.Private, min(snowflake(p.Oldest), r.newest)
	r.hold()
	return r, nil
}

// hold has a later process begin where this one is now, and the history be looked at
// from there.
func (r *cursor) hold() {
	r.saved = r.newest
	r.since = max(r.oldest, r.newest-min(r.newest, snowflakeOffset(overlap)))
}

// touchPrivate notes that something was said in a private channel.
func (r *cursor) touchPrivate(private string) {
	if len(r.private) > 0 && r.private[0] == private {
		return
	}
	r.private = slices.DeleteFunc(slices.Clone(r.private), func(p string) bool { return p == private })
	r.private = append([]string{private}, r.private...)
	r.private = r.private[:min(len(r.private), maxPrivate)]
}

// removePrivate notes that a private channel is not there any more.
func (r *cursor) removePrivate(private string) {
	r.private = slices.DeleteFunc(slices.Clone(r.private), func(p string) bool { return p == private })
}

// position is the one after what was taken so far. It does not move while there are
// servers whose history was not looked at.
func (r *cursor) position(awaiting bool) string {
	at := r.newest
	if awaiting {
		at = r.saved
	}
	p := savedPosition{Newest: strconv.FormatUint(at, 10), Private: r.private}
	if r.oldest+snowflakeOffset(overlap) > at {
		p.Oldest = strconv.FormatUint(r.oldest, 10)
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

func snowflakeAt(t time.Time) uint64 { return snowflakeOffset(t.Sub(time.UnixMilli(epoch))) }

// snowflakeOffset is by how much an id is larger that was given so much later.
func snowflakeOffset(d time.Duration) uint64 { return uint64(max(d, 0).Milliseconds()) << 22 }
