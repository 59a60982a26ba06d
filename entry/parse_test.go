package entry

import (
	"reflect"
	"strings"
	"testing"
)

// written is an entry as appendHead writes it.
const written = `{"thread":"t","seq":3,"kind":"x.note","run":"r","attempt":2,"at":"2026-01-02T03:04:05.000006Z","body":{"a":[1,"é",null]}}`

// FuzzParse checks that entries are decoded as encoding/json decodes them, whatever their form.
func FuzzParse(f *testing.F) {
	f.Add([]byte(written))
	for from, to := range map[string]string{
		`"t"`: `"\u00e9\ud800\n"`, `:3`: `:-0`, `"x.note"`: "\"\xff\"", `"r"`: `null`, `:2`: `:2.0`, `05.000006Z`: `05+02:00`,
		`,"at"`: ` , "at"`, `{"a"`: "  {\"a\"", `null]`: `null`, `}}`: `}} `, `"body"`: `"Body"`, `"run"`: `"run":"q","run"`,
		`2026`: `20260`,
		`:2,`:  `:9223372036854775808,`, `[1`: strings.Repeat("[", 9_997) + strings.Repeat("]", 9_997) + `,[1`,
		`[1,`: strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998) + `,[1,`, `"seq":3`: `"seq":"3"`,
		`"2026`: `"\u0032026`,
	} {
		f.Add([]byte(strings.Replace(written, from, to, 1)))
	}
	f.Add([]byte(`{"thread":"t"`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Parse(raw)
		want, wantErr := parseAny(raw)
		if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\n got %+v, %v\nwant %+v, %v", raw, got, err, want, wantErr)
		}
	})
}

func TestWrittenEntriesTakeTheShortWay(t *testing.T) {
	if _, ok := parseWritten([]byte(written)); !ok {
		t.Error("it is not read in the form in which entries are written")
	}
	e, err := Parse([]byte(written))
	if err != nil {
		t.Fatal(err)
	}
	_ = append(e.Body, "overwrites"...)
	if string(e.Raw) != written {
		t.Errorf("the entry is %s", e.Raw)
	}
}

func BenchmarkParse(b *testing.B) {
	for name, parse := range map[string]func() error{
		"written": func() error { _, err := Parse([]byte(written)); return err },
		"any":     func() error { _, err := parseAny([]byte(written)); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := parse(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
