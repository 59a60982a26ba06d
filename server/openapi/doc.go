// Package openapi checks that /openapi.json describes the server as it is: by the
// official schema of OpenAPI 3.1, and by a client that knows nothing else.
//
// It has tests only. They are a module of their own, because what they judge with
// is needed for nothing else: the official schema out of
// github.com/pb33f/libopenapi, of which they use no more, because all of it takes
// minutes to compile, and a validator of JSON Schema. When the requirements of the
// outer module change, go mod tidy -e in here follows.
package openapi
