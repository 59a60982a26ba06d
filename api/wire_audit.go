package api

import "time"

// AuditedAction is one action of an operator in the audit log. No field has a secret or the text of a message.
type AuditedAction struct {
	Seq        int64             `json:"seq" doc:"Its number in the audit log, from 1 without gaps."`
	At         time.Time         `json:"at" doc:"Time of the commit of the action and of this record."`
	Action     string            `json:"action" example:"agent.pause" doc:"What was done. Further names may be added."`
	Actor      string            `json:"actor" example:"admin" doc:"Name of the token, or who decided in a chat or by a link; empty: unknown."`
	ActorKind  string            `json:"actor_kind" doc:"operator, token, session, limited, link or chat; empty: no token."`
	Token      string            `json:"token" doc:"Row of the token, as a list of tokens names it; empty: the operator's own, or none."`
	From       string            `json:"from" doc:"Remote address as the server sees it, or the channel of a chat."`
	ObjectKind string            `json:"object_kind" example:"agent" doc:"Such as agent, run, thread, ticket, token or rule."`
	Object     string            `json:"object" doc:"Name or id of what was changed."`
	Thread     string            `json:"thread" doc:"Id of the thread of the object; empty: none."`
	Detail     map[string]string `json:"detail" doc:"What was changed, by name."`
}
