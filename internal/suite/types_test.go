package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestMistakesOfAnotherSystemAreFound(t *testing.T) {
	mistakes := map[string]struct{ code, want string }{ // by the folder of a program
		"assembly": {"func system() string", "assembly/main_darwin.go:3:1: missing function body"},
		"import":   {"import \"unsafe\"\n\nfunc system() string { return \"d\" }", `"unsafe" imported and not used`},
		"language": {"func system() string { return [2]string{}[min(0, 1)] }", "min requires go1.21 or later"},
		"name":     {"func system() string { return other }", "undefined: other"},
		"syntax":   {"func system() string {", "syntax/main_darwin.go:3:24: expected '}'"},
		"type":     {"func system() string { return 1 }", "type/main_darwin.go:3:31: cannot use 1"},
		"unused":   {"func system() string { x := 1; return \"\" }", "declared and not used: x"},
	}
	files := map[string]string{
		"go.mod":                "module example.org/p\n\ngo 1.20\n",
		"names/names.go":        "package names\n\nconst N = \"darwin\"\n",
		"right/main_darwin.go":  "import \"example.org/p/names\"\n\nfunc system() string { return names.N }",
		"absent/main_darwin.go": "import \"example.org/other\"\n\nfunc system() string { return other.N }",
	}
	for name, m := range mistakes {
		files[name+"/main_darwin.go"] = m.code
	}
	dir := t.TempDir()
	t.Chdir(dir)
	programs := map[string]bool{}
	for name, text := range files {
		if folder, ok := strings.CutSuffix(name, "/main_darwin.go"); ok {
			programs["./"+folder] = true
			write(t, name, "package main\n\n"+text+"\n")
			write(t, folder+"/main_windows.go", "package main\n\nfunc system() string { return \"windows\" }\n")
			write(t, folder+"/main.go", "package main\n\nfunc main() { println(system()) }\n")
			continue
		}
		write(t, name, text)
	}
	all := slices.Sorted(maps.Keys(programs))
	if err := checkTypes(t.Context(), "windows", "amd64", all); err != nil {
		t.Errorf("windows: %v", err)
	}
	if err := checkTypes(t.Context(), "darwin", "arm64", []string{"./right"}); err != nil {
		t.Errorf("without a mistake: %v", err)
	}
	err := checkTypes(t.Context(), "darwin", "arm64", []string{"./absent"})
	if err == nil || !strings.Contains(err.Error(), "example.org/other") {
		t.Errorf("an import of a package that is not there: %v", err)
	}
	all = slices.DeleteFunc(all, func(folder string) bool { return folder == "./absent" })
	if err = checkTypes(t.Context(), "darwin", "arm64", all); err == nil {
		t.Fatal("no mistake was found")
	}
	for name, m := range mistakes {
		if !strings.Contains(err.Error(), m.want) {
			t.Errorf("%s: %q is not in\n%v", name, m.want, err)
		}
	}
}
