// Package client has the JSON types of Mailroom's HTTP API and a client for it.
//
// The types are the wire contract: package server encodes the same ones. What
// the root package already has in its wire shape (messages, entries, the answer
// to a submit) is used as it is. Errors travel as [Problem] and come back as
// *[mailroom.Error] with the code that the server gave.
package client
