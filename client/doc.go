// Package client is the Go client of Mailroom's HTTP API. Its methods take and
// return the wire types of package api.
//
// Errors travel as [api.Problem] and come back as *[mailroom.Error] with the code
// that the server gave.
package client
