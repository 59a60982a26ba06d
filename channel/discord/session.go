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

// session is a session of the gateway, which a later connection can resume.
type session struct {
	id    string // "" for none
	url   string // address at which the session can resume
	token string // token that started the session
	seq   int64  // number of the last event handled
	bot   account
	// awaitedServers are servers whose histories have not been checked for missed messages.
	awaitedServers map[string]bool
	gaps           map[string]gap // rooms with an unread history, by id
}

// clone returns a session with its own maps and queues.
func (s session) clone() session {
	s.awaitedServers, s.gaps = maps.Clone(s.awaitedServers), maps.Clone(s.gaps)
	for id, g := range s.gaps {
		g.deferred = slices.Clip(g.deferred)
		s.gaps[id] = g
	}
	return s
}

// sharedState is shared by the connections of one bot in one process.
type sharedState struct {
	limits rateLimits

	// Owned by mu.
	mu             sync.Mutex
	startedAt      time.Time         // time of the first connection attempt
	owner          *connection       // the only connection that may save its session
	session        session           // state after the last event of the session
	resumeFailures int               // failed resumes in a row
	identifyAfter  time.Time         // time before which no session may start
	threads        map[string]string // channel of each thread, by thread id
	private        map[string]bool   // threads that only those see who were added
	roles          map[string]string // the bot's own role, by server
	sent           map[string]string // ids of the bot's messages, by nonce
	nonces         []string          // keys of sent, oldest first
}

const (
	maxThreads = 50_000
	maxSent    = 1_000
	maxResumes = 2 // failed resumes before a new session is started
)

func newSharedState() *sharedState {
	return &sharedState{threads: map[string]string{}, private: map[string]bool{}, roles: map[string]string{},
		sent: map[string]string{}}
}

// markStart records the time of the first connection attempt.
func (m *sharedState) markStart(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.startedAt.IsZero() {
		m.startedAt = now
	}
}

// startID returns the message id to start from if there is no saved position.
func (m *sharedState) startID() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return snowflakeAt(m.startedAt)
}

// setOwner makes a connection the one whose session is saved.
func (m *sharedState) setOwner(c *connection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owner, m.resumeFailures = c, 0
}

// resumable returns the session to resume with a token.
func (m *sharedState) resumable(token string) (s session, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session.token != token {
		m.session, m.resumeFailures = session{}, 0
	}
	s = m.session.clone()
	return s, s.id != ""
}

// giveUpResume counts a failed resume and reports whether to stop trying: the resume URL may be
// gone for good.
func (m *sharedState) giveUpResume() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resumeFailures++
	return m.resumeFailures >= maxResumes
}

// save saves the session of a connection if it is the owner. It is called after each event.
func (m *sharedState) save(c *connection, s session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owner == c {
		m.session = s.clone()
	}
}

// dropSession makes the next connection start a new session.
func (m *sharedState) dropSession() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session, m.resumeFailures = session{}, 0
}

// invalidate makes the next connection start a new session after a pause.
func (m *sharedState) invalidate(now time.Time) {
	m.dropSession()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.identifyAfter = now.Add(identifyPause(rand.Float64()))
}

// awaitIdentify waits until a session may start.
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

// setThread records the channel of a thread.
func (m *sharedState) setThread(thread, parent string, private bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.threads) >= maxThreads {
		clear(m.threads) // each is looked up again when needed
		clear(m.private)
	}
	m.threads[thread] = parent
	if private {
		m.private[thread] = true
	}
}

// isPublic reports whether a thread is known, and visible to all who see its channel.
func (m *sharedState) isPublic(thread string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.threads[thread] != "" && !m.private[thread]
}

// parent returns the channel of a thread, "" if the thread is unknown.
func (m *sharedState) parent(thread string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.threads[thread]
}

// setRole records the bot's own role in a server.
func (m *sharedState) setRole(server, role string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roles[server] = role
}

// role returns the bot's own role in a server, "" if it has none.
func (m *sharedState) role(server string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.roles[server]
}

// recordSent records the id of one of the bot's messages by its nonce.
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

// sentMessage returns the id of the message sent with a nonce, "" if it was not seen.
func (m *sharedState) sentMessage(nonce string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sent[nonce]
}

// savedPosition is the saved form of a cursor. Message ids grow with time across all channels,
// so one id covers them all. Private channels are listed because no event lists them.
type savedPosition struct {
	Newest  string   `json:"at"`                // id of the newest message handled
	Oldest  string   `json:"from,omitempty"`    // start of reading; omitted once Newest is much newer
	Private []string `json:"private,omitempty"` // channels, most recently used first
}

// maxPrivate bounds the private channels whose histories are checked for missed messages.
const maxPrivate = 100

// cursor records how far a connection has read, in message ids.
type cursor struct {
	newest  uint64   // newest message handled
	oldest  uint64   // older messages are not read
	since   uint64   // histories are read after this
	saved   uint64   // position to save while there are gaps
	private []string // channels, most recently used first
}

// overlap is how far message ids may arrive out of order. Messages handled before are
// recognised by their ids.
const overlap = time.Minute

// parsePosition returns the cursor of a saved position. start is the id to start from if there
// is none.
func parsePosition(position string, start uint64) (r cursor, err error) {
	if position == "" {
		return cursor{newest: start, oldest: start, since: start, saved: start}, nil
	}
	var p savedPosition
	if err := json.Unmarshal([]byte(position), &p); err != nil {
		return r, channel.Fatal(fmt.Errorf("invalid saved position: %w", err))
	}
	r.newest = snowflake(p.Newest)
	if r.newest == 0 {
		return r, channel.Fatal(fmt.Errorf("invalid saved position: %q is not a message id", p.Newest))
	}
	r.private, r.oldest = p.Private, min(snowflake(p.Oldest), r.newest)
	r.hold()
	return r, nil
}

// hold fixes the position to save at the newest message, so that histories are read from that position.
func (r *cursor) hold() {
	r.saved = r.newest
	r.since = max(r.oldest, r.newest-min(r.newest, snowflakeOffset(overlap)))
}

// touchPrivate moves a private channel to the front of the list.
func (r *cursor) touchPrivate(private string) {
	if len(r.private) > 0 && r.private[0] == private {
		return
	}
	r.private = slices.DeleteFunc(slices.Clone(r.private), func(p string) bool { return p == private })
	r.private = append([]string{private}, r.private...)
	r.private = r.private[:min(len(r.private), maxPrivate)]
}

// removePrivate removes a private channel that is gone.
func (r *cursor) removePrivate(private string) {
	r.private = slices.DeleteFunc(slices.Clone(r.private), func(p string) bool { return p == private })
}

// position returns the position to save. It stays at the held position while there are gaps.
func (r *cursor) position(hasGaps bool) string {
	at := r.newest
	if hasGaps {
		at = r.saved
	}
	p := savedPosition{Newest: strconv.FormatUint(at, 10), Private: r.private}
	if r.oldest+snowflakeOffset(overlap) > at {
		p.Oldest = strconv.FormatUint(r.oldest, 10)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(raw)
}

// epoch is the start of Discord's ids, in milliseconds since 1970.
const epoch = 1420070400000

// snowflake returns an id as a number, 0 if it is malformed. The upper bits are milliseconds
// since epoch.
func snowflake(id string) uint64 {
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func snowflakeAt(t time.Time) uint64 { return snowflakeOffset(t.Sub(time.UnixMilli(epoch))) }

// snowflakeTime returns when an id was given.
func snowflakeTime(id uint64) time.Time { return time.UnixMilli(epoch + int64(id>>22)) }

// snowflakeOffset returns the difference of two ids that are d apart.
func snowflakeOffset(d time.Duration) uint64 { return uint64(max(d, 0).Milliseconds()) << 22 }
