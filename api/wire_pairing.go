package api

import "time"

// Pairing is somebody who was let in to talk through a chat platform, or who waits
// for it.
type Pairing struct {
	Channel string     `json:"channel"`
	User    string     `json:"user" doc:"Id on the platform."`
	Name    string     `json:"name" doc:"As they call themselves."`
	State   string     `json:"state" enum:"paired,waits"`
	Tier    string     `json:"tier" enum:"stranger,user,admin" doc:"What they may do: a user may talk, an admin may also decide tickets."`
	Since   time.Time  `json:"since" doc:"They were let in, or asked."`
	Until   *time.Time `json:"until" doc:"Their code is good; null for who was let in."`
	By      *string    `json:"by" doc:"Who let them in."`
}

// States and tiers of a Pairing.
const (
	Paired       = "paired"
	PairingWaits = "waits"

	TierUser  = "user"
	TierAdmin = "admin"
)

// ApprovePairing lets in who has a code.
type ApprovePairing struct {
	Code    string `json:"code" minLength:"1" maxLength:"100" doc:"As it was shown; dashes, spaces and case do not matter."`
	Admin   bool   `json:"admin,omitempty" doc:"They may also decide tickets."`
	Channel string `json:"channel,omitempty" doc:"That gave the code; absent: any."`
}
