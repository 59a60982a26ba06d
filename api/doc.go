// Package api has the JSON types of Mailroom's HTTP API and their conversions: the
// wire contract that package server and package client share. It is a package of its own so that
// neither imports the other.
//
// A type that the root package already has in its wire shape (messages, entries, the answer to a
// submit) is used directly. An error is a [Problem].
package api
