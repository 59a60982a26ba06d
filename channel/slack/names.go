package slack

import (
	"context"
	"sync"
	"time"

	"mailroom/channel/httpcall"
)

const (
	maxNames    = 2000            // most cached names
	nameTTL     = time.Hour       // how long a name is cached
	namePause   = time.Minute     // pause after a failed lookup
	nameTimeout = 3 * time.Second // timeout of a lookup
	maxLookups  = 8               // concurrent lookups
)

// nameCache caches the names of users.
type nameCache struct {
	// Owned by mu.
	mu          sync.Mutex
	names       map[string]cachedName    // names of users by id
	pausedUntil time.Time                // time before which no name is looked up
	lookups     map[string]chan struct{} // running lookups by user id; closed when they end
}

type cachedName struct {
	name  string
	until time.Time
}

func newNameCache() *nameCache {
	return &nameCache{names: map[string]cachedName{}, lookups: map[string]chan struct{}{}}
}

// get returns the cached name of a user, and whether the caller should use the name without a lookup. A name that is
// too old is also used while lookups pause.
func (p *nameCache) get(user string, now time.Time) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.names[user]
	return n.name, ok && now.Before(n.until) || now.Before(p.pausedUntil)
}

// put caches the result of a lookup. After an error, no name is looked up for a while.
func (p *nameCache) put(user, name string, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		after, _ := httpcall.PauseOf(err)
		p.pausedUntil = now.Add(max(namePause, after))
		return
	}
	if len(p.names) >= maxNames {
		clear(p.names)
	}
	p.names[user] = cachedName{name: name, until: now.Add(nameTTL)}
}

// startLookup reports whether the caller must look up the name of a user: the name is not cached, no lookup of it is
// running, and lookups neither pause nor exceed maxLookups.
func (p *nameCache) startLookup(user string, now time.Time) (mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, ok := p.names[user]; ok && now.Before(n.until) || now.Before(p.pausedUntil) || p.lookups[user] != nil ||
		len(p.lookups) >= maxLookups {
		return false
	}
	p.lookups[user] = make(chan struct{})
	return true
}

// lookup returns a channel that is closed when the running lookup of a name ends, or nil if
// none is running.
func (p *nameCache) lookup(user string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lookups[user]
}

// endLookup ends the lookup that startLookup started.
func (p *nameCache) endLookup(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.lookups[user])
	delete(p.lookups, user)
}

// fetchNameAsync looks a name up concurrently if it is not cached.
func (in *receiver) fetchNameAsync(ctx context.Context, user string) {
	if user != in.bot.ID && in.names.startLookup(user, time.Now()) {
		in.spawn(func() { in.fetchName(ctx, user) })
	}
}

// userName returns the name of a user, "" if it is unknown. It waits for a running lookup,
// until the given time at most.
func (c *connection) userName(ctx context.Context, user string, until time.Time) string {
	if done := c.names.lookup(user); done != nil && time.Now().Before(until) {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	name, _ := c.names.get(user, time.Now())
	return name
}

// fetchNames looks up the names that messages need, one after the other.
func (c *connection) fetchNames(ctx context.Context, all []message) {
	for _, m := range all {
		for _, user := range m.users() {
			if mine := user != c.bot.ID && c.names.startLookup(user, time.Now()); mine {
				c.fetchName(ctx, user)
			}
		}
	}
}

// fetchName looks a name up. startLookup must have returned true for the user.
func (c *connection) fetchName(ctx context.Context, user string) {
	defer c.names.endLookup(user)
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	var about struct {
		User struct {
			Name     string `json:"name"`
			RealName string `json:"real_name"`
			Profile  struct {
				DisplayName string `json:"display_name"`
			} `json:"profile"`
		} `json:"user"`
	}
	_, err := c.client.call(ctx, request{op: "get user name", method: "users.info", params: formValues("user", user),
		result: &about})
	name := ""
	for _, n := range []string{about.User.Profile.DisplayName, about.User.RealName, about.User.Name} {
		if n != "" && err == nil {
			name = n
			break
		}
	}
	if err != nil {
		c.host.Log().Debug("user name lookup failed", "user", user, "error", err)
	}
	c.names.put(user, name, err, time.Now())
}
