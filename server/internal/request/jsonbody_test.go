package request

import (
	"fmt"
	"strings"
	"testing"

	"mailroom"
)

// hostileBodies returns bodies of about n bytes that are expensive to check.
func hostileBodies(n int) map[string]string {
	nested := strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1)
	long := `{"` + strings.Repeat("n", n/MaxDepth) + `":`
	var labels strings.Builder
	labels.WriteString(`{"metadata":{"":""`)
	for i := 0; labels.Len() < n; i++ {
		fmt.Fprintf(&labels, `,"%d":""`, i)
	}
	labels.WriteString("}}")
	return map[string]string{
		"nested arrays": `{"options":[` + nested[1:len(nested)-1] + strings.Repeat(","+nested[1:len(nested)-1],
			n/len(nested)) + `]}`,
		"numbers":          `{"options":[0` + strings.Repeat(",0", n/2) + `]}`,
		"objects":          `{"options":[{}` + strings.Repeat(`,{"a":{}}`, n/9) + `]}`,
		"many labels":      labels.String(),
		"escaped names":    strings.ReplaceAll(labels.String(), `,"`, `,"\u0061`),
		"long names":       `{"options":` + strings.Repeat(long, MaxDepth-1) + "0" + strings.Repeat("}", MaxDepth),
		"a long string":    `{"text":"` + strings.Repeat(`\u0000`, n/6) + `"}`,
		"spaces":           `{"options":` + strings.Repeat(" ", n) + `1}`,
		"an open array":    strings.Repeat("[", n),
		"a number":         strings.Repeat("9", n),
		"unfinished":       `{"text":"` + strings.Repeat("a", n),
		"a long bad name":  `{"` + strings.Repeat("N", n) + `":1}`,
		"a bad last value": `{"options":[0` + strings.Repeat(",0", min(n/2, MaxValues-10)) + `,]}`,
	}
}

// TestAHostileBodyCostsLittle bounds the allocations of CheckJSON by the limits on values and
// members, whatever the size and depth of the body.
func TestAHostileBodyCostsLittle(t *testing.T) {
	const perMember = 3 // its name, its map entry, and decoding an escape
	for name, body := range hostileBodies(4 << 20) {
		raw := []byte(body)
		allocated := testing.AllocsPerRun(1, func() { _ = CheckJSON(raw, false) })
		most := 100.0
		switch name {
		case "many labels", "escaped names":
			most += 5 * perMember * maxMembers
		case "objects":
			most += MaxValues / 2
		}
		if allocated > most {
			t.Errorf("%s: %d bytes allocate %.0f times, want at most %.0f", name, len(body), allocated, most)
		}
	}
}

func TestBodiesAreBoundedInValuesAndMembers(t *testing.T) {
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":0`, i)
		}
		return `{"options":{` + b.String()[1:] + `}}`
	}
	values := func(n int) string { return "[0" + strings.Repeat(",0", n-2) + "]" }
	for _, body := range []string{members(maxMembers), values(MaxValues)} {
		if err := CheckJSON([]byte(body), false); err != nil {
			t.Errorf("%.20s…: %v", body, err)
		}
	}
	for _, body := range []string{members(maxMembers + 1), values(MaxValues + 1)} {
		if err := CheckJSON([]byte(body), false); mailroom.CodeOf(err) != mailroom.CodeTooLarge {
			t.Errorf("%.20s…: %v, want too_large", body, err)
		}
	}
}

func TestARefusalHasTheLocationInTheBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"options":{"a":[1,{"b":2,"\u0062":3}]}}`: "body.options.a[1].b: duplicate field",
		`{"parts":[{"type":1},{"Type":1}]}`:        "body.parts[1].Type: unknown field",
		`[[0,[0,{"a":0,"a":0}]]]`:                  "body[0][1][1].a: duplicate field",
		`{"text":"a"`:                              "body is not JSON: unexpected end",
		`{"text":01}`:                              "body is not JSON: invalid character '1' after object key:value pair, at byte 10",
		`{"text":"a"} {}`:                          "body has data after its JSON value",
	} {
		if err := CheckJSON([]byte(body), false); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func BenchmarkHostileBodies(b *testing.B) {
	for name, body := range hostileBodies(4 << 20) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				_ = CheckJSON([]byte(body), false)
			}
		})
	}
}

func BenchmarkBodies(b *testing.B) {
	for name, body := range map[string]string{
		"submit":      `{"text":"The build fails since this morning; please look at it.","metadata":{"from":"ann","team":"core"},"mode":"queue","priority":100}`,
		"long text":   `{"text":"` + strings.Repeat(`A line with a few words in it.\n`, 2000) + `"}`,
		"other words": `{"text":"` + strings.Repeat(`Größe, Straße und über 90 % – sagt sie. `, 500) + `"}`,
		"data": `{"options":{"rows":[` + strings.Repeat(`{"id":1234,"name":"a name","ok":true,"score":-1.5e3},`, 500) +
			`null]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			raw := []byte(body)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := CheckJSON(raw, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
