package bus

// RequestFlush asks the worker that writes to the thread to flush the text of its message at once.
// It never blocks. A request may be lost; the regular flush follows anyway.
func (b *Bus) RequestFlush(thread string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for s := range b.flushRequests {
		select {
		case s.c <- thread:
		default: // the subscriber is behind; the text is flushed each second anyway
		}
	}
}

// SubscribeFlushRequests returns a subscription to flush requests. It buffers depth thread ids, at
// least one; an id may repeat. The caller must close it.
func (b *Bus) SubscribeFlushRequests(depth int) *FlushRequests {
	c := make(chan string, max(depth, 1))
	s := &FlushRequests{C: c, bus: b, c: c}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushRequests[s] = struct{}{}
	return s
}

// FlushRequests receives thread ids on C, which Close closes.
type FlushRequests struct {
	C <-chan string

	// Set once by SubscribeFlushRequests.
	bus *Bus
	c   chan string
}

// Close ends the subscription and closes C. It may be called more than once.
func (s *FlushRequests) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	if _, open := s.bus.flushRequests[s]; !open {
		return
	}
	delete(s.bus.flushRequests, s)
	close(s.c)
}
