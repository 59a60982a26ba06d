package slack

import (
	"context"
	"sync"
	"time"
)

const (
	maxNames    = 2000            // whose names are remembered
	nameTTL     = time.Hour       // until it is asked for again
	namePause   = time.Minute     // after it could not be asked for
	nameTimeout = 3 * time.Second // for it to be told
	maxLookups  = 8               // names are asked for at once
)

// nameCache are names of users.
type nameCache struct {
	// Owned by mu.
	mu          sync.Mutex
	names       map[string]cachedName    // by id
	pausedUntil time.Time                // the platform is not asked before
	lookups     map[string]chan struct{} // users whose name is being asked for; closed when that is over
}

type cachedName struct {
	name  string
	until time.Time
}

func newNameCache() *nameCache {
	return &nameCache{names: map[string]cachedName{}, lookups: map[string]chan struct{}{}}
}

// get is the name of a user, and whether the platform need not be asked for it.
func (p *nameCache) get(user string, now time.Time) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.names[user]
	return n.name, ok && now.Before(n.until) || now.Before(p.pausedUntil)
}

// put remembers a name, or that it cannot be asked for now.
func (p *nameCache) put(user, name string, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.pausedUntil = now.Add(max(namePause, retryAfter(err)))
		return
	}
	if len(p.names) >= maxNames {
		clear(p.names)
	}
	p.names[user] = cachedName{name: name, until: now.Add(nameTTL)}
}

// startLookup notes that a name is asked for, and reports whether the caller is to ask: it is
// not known well enough, and no one else asks.
func (p *nameCache) startLookup(user string, now time.Time) (mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, ok := p.names[user]; ok && now.Before(n.until) || now.Before(p.pausedUntil) || p.lookups[user] != nil || len(p.lookups) >= maxLookups {
		return false
	}
	p.lookups[user] = make(chan struct{})
	return true
}

// lookup is closed when a name is not asked for any more; nil if it is not now.
func (p *nameCache) lookup(user string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lookups[user]
}

// endLookup notes that a name is not asked for any more.
func (p *nameCache) endLookup(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.lookups[user])
	delete(p.lookups, user)
}

// fetchNameAsync asks for a name beside the loop, if it is not known.
func (in *receiver) fetchNameAsync(ctx context.Context, user string) {
	if user != in.bot.ID && in.names.startLookup(user, time.Now()) {
		in.spawn(func() { in.fetchName(ctx, user) })
	}
}

// userName is that of a user, "" if it is not known. A call for it that is under way is waited
// for until a moment.
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

// fetchNames asks for the names that messages need, one after the other.
func (c *connection) fetchNames(ctx context.Context, all []message) {
	for _, m := range all {
		for _, user := range m.users() {
			if mine := user != c.bot.ID && c.names.startLookup(user, time.Now()); mine {
				c.fetchName(ctx, user)
			}
		}
	}
}

// fetchName asks the platform for the name of a user, whom begin has noted.
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
	_, err := c.client.call(ctx, request{op: "ask for a name", method: "users.info", params: formValues("user", user), result: &about})
	name := ""
	for _, n := range []string{about.User.Profile.DisplayName, about.User.RealName, about.User.Name} {
		if n != "" && err == nil {
			name = n
			break
		}
	}
	if err != nil {
		c.host.Log().Debug("a name is not known", "user", user, "error", err)
	}
	c.names.put(user, name, err, time.Now())
}
