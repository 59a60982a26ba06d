package client

import "time"

// Channel is a connection to a platform, as what happened shows it. What has not
// happened, or does not apply, is null.
type Channel struct {
	Name           string     `json:"name"`
	Kind           string     `json:"kind" doc:"Of its platform."`
	State          string     `json:"state" enum:"starting,connected,silent,queued,failed" doc:"connected only while its last success is fresh; queued is tried again at next_try."`
	Reason         *string    `json:"reason" doc:"Why it is not connected, or what holds it up."`
	LastSuccess    *time.Time `json:"last_success" doc:"The platform has answered to who receives."`
	LastError      *string    `json:"last_error"`
	LastErrorAt    *time.Time `json:"last_error_at"`
	LastInbound    *time.Time `json:"last_inbound" doc:"A message was taken in."`
	LastOutbound   *time.Time `json:"last_outbound" doc:"The platform has taken something."`
	Cursor         *string    `json:"cursor" doc:"How far it has read."`
	Unhandled      int        `json:"unhandled" doc:"Messages that are not acknowledged yet: their run, or the delivery of its reply, is under way."`
	NextTry        *time.Time `json:"next_try"`
	ConnectedSince *time.Time `json:"connected_since"`
	Failures       int        `json:"failures" doc:"In a row."`
}

// States of a channel.
const (
	ChannelStarting  = "starting"
	ChannelConnected = "connected"
	ChannelSilent    = "silent"
	ChannelQueued    = "queued"
	ChannelFailed    = "failed"
)
