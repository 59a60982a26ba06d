// Package operate answers what operators ask of a server.
package operate
