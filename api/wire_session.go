package api

import (
	"time"

	"mailroom/auth"
)

// NewLink asks for a link with which a browser signs in as the caller.
type NewLink struct {
	Scopes []auth.Permission `json:"scopes,omitempty" nullable:"false" enum:"read,submit,decide,metrics,admin" doc:"Scopes of the session; default: those of the caller, without work."`
}

// Link is a link to sign in. A page that has its secret exchanges it for a session.
type Link struct {
	Secret    string    `json:"secret" doc:"For POST /v1/session, once."`
	URL       *string   `json:"url" doc:"Address of the server for browsers, if it is configured."`
	ExpiresAt time.Time `json:"expires_at" doc:"Five minutes after its creation. A used link ends at once."`
}

// SignIn exchanges a link for a session.
type SignIn struct {
	Secret string `json:"secret" minLength:"1" maxLength:"200" doc:"Secret of a link."`
}

// ShownLink says whose session a link makes, for the question whether to sign in.
type ShownLink struct {
	Token     string            `json:"token" doc:"Name of the token that the session acts for."`
	Scopes    []auth.Permission `json:"scopes" enum:"read,submit,decide,work,metrics,admin" doc:"What the session may do."`
	MadeBy    string            `json:"made_by" enum:"token,session" doc:"Whether the token itself made the link, or a session of it."`
	Client    *string           `json:"client,omitempty" doc:"Browser of the session that made it."`
	ExpiresAt time.Time         `json:"expires_at" doc:"End of the link, not of the session."`
}

// Session says who the caller is and what it may do.
type Session struct {
	Token     string            `json:"token" doc:"Name of the token that it acts for, which owns its threads."`
	Kind      string            `json:"kind" enum:"token,limited,session" doc:"limited: a part of the rights of a token; session: a browser."`
	Scopes    []auth.Permission `json:"scopes" enum:"read,submit,decide,work,metrics,admin" doc:"What the caller may do; admin includes all."`
	Namespace *string           `json:"namespace" doc:"Prefix of thread ids that it sees besides its own threads; null: none."`
	Threads   []string          `json:"threads,omitempty" doc:"The only threads that it may use, if it is limited."`
	Run       *string           `json:"run,omitempty" doc:"The only run that it may use."`
	ExpiresAt *time.Time        `json:"expires_at" doc:"When it ends by itself; null: never."`
}

// SignedIn is a new session. Its secret has two halves: the cookie of the answer, and this one, which a page sends as
// Authorization: Session HALF.
type SignedIn struct {
	Session
	Half string `json:"half" doc:"For the header Authorization: Session HALF, beside the cookie. It is shown only once."`
}

// NewLimitedToken asks for a token with a part of the caller's rights, for example for a page of a web
// application.
type NewLimitedToken struct {
	Scopes    []auth.Permission `json:"scopes" nullable:"false" minItems:"1" enum:"read,submit,decide,metrics,admin" doc:"Part of your own."`
	Threads   []string          `json:"threads,omitempty" nullable:"false" maxItems:"100" doc:"Ids of the only threads that it may use; they may not exist yet. Then its scopes are read, submit or decide."`
	Run       string            `json:"run,omitempty" doc:"The only run that it may use."`
	ExpiresAt time.Time         `json:"expires_at" doc:"In the future, at most 366 days away, and not after the end of the caller."`
}
