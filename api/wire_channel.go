package api

import "time"

// Channel is the observed state of a connection to a platform. A field that is unknown
// or does not apply is null.
type Channel struct {
	Name   string     `json:"name" doc:"Its name in the configuration, unique in the server."`
	Kind   string     `json:"kind" doc:"The platform."`
	State  string     `json:"state" enum:"starting,connected,silent,queued,parked,gave_up,failed,standby" doc:"connected only while its last success is recent; silent and queued reconnect at next_try; parked does too, but needs attention; gave_up and failed reconnect when resumed, or at next_try if there is one; standby is run by another server."`
	Since  *time.Time `json:"since" doc:"Since when it has this state."`
	Reason *string    `json:"reason" doc:"Why it is not connected, or what blocks it."`

	Attempts       int        `json:"attempts" doc:"Failed attempts in a row."`
	NextTry        *time.Time `json:"next_try" doc:"Its next attempt to connect; null: it is connected, tries now, or waits to be resumed."`
	Adapter        int        `json:"adapter" doc:"Connection attempts since the process started."`
	LeftBehind     int        `json:"left_behind" doc:"Adapters that did not stop in time."`
	Reconnects     int        `json:"reconnects" doc:"Reconnects since the process started."`
	ConnectedSince *time.Time `json:"connected_since" doc:"null while it is not connected."`
	DowntimeMS     int64      `json:"downtime_ms" doc:"Total time without a connection since the process started, in milliseconds."`

	LastSuccess  *time.Time `json:"last_success" doc:"When the platform last answered the receiver."`
	LastError    *string    `json:"last_error" doc:"Also of an earlier connection; null: none since the process started."`
	LastErrorAt  *time.Time `json:"last_error_at" doc:"Time of last_error; null: none."`
	LastInbound  *time.Time `json:"last_inbound" doc:"When the last message was accepted."`
	LastOutbound *time.Time `json:"last_outbound" doc:"When the platform last accepted a message."`
	Cursor       *string    `json:"cursor" doc:"Position up to which it has read."`
	CursorLag    *int       `json:"cursor_lag" doc:"Unread messages on the platform, if it reports them."`
	Unhandled    int        `json:"unhandled" doc:"Messages that are not acknowledged yet: their run, or the delivery of its reply, is in progress."`
}

// States of a channel.
const (
	ChannelStarting  = "starting"
	ChannelConnected = "connected"
	ChannelSilent    = "silent"
	ChannelQueued    = "queued"
	ChannelParked    = "parked"
	ChannelGaveUp    = "gave_up"
	ChannelFailed    = "failed"
	ChannelStandby   = "standby"
)
