// Every exported name is documented.

package tollgate

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
)

func TestEveryExportedNameIsDocumented(t *testing.T) {
	set := token.NewFileSet()
	isSource := func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }
	packages, err := parser.ParseDir(set, ".", isSource, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, file := range packages["tollgate"].Files {
		files = append(files, file)
	}
	found, err := doc.NewFromFiles(set, files, "tollgate")
	if err != nil {
		t.Fatal(err)
	}
	// An error type is documented by its own comment; its method Error says nothing more.
	need := func(name, text string) {
		if ast.IsExported(name) && name != "Error" && strings.TrimSpace(text) == "" {
			t.Errorf("%s is not documented", name)
		}
	}
	need("Package", found.Doc)
	values := append(append([]*doc.Value{}, found.Consts...), found.Vars...)
	for _, one := range found.Types {
		need(one.Name, one.Doc)
		values = append(append(values, one.Consts...), one.Vars...)
		for _, function := range append(append([]*doc.Func{}, one.Funcs...), one.Methods...) {
			need(function.Name, function.Doc)
		}
	}
	for _, function := range found.Funcs {
		need(function.Name, function.Doc)
	}
	for _, value := range values {
		need(value.Names[0], value.Doc)
	}
}
