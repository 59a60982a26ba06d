package api

import "mailroom"

// Identity says whom a token belongs to, and what it may do.
type Identity struct {
	Name   string                `json:"name"`
	Scopes []mailroom.Permission `json:"scopes"`
}

// Subscribed is the answer to who subscribes to a run: the run as it was then.
type Subscribed struct {
	Run    string          `json:"run"`
	Thread string          `json:"thread"`
	Status mailroom.Status `json:"status"`
}
