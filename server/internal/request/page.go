package request

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"mailroom/api"
)

// PageBound limits a page: items, and bytes unless the first item alone has more.
type PageBound struct{ Items, Bytes int }

// PageAfter returns the page after cursor of a list that was read whole. place returns an item's
// position; positions ascend through the list.
func PageAfter[T any](items []T, cursor string, most PageBound, place func(T) string) (api.Page[T], error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return api.Page[T]{}, Invalid("query.cursor", "is not a cursor of this list: use next of its previous page", cursor)
	}
	out := api.Page[T]{Items: []T{}}
	size := 0
	for _, item := range items {
		if cursor != "" && place(item) <= string(after) {
			continue
		}
		raw, err := json.Marshal(item)
		if err != nil {
			return api.Page[T]{}, err
		}
		if size += len(raw); len(out.Items) == most.Items || size > most.Bytes && len(out.Items) > 0 {
			next := base64.RawURLEncoding.EncodeToString([]byte(place(out.Items[len(out.Items)-1])))
			out.Next = &next
			break
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}

// SplitKinds returns the kinds of entries of a repeated parameter, whose values may also be lists with commas.
func SplitKinds(given []string) []string {
	var out []string
	for _, k := range given {
		out = append(out, strings.Split(k, ",")...)
	}
	return out
}
