package memory_test

import (
	"testing"

	"mailroom/store"
	"mailroom/store/memory"
	"mailroom/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return memory.New() })
}
