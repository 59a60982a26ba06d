package node

import (
	"context"
	"sync"

	"mailroom"
	"mailroom/store"
)

// versions has the older versions of agents to which runs are pinned. Another server may store a version after this
// one has started, so versions looks up a missing one in the store.
type versions struct {
	rebuild func(store.Definition) (mailroom.Agent, error)
	// read returns the stored definitions. It is nil if no other server uses the store, because then no version is
	// added.
	read func(context.Context) ([]store.Definition, error)

	building sync.Mutex // held by the caller of rebuild

	mu    sync.Mutex
	built map[agentVersion]mailroom.Agent // guarded by mu
}

// add builds a version.
func (v *versions) add(d store.Definition) error {
	v.building.Lock()
	defer v.building.Unlock()
	built, err := v.rebuild(d)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.built[agentVersion{d.Agent, d.Version}] = built
	return nil
}

func (v *versions) get(id agentVersion) mailroom.Agent {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.built[id]
}

// find returns a version of an agent, nil if it is not stored.
func (v *versions) find(ctx context.Context, id agentVersion) (mailroom.Agent, error) {
	if built := v.get(id); built != nil || v.read == nil {
		return built, nil
	}
	all, err := v.read(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.Agent == id.agent && d.Version == id.version {
			if err := v.add(d); err != nil {
				return nil, err
			}
		}
	}
	return v.get(id), nil
}
