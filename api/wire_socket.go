package api

import (
	"mailroom"
	"mailroom/auth"
)

// Identity is the name and the scopes of a token.
type Identity struct {
	Name   string            `json:"name" doc:"Name of the token."`
	Scopes []auth.Permission `json:"scopes" doc:"What it may do."`
}

// Subscribed is the answer to a subscription to a run: its status at that time.
type Subscribed struct {
	Run    string          `json:"run" doc:"Id of the run."`
	Thread string          `json:"thread" doc:"Id of its thread."`
	Status mailroom.Status `json:"status" doc:"Status of the run when the subscription began."`
}
