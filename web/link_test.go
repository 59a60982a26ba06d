package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// linkFiles links /main.js of the given files.
func linkFiles(files map[string]string) (string, error) {
	script, err := link("/main.js", func(at string) ([]byte, error) {
		text, ok := files[at]
		if !ok {
			return nil, fmt.Errorf("no %s", at)
		}
		return []byte(text), nil
	})
	return string(script), err
}

func TestModulesAreLinkedAfterThoseThatTheyImport(t *testing.T) {
	got, err := linkFiles(map[string]string{
		"/main.js": "import {\n  each, Kind as K,\n} from './of/a.js';\nimport { client } from './of/b.js';\n" +
			"import { x } from './lib.js';\nrun(each, K, client, x);\n",
		"/of/a.js": "import { x } from '../lib.js';\nexport async function* each() {}\nexport class Kind {}\n" +
			"export const two = x;\nexport { x as z } from '../lib.js';\n",
		"/of/b.js": "// the user's\nexport let client = null;\nexport const set = (to) => { client = to; };\n",
		"/lib.js":  "var e=1;export{e as x,e};\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `let client;
// /lib.js
const module3 = (() => {
var e=1;
return { e: e, x: e };
})();
// /of/a.js
const module2 = (() => {
const { x: x } = module3;
async function* each() {}
class Kind {}
const two = x;
return { Kind: Kind, each: each, two: two, z: module3.x };
})();
// /of/b.js
const module4 = (() => {
// the user's
client = null;
const set = (to) => { client = to; };
return { set: set };
})();
// /main.js
const module1 = (() => {
const { each: each, Kind: K } = module2;
const { x: x } = module3;
run(each, K, client, x);
return {  };
})();
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the script (-want, +got):\n%s", diff)
	}
}

func TestALinkerRefusesWhatItWouldChange(t *testing.T) {
	for _, c := range []struct{ main, a, b, want string }{
		{"import { a } from './a.js';\n", "import { b } from './b.js';\n", "import { a } from './a.js';\n", "/a.js imports itself"},
		{"import { a } from './a.js';\n", "export const b = 1;", "", "imports a from /a.js, which does not export it"},
		{"import { a } from './c.js';\n", "", "", "no /c.js"},
		{"import * as a from './a.js';\n", "", "", "a form that is not linked: import * as a"},
		{"import { a } from './a.js';\n", "export default 1;", "", "a form that is not linked: export default"},
		{"import { a b } from './a.js';\n", "", "", `the name "a b" cannot be linked`},
		{"import { a as c } from './a.js';\n", "export let a = 1;", "", "exports the variable a of /a.js, or gives"},
		{"export { a } from './a.js';\n", "export let a = 1;", "", "exports the variable a of /a.js, or gives"},
		{"import { a } from './a.js';\nimport { a } from './b.js';\n", "export let a = 1;", "export let a = 2;",
			"/a.js and /b.js export a variable a"},
	} {
		script, err := linkFiles(map[string]string{"/main.js": c.main, "/a.js": c.a, "/b.js": c.b})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v; want an error with %q", c.main, script, err, c.want)
		}
	}
}
