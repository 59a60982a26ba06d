// Package openapi checks that /openapi.json describes the server correctly: against the official
// OpenAPI 3.1 schema, and with a client that knows only the description.
//
// It has tests only. They are a module of their own because of their dependencies: the official
// schema in github.com/pb33f/libopenapi (only the schema is used: compiling the rest takes
// minutes), and a JSON Schema validator. After a change of the outer module's requirements run go
// mod tidy -e here.
package openapi
