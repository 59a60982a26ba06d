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
	mostAsked  = 8               // names are asked for at once
)

// people are names of users.
type people struct {
	// Owned by mu.
	mu    sync.Mutex
	names map[string]named         // by id
	quiet time.Time                // the platform is not asked before
	asked map[string]chan struct{} // users whose name is being asked for; closed when that is over
}

type named struct {
	name  string
	until time.Time
}

func newPeople() *people {
	return &people{names: map[string]named{}, asked: map[string]chan struct{}{}}
}

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

// begin notes that a name is asked for, and reports whether the caller is to ask: it is
// not known well enough, and no one else asks.
func (p *people) begin(user string, now time.Time) (mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, ok := p.names[user]; ok && now.Before(n.until) || now.Before(p.quiet) || p.asked[user] != nil || len(p.asked) >= mostAsked {
		return false
	}
	p.asked[user] = make(chan struct{})
	return true
}

// asking is closed when a name is not asked for any more; nil if it is not now.
func (p *people) asking(user string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[user]
}

// over notes that a name is not asked for any more.
func (p *people) over(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.asked[user])
	delete(p.asked, user)
}

// lookUp asks for a name beside the loop, if it is not known.
func (in *receiving) lookUp(ctx context.Context, user string) {
	if user != in.bot.ID && in.people.begin(user, time.Now()) {
		in.goes(func() { in.askName(ctx, user) })
	}
}

// name is that of a user, "" if it is not known. A call for it that is under way is waited
// for until a moment.
func (c *connection) name(ctx context.Context, user string, until time.Time) string {
	if done := c.people.asking(user); done != nil && time.Now().Before(until) {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	name, _ := c.people.known(user, time.Now())
	return name
}

// learnNames asks for the names that messages need, one after the other.
func (c *connection) learnNames(ctx context.Context, all []message) {
	for _, m := range all {
		for _, user := range m.people() {
			if mine := user != c.bot.ID && c.people.begin(user, time.Now()); mine {
				c.askName(ctx, user)
			}
		}
	}
}

// askName asks the platform for the name of a user, whom begin has noted.
func (c *connection) askName(ctx context.Context, user string) {
	defer c.people.over(user)
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
	name := ""
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
}
