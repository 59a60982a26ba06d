package check

import (
	"fmt"

	"mailroom"
)

func TooLarge(location, message string, value any) *mailroom.Error {
	e := Invalid(location, message, value)
	e.Code = mailroom.CodeTooLarge
	return e
}

func Invalid(location, message string, value any) *mailroom.Error {
	return &mailroom.Error{
		Code:    mailroom.CodeInvalid,
		Message: fmt.Sprintf("%s: %s", location, message),
		Fields:  []mailroom.Field{{Location: location, Message: message, Value: value}},
	}
}
