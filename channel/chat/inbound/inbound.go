// Package inbound is the receiving half of a chat channel. It handles the events of a platform:
// access, commands, conversations, decisions, and files that must be downloaded first.
//
// An event may come twice, also with a crash anywhere in its first handling. So each step has an
// idempotency key or can be repeated, and the cursor moves with the last step.
package inbound

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom"
	"mailroom/channel"
	"mailroom/channel/chat"
	"mailroom/internal/display"
)

// Options configure [Receive].
type Options struct {
	Chat     chat.Options
	Host     *channel.Host
	Platform chat.Platform
	Caps     chat.Capabilities
	Limiter  *chat.Limiter
	// Watch is called when a user has addressed a conversation in the room at. The reply follows after the entry
	// number after; 0 means after the last entry of the conversation's thread.
	Watch func(thread string, at chat.Room, after int64)
}

// Receive handles the events of a connection until ctx ends. It resumes the stored backlog first.
func Receive(ctx context.Context, o Options) error {
	work := newBackground(ctx, o.Host.Log())
	d := newDispatcher(o, work)
	at, err := d.answers.position(ctx)
	if err != nil {
		return err
	}
	if err := d.bindPairings(ctx); err != nil {
		return work.close(err)
	}
	if err := d.backlog.resume(); err != nil {
		return work.close(err)
	}
	return work.close(o.Platform.Receive(work.ctx, at, d.receive))
}

// event is an event in handling.
type event struct {
	chat.Event
	sender string    // key of the sender: the channel and the user
	tier   chat.Tier // tier of the event's user
	// fetching is set for an event of the backlog, and ends when its files are abandoned. The cursor
	// of such an event moved when it entered the backlog.
	fetching context.Context
	fetched  []mailroom.Part // parts of its files, if they were downloaded before
	passed   bool            // the cursor has moved past it
	join     time.Duration   // how long its message waits for more of the user
}

// dispatcher passes each event to its handler.
type dispatcher struct {
	// Set by newDispatcher.
	host          *channel.Host
	botName       string // how users address the bot
	account       string // account of the bot, see [chat.Capabilities.Account]
	access        *chat.AccessPolicy
	join          join
	answers       *answers
	conversations *conversations
	backlog       *backlog
	albums        *albums
	messages      *messages
	commands      *commands
	decisions     *decisions
	strangers     *strangers
}

func newDispatcher(o Options, work *background) *dispatcher {
	access := &o.Chat.Access
	as := &answers{host: o.Host, bot: o.Caps.BotID}
	cs := &conversations{host: o.Host, bot: o.Caps.BotID, perUser: access.PerUser}
	acks := &buttonAcks{platform: o.Platform, caps: o.Caps, limiter: o.Limiter, work: work}
	ms := &messages{
		host: o.Host, botName: o.Caps.BotName, agent: o.Chat.Agent, files: attachments{o.Chat.Files, access.MaxFileSize},
		answers: as, conversations: cs, watch: o.Watch,
	}
	ds := &decisions{host: o.Host, caps: o.Caps, answers: as, conversations: cs, acks: acks, watch: o.Watch}
	d := &dispatcher{
		host: o.Host, botName: o.Caps.BotName, account: o.Caps.Account(), access: access, join: join{access.Join, o.Caps},
		answers: as, conversations: cs, messages: ms, decisions: ds,
		commands: &commands{host: o.Host, caps: o.Caps, agent: o.Chat.Agent, answers: as, conversations: cs, messages: ms,
			decisions: ds},
		strangers: &strangers{host: o.Host, platform: o.Platform, caps: o.Caps, limiter: o.Limiter, pairing: access.Pairing,
			command: o.Chat.Command, answers: as, acks: acks, work: work},
	}
	d.albums = &albums{conversations: cs}
	d.backlog = newBacklog(o.Host, o.Platform, o.Caps.BotID, cs, work, d)
	return d
}

// bindPairings ends pairings that users made with another account, before the channel got another bot or platform.
func (d *dispatcher) bindPairings(ctx context.Context) error {
	ended := 0
	err := chat.UpdatePairings(ctx, d.host.UpdateValue, func(p *chat.Pairings, _ time.Time) (changed bool) {
		changed, ended = p.Bind(d.account)
		return changed
	})
	if err == nil && ended > 0 {
		d.host.Log().Warn("pairings ended: the channel connected as another account", "users", ended)
	}
	return err
}

const maxID = 300 // most bytes of an id of the platform

// receive is the connection's [chat.EventHandler].
func (d *dispatcher) receive(ctx context.Context, e chat.Event) error {
	for _, id := range []string{e.Key, e.Room.Chat, e.Room.Topic, e.User.ID, e.TargetID, e.Album} {
		if len(id) > maxID || strings.ContainsRune(id, 0) || !utf8.ValidString(id) {
			return d.answers.skip(ctx, &event{Event: e}, "an id is too long or invalid")
		}
	}
	if e.Key == "" || e.Room.Chat == "" {
		return d.answers.skip(ctx, &event{Event: e}, "no key or no chat")
	}
	e.Text, e.User.Name, e.Context = sanitize(e.Text), display.Name(e.User.Name), boundContext(e.Context)
	e.Written = believed(e.Written, time.Now())
	x, err := d.load(ctx, e)
	if err != nil {
		return err
	}
	if x.Album != "" && x.Room.Group && x.tier != chat.TierStranger && !d.access.AllGroupMessages {
		_, why := d.parse(x)
		earlier, err := d.albums.address(ctx, x, why == "")
		if err != nil {
			return err
		}
		for _, y := range earlier {
			if err := d.accept(ctx, y); err != nil {
				return err
			}
		}
	}
	return d.accept(ctx, x)
}

// accept puts an event into the backlog if the event must wait for files or for earlier events. Otherwise accept
// handles the event.
func (d *dispatcher) accept(ctx context.Context, x *event) error {
	if waits, err := d.enqueue(ctx, x); err != nil {
		return err
	} else if waits {
		return d.answers.skip(ctx, x, "stored in the backlog")
	}
	return d.handle(ctx, x)
}

// handleWaiting handles an event of the backlog.
func (d *dispatcher) handleWaiting(ctx context.Context, w *waitingEvent) error {
	x, err := d.load(ctx, w.event)
	if err != nil {
		return err
	}
	x.fetching, x.fetched = w.fetching, w.fetched
	return d.handle(ctx, x)
}

// fetchWaiting downloads the files of a message of the backlog, before it is handled.
func (d *dispatcher) fetchWaiting(ctx context.Context, w *waitingEvent) error {
	x, err := d.load(ctx, w.event)
	if err != nil || x.tier == chat.TierStranger {
		return err
	}
	if fetch, err := d.needsFetch(ctx, x); err != nil || !fetch {
		return err
	}
	w.fetched = d.messages.files.fetch(w.fetching, x.Files)
	return ctx.Err()
}

// isPlain reports whether an event of the backlog is a message to the agent that is no command.
func (d *dispatcher) isPlain(w *waitingEvent) bool { return d.isMessage(&event{Event: w.event}) }

// isMessage reports whether an event is a message to the agent that is no command.
func (d *dispatcher) isMessage(e *event) bool {
	p, why := d.parse(e)
	return e.Kind == chat.EventMessage && why == "" && p.Suggestion == "" && p.Command == ""
}

// quiet returns how long a message waits in the backlog for further messages of its user. It returns 0 for a message
// without files, because the run of such a message waits instead.
func (d *dispatcher) quiet(w *waitingEvent) time.Duration {
	if len(w.event.Files) == 0 {
		return 0
	}
	return d.join.of(&event{Event: w.event}, w.event.Text)
}

// belongs reports whether two messages of the backlog, one behind the other, belong together.
func (d *dispatcher) belongs(before, next *waitingEvent) bool {
	return d.isPlain(before) && d.isPlain(next) && d.join.belongs(before, next)
}

// load adds to an event what the server knows about its user.
func (d *dispatcher) load(ctx context.Context, e chat.Event) (*event, error) {
	paired, err := chat.LoadPairings(ctx, d.host, d.host.Name())
	if err != nil {
		return nil, err
	}
	return &event{Event: e, sender: d.host.Name() + ":" + e.User.ID,
		tier: paired.Tier(d.access, d.account, e.User.ID, e.Room)}, nil
}

// handle dispatches an event by its kind and the user's tier.
func (d *dispatcher) handle(ctx context.Context, e *event) error {
	switch {
	case e.Kind == chat.EventDeleted: // the platform checks who may delete
		return d.messages.edit(ctx, e, d.access.BusyMode)
	case e.Kind == chat.EventInvited || e.Kind == chat.EventUnreadable:
		return d.handleInviteOrUnreadable(ctx, e)
	case e.tier == chat.TierStranger:
		return d.strangers.handle(ctx, e)
	case e.Kind == chat.EventButton:
		return d.decisions.button(ctx, e)
	case e.Kind == chat.EventEdited:
		return d.messages.edit(ctx, e, d.access.BusyMode)
	case e.Kind == chat.EventMessage:
		return d.handleMessage(ctx, e)
	}
	return d.answers.skip(ctx, e, "unknown kind")
}

// handleInviteOrUnreadable handles invitations and unreadable messages. They are allowed to authorized
// users, and in private to everyone who may ask for pairing.
func (d *dispatcher) handleInviteOrUnreadable(ctx context.Context, e *event) error {
	if e.tier == chat.TierStranger && (e.Room.Group || !d.access.Pairing) {
		return d.answers.skip(ctx, e, "unauthorized user")
	}
	if e.Kind == chat.EventUnreadable {
		return d.answers.send(ctx, e, e.Text, nil)
	}
	if err := e.Accept(ctx); err != nil {
		return err
	}
	return d.answers.skip(ctx, e, "joined the room")
}

// parse parses a message. why is the reason why it is not for this bot, "" if it is.
func (d *dispatcher) parse(e *event) (p chat.ParsedText, why string) {
	p = chat.ParseText(e.Text, d.botName)
	switch {
	case p.ForOtherBot:
		return p, "addressed to another bot"
	case e.Room.Group && !e.Addressed && !p.NamesBot && !d.access.AllGroupMessages:
		return p, "not addressed to the bot"
	}
	return p, ""
}

// handleMessage handles a message of an authorized user.
func (d *dispatcher) handleMessage(ctx context.Context, e *event) error {
	p, why := d.parse(e)
	switch {
	case why != "":
		return d.answers.skip(ctx, e, why)
	case p.Suggestion != "":
		meant, queue := d.commands.text(p.Suggestion), d.commands.text(chat.CommandQueue)
		return d.answers.send(ctx, e,
			fmt.Sprintf("Unknown command; did you mean %s? To send the text to the agent, start it with %s.", meant, queue), nil)
	case p.Command == "":
		e.join = d.join.of(e, p.Text)
		return d.messages.submit(ctx, e, p.Text, d.access.BusyMode)
	}
	return d.commands.handle(ctx, e, p)
}

// enqueue puts an event into the backlog if its files must be downloaded or an earlier event of
// its conversation waits. It reports false if the event can be handled now.
func (d *dispatcher) enqueue(ctx context.Context, e *event) (bool, error) {
	stops, ordered := d.ordered(e)
	if !ordered {
		return false, nil
	}
	lane := d.conversations.thread(&e.Event, "")
	if stops {
		d.backlog.abandonFiles(lane)
	}
	if !d.backlog.hasLane(lane) {
		if fetch, err := d.needsFetch(ctx, e); err != nil || !fetch {
			return false, err
		}
	}
	if d.join.usual > 0 && d.isMessage(e) {
		if err := d.messages.hold(ctx, e); err != nil {
			return false, err
		}
	}
	return d.backlog.add(ctx, lane, e.Event)
}

// ordered reports whether an event keeps its order within its conversation, and whether it stops
// the events before it. A decision or a status request acts at once.
func (d *dispatcher) ordered(e *event) (stops, ordered bool) {
	switch {
	case e.Kind == chat.EventDeleted:
		return false, true
	case e.tier == chat.TierStranger:
		return false, false
	case e.Kind == chat.EventEdited:
		return false, true
	case e.Kind != chat.EventMessage:
		return false, false
	}
	p, why := d.parse(e)
	switch {
	case why != "" || p.Suggestion != "":
		return false, false
	case p.Command == "" || p.Command == chat.CommandQueue || p.Command == chat.CommandSteer ||
		p.Command == chat.CommandNew:
		return false, true
	}
	return p.Command == chat.CommandStop, p.Command == chat.CommandStop
}

// needsFetch reports whether files must be downloaded. The files of a message that was submitted
// before need not.
func (d *dispatcher) needsFetch(ctx context.Context, e *event) (bool, error) {
	if !slices.ContainsFunc(e.Files, func(f chat.File) bool { return f.Open != nil }) {
		return false, nil
	}
	if e.Kind != chat.EventMessage {
		return e.Kind == chat.EventEdited, nil
	}
	c, err := d.conversations.load(ctx, &e.Event)
	if err != nil {
		return false, err
	}
	known, _, err := d.conversations.find(ctx, &e.Event, &c, e.Key)
	return known == nil, err
}
