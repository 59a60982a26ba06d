package outbound

import (
	"sync"

	"mailroom/channel/chat"
	"mailroom/channel/chat/room"
)

// maxWatchedQuestions bounds the questions of a channel that are watched. Others are redrawn with the
// next delivery to their room.
const maxWatchedQuestions = 256

// Rooms holds the views of a channel's rooms. It outlives connections: a new connection continues what the previous
// one showed.
type Rooms struct {
	changed chan struct{} // signals a new question

	// Owned by mu.
	mu    sync.Mutex
	views map[chat.Room]*view // by the room without Group; those in which something happens
}

type view struct {
	at    chat.Room
	state *room.State
}

// NewRooms returns the views of a channel's rooms.
func NewRooms() *Rooms {
	return &Rooms{changed: make(chan struct{}, 1), views: map[chat.Room]*view{}}
}

// update calls f with the view of a room.
func (r *Rooms) update(at chat.Room, f func(s *room.State)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := at
	key.Group = false // not known for every delivery
	v := r.views[key]
	if v == nil {
		v = &view{at: at, state: room.New()}
		r.views[key] = v
	}
	v.at.Group = v.at.Group || at.Group
	f(v.state)
	if v.state.IsIdle() {
		delete(r.views, key)
	}
}

// followed returns the conversations that are followed, with their rooms.
func (r *Rooms) followed() (all []watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.views {
		for thread, after := range v.state.Followed() {
			all = append(all, watch{thread: thread, room: v.at, after: after})
		}
	}
	return all
}

// ask watches a question of a room.
func (r *Rooms) ask(at chat.Room, ticket, thread string) {
	if len(r.questions()) >= maxWatchedQuestions {
		return
	}
	r.update(at, func(s *room.State) { s.Ask(ticket, thread) })
	select {
	case r.changed <- struct{}{}:
	default: // the signal before was not taken yet
	}
}

// questions returns the rooms of the watched questions, by ticket.
func (r *Rooms) questions() map[string]chat.Room {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]chat.Room{}
	for _, v := range r.views {
		for _, ticket := range v.state.Questions() {
			all[ticket] = v.at
		}
	}
	return all
}

// asks reports whether a conversation has a watched question.
func (r *Rooms) asks(thread string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.views {
		if v.state.Asks(thread) {
			return true
		}
	}
	return false
}
