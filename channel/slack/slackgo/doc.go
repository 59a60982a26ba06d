// Package slackgo tests slacktest, the fake of Slack, with slack-go, a client library for the
// real Slack.
//
// It is a module of its own because only this test needs slack-go.
package slackgo
