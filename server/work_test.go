package server_test

import (
	"fmt"

	"mailroom/client"
)

// elsewhere registers a worker of an agent and claims what is due, at most so
// many runs.
func (f *fixture) elsewhere(agent string, most int) client.Claims {
	f.t.Helper()
	return ask[client.Claims](f, "POST /v1/claims", fmt.Sprintf(`{"agents":[%q],"max":%d,"round":1}`, agent, most))
}
