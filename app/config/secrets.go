package config

import (
	"io"
	"net/url"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"mailroom/internal/lazyregexp"
	"mailroom/internal/setting"
)

// SecretFiles returns the paths of all files with secrets that settings name. It walks over the settings of every
// table, and not over a list of names, so that it includes each new kind of channel or target.
func (c *Config) SecretFiles() (files []string) {
	for _, section := range c.allSections() {
		for _, s := range section.settings {
			for _, file := range s.SecretFiles() {
				if file != "" {
					files = append(files, file)
				}
			}
		}
	}
	return files
}

// SecretVariables returns the environment variables whose values are secrets of the server. Only those of
// [Config.DatabaseVariables] are read again while it runs.
func (c *Config) SecretVariables() []string {
	names := []string{"MAILROOM_TOKEN"}
	for _, section := range c.allSections() {
		for _, s := range section.settings {
			if s.Secret != nil && s.Secret.Env != "" {
				names = append(names, s.Secret.Env)
			}
		}
	}
	return names
}

// DatabaseVariables returns the environment variables with passwords of the database, which each new
// connection reads.
func (c *Config) DatabaseVariables() []string {
	if c.Store.Kind != StorePostgres {
		return nil
	}
	return []string{"PGPASSWORD", "PGSSLPASSWORD"}
}

// DatabaseFiles returns the files with secrets that the library of PostgreSQL reads although no setting
// names them: those of the environment, and its defaults in the home folder.
// https://www.postgresql.org/docs/current/libpq-envars.html
func (c *Config) DatabaseFiles(env func(string) string) (files []string) {
	if c.Store.Kind != StorePostgres {
		return nil
	}
	homes := []string{env("HOME")}
	if u, err := user.Current(); err == nil { // the library uses this one, whatever HOME is
		homes = append(homes, u.HomeDir)
	}
	for variable, name := range map[string]string{
		"PGPASSFILE": ".pgpass", "PGSERVICEFILE": ".pg_service.conf", "PGSSLKEY": ".postgresql/postgresql.key",
	} {
		files = append(files, env(variable))
		for _, home := range homes {
			if home != "" {
				files = append(files, filepath.Join(home, name))
			}
		}
	}
	files = slices.DeleteFunc(files, func(file string) bool { return file == "" })
	for _, file := range files { // a service names files as a connection string does
		files = append(files, connectionSecrets(readAddress(file))...)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// connectionSecret is a key=value pair of a connection string that names a file with a secret. It leaves out
// certificates, also those of authorities (sslrootcert), because they are public and agents may need them.
var connectionSecret = lazyregexp.New(`\b(?:sslkey|passfile|servicefile)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)+)`)

// connectionSecrets returns the files with secrets that a connection string of PostgreSQL names, a URL or
// key=value pairs.
func connectionSecrets(address string) (files []string) {
	if _, rest, isURL := strings.Cut(address, "://"); isURL {
		_, query, _ := strings.Cut(rest, "?")
		named, _ := url.ParseQuery(query) // leaves out invalid pairs, which no connection accepts either
		for _, key := range []string{"sslkey", "passfile", "servicefile"} {
			files = append(files, named[key]...)
		}
		return files
	}
	for _, found := range connectionSecret().FindAllStringSubmatch(address, -1) {
		files = append(files, escaped().ReplaceAllString(strings.Trim(found[1], "'"), "$1"))
	}
	return files
}

var escaped = lazyregexp.New(`\\(.)`)

// maxAddress bounds the file of an address, in bytes.
const maxAddress = 64 << 10

// readAddress returns the content of the file with the address of the database, or "" if it cannot be read. The
// attempt to connect then reports why.
func readAddress(path string) string {
	if path == "" {
		return ""
	}
	f, err := setting.OpenFile(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxAddress))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
