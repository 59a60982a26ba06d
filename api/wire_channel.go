package api

import "time"

// Channel is a connection to a platform, as what happened shows it. What has not
// happened, or does not apply, is null.
type Channel struct {
	Name   string     `json:"name"`
	Kind   string     `json:"kind" doc:"Of its platform."`
	State  string     `json:"state" enum:"starting,connected,silent,queued,parked,gave_up,failed" doc:"connected only while its last success is fresh; silent and queued are tried again at next_try; parked too, but somebody should look; gave_up and failed only when resumed, or at next_try where there is one."`
	Since  *time.Time `json:"since" doc:"Of the state."`
	Reason *string    `json:"reason" doc:"Why it is not connected, or what holds it up."`

	Attempts       int        `json:"attempts" doc:"Tries in a row that have failed."`
	NextTry        *time.Time `json:"next_try"`
	Adapter        int        `json:"adapter" doc:"How many times the connection was made, or tried, since the process began."`
	LeftBehind     int        `json:"left_behind" doc:"Adapters that were told to end and have not."`
	Reconnects     int        `json:"reconnects" doc:"Times it was connected again since the process began."`
	ConnectedSince *time.Time `json:"connected_since"`
	DowntimeMS     int64      `json:"downtime_ms" doc:"For how many milliseconds in all it was not connected since the process began."`

	LastSuccess  *time.Time `json:"last_success" doc:"The platform has answered to who receives."`
	LastError    *string    `json:"last_error"`
	LastErrorAt  *time.Time `json:"last_error_at"`
	LastInbound  *time.Time `json:"last_inbound" doc:"A message was taken in."`
	LastOutbound *time.Time `json:"last_outbound" doc:"The platform has taken something."`
	Cursor       *string    `json:"cursor" doc:"How far it has read."`
	CursorLag    *int       `json:"cursor_lag" doc:"Messages that the platform has and were not read, where it says."`
	Unhandled    int        `json:"unhandled" doc:"Messages that are not acknowledged yet: their run, or the delivery of its reply, is under way."`
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
)
