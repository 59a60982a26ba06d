package server

import (
	"mailroom/api"
	"mailroom/internal/jsontext"
	"mailroom/project"
)

// decodePlainSubmit decodes a submit whose fields are the usual texts, as most are. It reports ok only if huma and
// encoding/json accept raw too, and decode the same. These decode a body twice, by reflection, and name what is wrong.
func decodePlainSubmit(raw []byte) (in api.Submit, ok bool) {
	text := jsontext.Scan(raw)
	text.Open('{')
	for text.More('}') {
		field := plainField(&in, text.Name())
		if field == nil {
			return api.Submit{}, false
		}
		*field = string(text.ReadString())
	}
	if !text.AtEnd() || len(in.Agent) > project.MaxName { // huma counts characters, which are no more than bytes
		return api.Submit{}, false
	}
	return in, true
}

// plainField returns the field of a submit with this name, or nil if it is not one of the usual texts. The schema
// limits the length of an agent only: rules of the root package check the others.
func plainField(in *api.Submit, name []byte) *string {
	switch string(name) {
	case "thread":
		return &in.Thread
	case "text":
		return &in.Text
	case "agent":
		return &in.Agent
	case "mode":
		return (*string)(&in.Mode)
	case "key":
		return &in.Key
	case "concurrency_key":
		return &in.LimitKey
	}
	return nil
}
