// Package slackgo tests slacktest, the fake of Slack, with slack-go, a client library
// that was written for Slack itself.
//
// It has tests only, and is a module of its own because only this test needs slack-go.
package slackgo
