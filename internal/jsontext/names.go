package jsontext

import "bytes"

// Names are the member names of one object. It allocates only for objects with many members.
type Names struct {
	few  [8][]byte
	n    int
	many map[string]struct{} // all names, once few is full
}

// Add adds a name, or returns false if the object has that name already. For a few names it keeps a reference to
// name, so the caller must not change its bytes.
func (m *Names) Add(name []byte) bool {
	if m.n < len(m.few) {
		for _, known := range m.few[:m.n] {
			if bytes.Equal(known, name) {
				return false
			}
		}
		m.few[m.n] = name
		m.n++
		return true
	}
	if m.many == nil {
		m.many = make(map[string]struct{}, 4*len(m.few))
		for _, known := range m.few {
			m.many[string(known)] = struct{}{}
		}
	}
	if _, duplicate := m.many[string(name)]; duplicate {
		return false
	}
	m.many[string(name)] = struct{}{}
	return true
}
