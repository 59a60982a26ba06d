package slack

import (
	"context"
	"sync"
	"time"
)

const (
	mostPeople = 2000            // whose names are remembered
	nameLasts  = time.Hour       // until it is asked for again
	nameRests  = time.Minute     // after it could not be asked for
	nameTime   = 3 * time.Second // for it to be told
)

// people are names of users.
type people struct {
	// Owned by mu.
	mu    sync.Mutex
	names map[string]named // by id
	quiet time.Time        // the platform is not asked before
}

type named struct {
	name  string
	until time.Time
}

func newPeople() *people { return &people{names: map[string]named{}} }

// known is the name of a user, and whether the platform need not be asked for it.
func (p *people) known(user string, now time.Time) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.names[user]
	return n.name, ok && now.Before(n.until) || now.Before(p.quiet)
}

// learn remembers a name, or that it cannot be asked for now.
func (p *people) learn(user, name string, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.quiet = now.Add(max(nameRests, afterOf(err)))
		return
	}
	if len(p.names) >= mostPeople {
		clear(p.names)
	}
	p.names[user] = named{name: name, until: now.Add(nameLasts)}
}

// name is that of a user; "" if it is not known. Nothing waits long for it.
func (c *connection) name(ctx context.Context, user string) string {
	name, enough := c.people.known(user, time.Now())
	if enough {
		return name
	}
	ctx, cancel := context.WithTimeout(ctx, nameTime)
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
	_, err := c.client.call(ctx, call{what: "ask for a name", method: "users.info", in: values("user", user), out: &about})
	for _, n := range []string{about.User.Profile.DisplayName, about.User.RealName, about.User.Name} {
		if n != "" && err == nil {
			name = n
			break
		}
	}
	if err != nil {
		c.link.Log().Debug("a name is not known", "user", user, "error", err)
	}
	c.people.learn(user, name, err, time.Now())
	return name
}
