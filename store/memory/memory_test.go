package memory_test

import (
	"testing"

	"mailroom"
	"mailroom/store/memory"
	"mailroom/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) mailroom.Store { return memory.New() })
}
