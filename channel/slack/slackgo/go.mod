module mailroom/channel/slack/slackgo

go 1.26.0

require (
	github.com/slack-go/slack v0.34.0
	mailroom v0.0.0
)

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
)

replace mailroom => ../../..
