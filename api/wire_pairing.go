package api

import "time"

// Pairing is a chat user with access through a pairing code, or a pending request for
// it.
type Pairing struct {
	Channel string     `json:"channel" doc:"Name of the chat channel."`
	User    string     `json:"user" doc:"Id on the platform."`
	Name    string     `json:"name" doc:"Display name on the platform."`
	State   string     `json:"state" enum:"paired,waits" doc:"paired: has access; waits: its code is not approved yet."`
	Tier    string     `json:"tier" enum:"stranger,user,admin" doc:"A user may talk; an admin may also decide tickets."`
	Since   time.Time  `json:"since" doc:"When access was granted or requested."`
	Until   *time.Time `json:"until" doc:"When the code expires; null after approval."`
	By      *string    `json:"by" doc:"Who approved it."`
}

// States and tiers of a Pairing.
const (
	Paired       = "paired"
	PairingWaits = "waits"

	TierUser  = "user"
	TierAdmin = "admin"
)

// ApprovePairing approves a pairing code.
type ApprovePairing struct {
	Code    string `json:"code" minLength:"1" maxLength:"100" doc:"The code; dashes, spaces and case are ignored."`
	Admin   bool   `json:"admin,omitempty" doc:"The user may also decide tickets."`
	Channel string `json:"channel,omitempty" doc:"The channel that issued the code. Absent: any."`
}
