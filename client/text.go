package client

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"mailroom"
)

// checkText rejects a body that contains invalid UTF-8, which encoding/json would
// silently replace.
func checkText(body any) error {
	at, text, ok := wrongText("body", reflect.ValueOf(body))
	if !ok {
		return nil
	}
	good := 0
	for good < len(text) {
		r, n := utf8.DecodeRuneInString(text[good:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		good += n
	}
	what := fmt.Sprintf("is not valid UTF-8 at byte %d (0x%02x)", good, text[good])
	return &mailroom.Error{
		Code: mailroom.CodeInvalid, Message: at + ": " + what,
		Fields: []mailroom.Field{{Location: at, Message: what, Value: text}},
	}
}

// wrongText finds invalid UTF-8 in v. at is the path of v in the request, and where the path of the invalid text.
func wrongText(at string, v reflect.Value) (where, text string, found bool) {
	switch v.Kind() {
	case reflect.String:
		return at, v.String(), !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return wrongText(at, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if raw, ok := v.Interface().(json.RawMessage); ok {
			return at, string(raw), !utf8.Valid(raw)
		}
		for i := range v.Len() {
			if where, text, found = wrongText(fmt.Sprintf("%s[%d]", at, i), v.Index(i)); found {
				return where, text, true
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if where, text, found = wrongText(at, k); found {
				return where, text, true
			}
			if where, text, found = wrongText(fmt.Sprintf("%s.%v", at, k), v.MapIndex(k)); found {
				return where, text, true
			}
		}
	case reflect.Struct:
		for field, part := range v.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || name == "-" {
				continue
			}
			within := at
			if name != "" {
				within += "." + name
			}
			if where, text, found = wrongText(within, part); found {
				return where, text, true
			}
		}
	}
	return "", "", false
}
