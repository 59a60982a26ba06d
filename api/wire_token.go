package api

import (
	"time"

	"mailroom"
)

// Token is an account: a name, and what the holder of its secret may do. What is
// not known or does not apply is null.
type Token struct {
	Name      string                `json:"name" doc:"Owns the threads that it makes, and is the sender of its messages."`
	Scopes    []mailroom.Permission `json:"scopes" enum:"read,submit,decide,work,metrics,admin"`
	Namespace *string               `json:"namespace" doc:"Threads whose id begins with it are visible beside its own."`
	Agents    []string              `json:"agents" doc:"Those that it may work for, with the scope work; none: all that the server does not run itself."`
	Quotas    mailroom.Quotas       `json:"quotas" doc:"Threads, bytes of their logs, unread notifications that it sent, workers that are alive, and streams that are open, which its name may have; 0 is any number."`
	Used      Used                  `json:"used" doc:"What its name has of each."`
	CreatedAt time.Time             `json:"created_at"`
	UsedAt    *time.Time            `json:"used_at" doc:"The last time, to the minute."`
	RevokedAt *time.Time            `json:"revoked_at" doc:"From then on it is good for nothing."`
}

// Used is what a token has, with what the server has open for it.
type Used struct {
	mailroom.Use
	Streams int64 `json:"streams"`
}

// Of is the use of one quota.
func (u Used) Of(q mailroom.Quota) int64 {
	if q == mailroom.QuotaStreams {
		return u.Streams
	}
	return u.Use.Of(q)
}

// NewToken asks for an account.
type NewToken struct {
	Name      string                `json:"name" example:"laptop" doc:"1 to 64 letters, digits or any of . _ - @"`
	Scopes    []mailroom.Permission `json:"scopes" nullable:"false" minItems:"1" enum:"read,submit,decide,work,metrics,admin"`
	Namespace string                `json:"namespace,omitempty" doc:"Threads whose id begins with it become visible too."`
	Agents    []string              `json:"agents,omitempty" nullable:"false" doc:"Those that it may work for, with the scope work."`
	Quotas    mailroom.Quotas       `json:"quotas,omitempty" doc:"Threads, bytes, notifications, workers and streams that its name may have, where they differ from the server's; 0 is any number."`
}

// TokenPatch changes an account.
type TokenPatch struct {
	Quotas mailroom.Quotas `json:"quotas" doc:"Threads, bytes, notifications, workers and streams that its name may have; what is left out is as the server's limits say."`
}

// CreatedToken is a new account with its secret, which is shown this once.
type CreatedToken struct {
	Token
	Secret string `json:"token" doc:"Shown this once; kept nowhere."`
}
