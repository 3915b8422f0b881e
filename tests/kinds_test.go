package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kindOf is a finding's kind, area/name.
var kindOf = regexp.MustCompile(`^[a-z]+(-[a-z]+)*/[a-z]+(-[a-z]+)*$`)

// noKinds are texts of that form that name something else.
var noKinds = []string{"catalog/crds", "origin/main", "origin/master"}

// unshown are kinds that no test shows, and why.
var unshown = map[string]string{
	"ledger/unwritable": "the last guard against a record that cannot be read back: no value is known that gets there",
	"render/duplicate":  "the last guard against two objects with one name: each way to two is found before, by itself",
	"root/missing":      "the command looks for the root first, and says so in its own words",
}

// Every kind of finding that the source has is shown by a test with its message: a script, or a table or golden file of the package that
// finds it.
func TestEveryKindIsShown(t *testing.T) {
	kinds := map[string]string{} // where each is first found
	for _, dir := range []string{"catalog", "render", "plugin", "cmd"} {
		each(t, filepath.Join("..", dir), func(file string) bool { return strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") }, func(file string) {
			for _, kind := range kindsIn(t, file) {
				if kinds[kind] == "" {
					kinds[kind] = file
				}
			}
		})
	}
	if len(kinds) < 200 {
		t.Fatalf("only %d kinds are found", len(kinds))
	}
	var shown strings.Builder
	read := func(file string) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shown.WriteString(strings.ReplaceAll(string(data), `\`, "")) // scripts have patterns
	}
	each(t, "script", func(file string) bool { return strings.HasSuffix(file, ".txtar") }, read)
	for _, dir := range []string{"../catalog", "../render", "../plugin", "."} {
		each(t, dir, func(file string) bool {
			return strings.HasSuffix(file, "_test.go") && file != "kinds_test.go" || strings.Contains(file, "/testdata/")
		}, read)
	}
	text := shown.String()
	for kind, file := range kinds {
		is := strings.Contains(text, "["+kind+"]") || strings.Contains(text, `"`+kind+`"`)
		switch _, excused := unshown[kind]; {
		case !is && !excused:
			t.Errorf("no test shows %s, which %s finds", kind, file)
		case is && excused:
			t.Errorf("%s is shown by a test: it needs no excuse", kind)
		}
	}
	for kind := range unshown {
		if kinds[kind] == "" {
			t.Errorf("nothing finds %s, which is excused", kind)
		}
	}
}

// each calls do for the files below a folder that want is true of.
func each(t *testing.T, dir string, want func(file string) bool, do func(file string)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && want(file) {
			do(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kindsIn are the texts in a Go file that are kinds of findings.
func kindsIn(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && kindOf.MatchString(text) && !slices.Contains(noKinds, text) {
				out = append(out, text)
			}
		}
		return true
	})
	return out
}
