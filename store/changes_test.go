package store

import (
	"reflect"
	"testing"
)

// A field that Empty does not know would be dropped by a ledger that writes nothing else.
func TestChangesWithAnyRowAreNotEmpty(t *testing.T) {
	if !(&Changes{Summaries: []Summary{}}).Empty() {
		t.Error("changes without a row are not empty")
	}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[Changes]()) {
		var c Changes
		one := reflect.New(field.Type.Elem()).Elem()
		switch value := reflect.ValueOf(&c).Elem().Field(i); field.Type.Kind() {
		case reflect.Slice:
			value.Set(reflect.Append(value, one))
		case reflect.Pointer:
			value.Set(reflect.New(field.Type.Elem()))
		default:
			t.Fatalf("field %s is a %s: say in Empty when it is empty, and here how to fill it", field.Name, field.Type)
		}
		if c.Empty() {
			t.Errorf("changes with %s count as empty", field.Name)
		}
	}
}
