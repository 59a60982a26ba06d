package bus

// RequestFlush says that a reader of the thread wants the text so far of the message
// being written: whoever writes it flushes it at once. It never waits, and like
// a notice it may be lost; the regular flush comes anyway.
func (b *Bus) RequestFlush(thread string) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for s := range b.flushRequests {
		select {
		case s.c <- thread:
		default: // its reader is behind, and the text is flushed each second
		}
	}
}

// SubscribeFlushRequests returns a subscription to what readers ask for. It buffers depth thread
// ids, at least one; the same thread may be asked for many times in a row. The
// caller must close it.
func (b *Bus) SubscribeFlushRequests(depth int) *FlushRequests {
	c := make(chan string, max(depth, 1))
	s := &FlushRequests{C: c, bus: b, c: c}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushRequests[s] = struct{}{}
	return s
}

// FlushRequests receives thread ids on C, which is closed by Close.
type FlushRequests struct {
	C <-chan string

	// Set once by Asks.
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
