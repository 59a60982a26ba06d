package endpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

func TestCommandsInTwoTerminalsLoseNoContext(t *testing.T) {
	dir := t.TempDir()
	env := func(name string) string {
		if name == "XDG_CONFIG_HOME" {
			return dir
		}
		return ""
	}
	const each = 5
	var all sync.WaitGroup
	for terminal := range 2 {
		all.Go(func() {
			for i := range each {
				err := ChangeContexts(context.Background(), env, func(c *Contexts) error {
					if c.Contexts == nil {
						c.Contexts = map[string]Context{}
					}
					c.Contexts[fmt.Sprint("c", terminal, "-", i)] = Context{URL: "https://mail.example.org"}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	refused := errors.New("refused")
	if err := ChangeContexts(t.Context(), env, func(c *Contexts) error {
		clear(c.Contexts)
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("error %v, want that of the change", err)
	}
	if c, err := ReadContexts(env); err != nil || len(c.Contexts) != 2*each {
		t.Errorf("%d contexts, %v; want %d", len(c.Contexts), err, 2*each)
	}
}
