package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// pkg is a package as go list describes it, and its types once they are checked.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string // paths of packages that the source names otherwise
	Standard   bool              // of the library of Go
	Module     *struct {
		GoVersion string
		Main      bool // the module that is checked
	}
	Error *struct{ Err string }

	done  chan struct{} // closed when types and err are set
	types *types.Package
	err   error
}

// checkTypes checks programs for another system as the compiler does, but writes no code: it checks the types of all
// packages that they consist of. The system and the processor are named as in GOOS and GOARCH, and the programs by
// their folders. The error has a line for each mistake.
//
// It needs a twentieth of the processor time of a build. It cannot see what only the code generator and the linker
// find, such as a missing function in assembly. This module has no assembly, and another system is built and linked.
func checkTypes(ctx context.Context, system, processor string, packages []string) error {
	list, err := listed(ctx, system, processor, packages)
	if err != nil {
		return err
	}
	all := make(map[string]*pkg, len(list))
	for _, p := range list {
		p.done = make(chan struct{})
		all[p.ImportPath] = p
	}
	c := &checker{
		files: token.NewFileSet(), sizes: types.SizesFor("gc", processor), all: all,
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	for _, p := range list {
		go c.check(p)
	}
	var failed error
	for _, p := range list {
		<-p.done
		failed = errors.Join(failed, p.err)
	}
	return failed
}

// listed returns the packages and what they import.
func listed(ctx context.Context, system, processor string, packages []string) ([]*pkg, error) {
	args := []string{"list", "-e", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Standard,Module,Error"}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	var list []*pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &pkg{}
		switch err := d.Decode(p); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("list packages: %w", err)
		case p.Error != nil:
			return nil, errors.New(p.Error.Err)
		}
		list = append(list, p)
	}
}

// checker checks packages, each once those are checked that it imports.
type checker struct {
	files *token.FileSet
	sizes types.Sizes
	all   map[string]*pkg
	slots chan struct{} // bounds how many packages are checked at once
}

func (c *checker) check(p *pkg) {
	defer close(p.done)
	if p.ImportPath == "unsafe" {
		p.types = types.Unsafe
		return
	}
	files, err := c.parse(p)
	if err != nil {
		p.err = err
		return
	}
	for _, f := range files {
		for _, i := range f.Imports {
			if from := c.imported(p, strings.Trim(i.Path.Value, `"`)); from != nil {
				<-from.done
			}
		}
	}
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	config := types.Config{
		Importer: imports(func(path string) (*types.Package, error) {
			from := c.imported(p, path)
			if from == nil || from.types == nil {
				return nil, fmt.Errorf("%s is not there", path)
			}
			return from.types, nil
		}),
		Sizes:            c.sizes,
		IgnoreFuncBodies: p.Standard, // the library of Go is checked where Go is made
		Error:            func(err error) { p.err = errors.Join(p.err, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	p.types, _ = config.Check(p.ImportPath, c.files, files, nil) // Error has got the errors
	if p.Module != nil && p.Module.Main {
		p.err = errors.Join(p.err, c.checkBodies(files))
	}
}

// checkBodies refuses functions without a body, which would have to be in assembly.
func (c *checker) checkBodies(files []*ast.File) (err error) {
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body == nil {
				err = errors.Join(err, fmt.Errorf("%s: missing function body", c.files.Position(fn.Pos())))
			}
		}
	}
	return err
}

// imported returns the package that p imports under a path, or nil.
func (c *checker) imported(p *pkg, path string) *pkg {
	if to, ok := p.ImportMap[path]; ok {
		path = to
	}
	return c.all[path]
}

func (c *checker) parse(p *pkg) ([]*ast.File, error) {
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// imports is a function as a types.Importer.
type imports func(path string) (*types.Package, error)

func (f imports) Import(path string) (*types.Package, error) { return f(path) }
