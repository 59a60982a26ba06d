// Package endpoint finds the server that a command talks to, and makes HTTP clients that trust it.
package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"

	"mailroom/app/command"
	"mailroom/app/datadir"
	"mailroom/client"
)

// Endpoint is the address of a server with its credentials.
type Endpoint struct {
	URL, Token string
	HTTP       *http.Client // trusts the server's certificate
	Operator   bool         // Token is the operator's, from the data folder
}

// Client returns a client for the server.
func (e Endpoint) Client(options ...client.Option) *client.Client {
	return client.New(e.URL, e.Token, append([]client.Option{client.WithHTTPClient(e.HTTP)}, options...)...)
}

// Find finds the server: from --data or --context, else from MAILROOM_CONTEXT, else from MAILROOM_URL or
// MAILROOM_DATA, else from the current context, else from the default data folder. Unless --data or a context
// names the server, MAILROOM_TOKEN replaces the folder's token. The token of a folder or of a context is sent
// only to its server.
func Find(con *command.Console) (Endpoint, error) { return find(con, true) }

// FindNamed is Find without the current context, for a program that brings a token of its own.
func FindNamed(con *command.Console) (Endpoint, error) { return find(con, false) }

func find(con *command.Console, current bool) (e Endpoint, err error) {
	chosen, err := choose(con, current)
	switch {
	case err != nil:
		return e, err
	case chosen.named != nil:
		return chosen.named.Endpoint(con)
	case !chosen.local && isRemote(con):
		address := con.Env("MAILROOM_URL")
		if err := CheckURL(address); err != nil {
			return e, command.Errorf(command.ExitUsage, "set it to an address such as http://127.0.0.1:8420", "MAILROOM_URL %w",
				err)
		}
		if con.Env("MAILROOM_TOKEN") == "" {
			return e, command.Errorf(command.ExitServer, "set it to the token of that server", "MAILROOM_URL is set, but "+
				"MAILROOM_TOKEN is not")
		}
		return At(con, address)
	}
	dir, err := datadir.Find(con.Data, con.Env)
	if err != nil {
		return e, command.Errorf(command.ExitUsage, "", "%w", err)
	}
	address, err := dir.Address()
	if err != nil {
		return e, noServer(err, dir, con.CommandLine("serve"))
	}
	if con.Data == "" && !chosen.local {
		e.Token = con.Env("MAILROOM_TOKEN")
	}
	if e.Token == "" {
		if e.Token, err = dir.Token(); err != nil {
			return e, command.Errorf(command.ExitServer, "", "%w", err)
		}
		e.Operator = true
	}
	con.Server, e.URL, e.HTTP = address.URL, address.URL, pinnedClient(address.Cert)
	return e, nil
}

// Fix makes later calls of [Find] return the server that is current now. A program that runs for long needs it,
// because the user may change the current context.
func Fix(con *command.Console) error {
	if con.Context != "" || con.Data != "" || con.Env("MAILROOM_CONTEXT") != "" || con.Env("MAILROOM_URL") != "" ||
		con.Env("MAILROOM_DATA") != "" {
		return nil
	}
	all, err := ReadContexts(con.Env)
	if err == nil {
		con.Context = cmp.Or(all.Current, Local)
	}
	return err
}

// IsRemote reports whether a context or MAILROOM_URL selects the server, so that no data folder is known.
func IsRemote(con *command.Console) (bool, error) {
	chosen, err := choose(con, true)
	return chosen.named != nil || !chosen.local && isRemote(con), err
}

func isRemote(con *command.Console) bool { return con.Data == "" && con.Env("MAILROOM_URL") != "" }

// At returns the server at address, with the token in MAILROOM_TOKEN, which may be missing.
func At(con *command.Console, address string) (e Endpoint, err error) {
	con.Server, e.URL, e.Token = address, address, con.Env("MAILROOM_TOKEN")
	e.HTTP, err = clientTrusting(con.Env("MAILROOM_CA"))
	return e, err
}

// CheckURL returns an error if address is not the address of a server.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not a server address", address)
	}
	return nil
}

func noServer(err error, dir datadir.Dir, start string) error {
	hint := "start one with `" + start + "`"
	if errors.Is(err, fs.ErrNotExist) {
		return command.Errorf(command.ExitServer, hint, "no server on %s", dir)
	}
	return command.Errorf(command.ExitServer, hint, "%w", err)
}
