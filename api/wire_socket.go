package api

import (
	"mailroom"
	"mailroom/auth"
)

// Identity is the name and the scopes of a token.
type Identity struct {
	Name   string            `json:"name"`
	Scopes []auth.Permission `json:"scopes"`
}

// Subscribed is the answer to a subscription to a run: its status at that time.
type Subscribed struct {
	Run    string          `json:"run"`
	Thread string          `json:"thread"`
	Status mailroom.Status `json:"status"`
}
