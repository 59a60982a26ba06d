package api

import (
	"time"

	"mailroom/auth"
)

// Token is a token without its secret. A field that is unknown or does not apply is
// null.
type Token struct {
	Name      string            `json:"name" doc:"Owner of the threads that it makes, and sender of its messages."`
	Scopes    []auth.Permission `json:"scopes" enum:"read,submit,decide,work,metrics,admin" doc:"admin stands for all."`
	Namespace *string           `json:"namespace" doc:"Prefix of thread ids that it sees in addition to its own threads."`
	Agents    []string          `json:"agents" doc:"With the scope work: the agents that it may run; empty: all that the server does not run itself."`
	Quotas    auth.Quotas       `json:"quotas" doc:"Limits of its name: threads, bytes of their logs, unread notifications that it sent, live workers, open streams; 0 is unlimited."`
	Used      Used              `json:"used" doc:"Current use of each quota."`
	CreatedAt time.Time         `json:"created_at" doc:"When it was made."`
	UsedAt    *time.Time        `json:"used_at" doc:"Last use, to the minute."`
	RevokedAt *time.Time        `json:"revoked_at" doc:"When it was revoked."`
	Kind      string            `json:"kind" enum:"token,limited,session,link" doc:"All but token act for another one, with its rights as far as scopes has them."`
	For       *string           `json:"for" doc:"The token that it acts for; admin is the operator's."`
	Client    *string           `json:"client" doc:"Browser and system of a session, such as Firefox on Linux, as the browser says."`
	Threads   []string          `json:"threads,omitempty" doc:"The only threads that it may use."`
	Run       *string           `json:"run,omitempty" doc:"The only run that it may use."`
	ExpiresAt *time.Time        `json:"expires_at" doc:"When it ends by itself; null: never."`
	Budget    map[string]string `json:"budget,omitempty" doc:"What the runs in its threads may use: in a day, in a month, and each run."`
	Via       *string           `json:"via" doc:"Labels the runs that it creates, in origin.via. null: the protocol of the request does."`
}

// Used says how much of its quotas a token uses.
type Used struct {
	auth.Use
	Streams int64 `json:"streams" doc:"Open streams and waits at this server, or open sockets if these are more."`
}

// Of returns the use of one quota.
func (u Used) Of(q auth.Quota) int64 {
	if q == auth.QuotaStreams {
		return u.Streams
	}
	return u.Use.Of(q)
}

// NewToken creates a token.
type NewToken struct {
	Name      string            `json:"name" example:"laptop" doc:"1 to 64 letters, digits or any of . _ - @"`
	Scopes    []auth.Permission `json:"scopes" nullable:"false" minItems:"1" enum:"read,submit,decide,work,metrics,admin" doc:"admin has all."`
	Namespace string            `json:"namespace,omitempty" doc:"Prefix of thread ids that it may see in addition to its own threads."`
	Agents    []string          `json:"agents,omitempty" nullable:"false" doc:"With the scope work: the agents that it may run."`
	Quotas    auth.Quotas       `json:"quotas,omitempty" doc:"Limits of threads, bytes, notifications, workers and streams, where they differ from the server's; 0 is unlimited."`
	ExpiresAt *time.Time        `json:"expires_at,omitempty" doc:"When it ends; default: never."`
	Budget    map[string]string `json:"budget,omitempty" doc:"What the runs in its threads may use: in a day and a month, such as 5usd, and each run."`
	Via       string            `json:"via,omitempty" example:"gateway" doc:"Labels the runs that it creates, in origin.via: 1 to 64 lower-case letters, digits or any of . _ -. Names that the server uses itself, such as user, run or mcp, are refused. Tokens and sessions that act for it have its label."`
}

// RevokeToken says what ends with a token.
type RevokeToken struct {
	Cancel bool `json:"cancel,omitempty" doc:"Cancel the open runs of the threads of its name that were created before the revocation, in its transaction; beyond 500 runs in further ones. Only for a token with a name of its own."`
}

// RevokedToken says what a revocation ended.
type RevokedToken struct {
	Cancelled int `json:"cancelled" doc:"Runs that were cancelled or asked to stop."`
	OpenRuns  int `json:"open_runs" doc:"Runs of the threads of its name that go on. Those that were asked to stop may be counted."`
}

// TokenPatch changes a token.
type TokenPatch struct {
	Quotas auth.Quotas `json:"quotas" doc:"Limits of threads, bytes, notifications, workers and streams; one that is left out is the server's."`
}

// CreatedToken is a new token with its secret.
type CreatedToken struct {
	Token
	Secret string `json:"token" doc:"The secret. It is shown once and not stored."`
}
