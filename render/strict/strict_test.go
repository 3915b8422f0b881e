package strict

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/render/diag"
)

const sample = `a:
  b: [x, {c: 1}]
  "d.e": y # a key with a dot
---
# nothing
---
second: true
`

func TestAt(t *testing.T) {
	docs, found := Parse("f.yaml", []byte(sample))
	if len(found) > 0 || len(docs) != 2 {
		t.Fatalf("Parse = %d documents, %s", len(docs), found)
	}
	for _, c := range []struct {
		path    []string
		at, key string
	}{
		{nil, "f.yaml:1:1", "f.yaml:1:1"},
		{[]string{"a"}, "f.yaml:2:3", "f.yaml:1:1"},
		{[]string{"a", "b"}, "f.yaml:2:6", "f.yaml:2:3"},
		{[]string{"a", "b", "1", "c"}, "f.yaml:2:14", "f.yaml:2:11"},
		{[]string{"a", "b", "7"}, "f.yaml:2:6", "f.yaml:2:6"},
		{[]string{"a", "d.e"}, "f.yaml:3:10", "f.yaml:3:3"},
		{[]string{"a", "none", "deeper"}, "f.yaml:2:3", "f.yaml:2:3"},
	} {
		if got := docs[0].At(c.path...).String(); got != c.at {
			t.Errorf("At(%v) = %s, want %s", c.path, got, c.at)
		}
		if got := docs[0].KeyAt(c.path...).String(); got != c.key {
			t.Errorf("KeyAt(%v) = %s, want %s", c.path, got, c.key)
		}
	}
	if got := docs[1].At("second").String(); got != "f.yaml:7:9" {
		t.Errorf("At(second) = %s, want f.yaml:7:9", got)
	}
	if !docs[0].Has("a", "b") || docs[0].Has("a", "x") || docs[0].Text("a", "d.e") != "y" || docs[0].Text("a") != "" {
		t.Error("Has or Text is wrong")
	}
}

// A document that is kept lean answers as it did.
func TestLean(t *testing.T) {
	for _, text := range []string{"a: {b: c}\nd: 1\n", "a: {b: \"\\x63\"}\nd: 1\n"} { // the second is the parser's
		docs, found := Parse("f.yaml", []byte(text))
		if len(found) > 0 {
			t.Fatal(found)
		}
		lean := docs[0].Lean()
		if lean.At("a", "b") != docs[0].At("a", "b") || lean.KeyAt("d") != docs[0].KeyAt("d") || lean.Text("a", "b") != "c" || !lean.Has("d") || !cmp.Equal(lean.Value(), docs[0].Value()) {
			t.Errorf("Lean of %q answers otherwise", text)
		}
	}
}

type target struct {
	Name  string            `json:"name"`
	Count *int32            `json:"count,omitempty"`
	On    bool              `json:"on,omitempty"`
	Tags  map[string]string `json:"tags,omitempty"`
	Inner struct {
		List []string `json:"list,omitempty"`
	} `json:"inner,omitempty"`
	Any map[string]any `json:"any,omitempty"`
}

func TestDecode(t *testing.T) {
	docs, found := Parse("f.yaml", []byte("name: \"1.30\"\ncount: +3\non: true\ntags: {a: 'no'}\ninner: {list: [x, 2024-01-01]}\nany: {big: 9007199254740993, f: 1.5, n: , s: 'yes'}\n"))
	if len(found) > 0 {
		t.Fatal(found)
	}
	var got target
	if found := docs[0].Decode("test", &got); len(found) > 0 {
		t.Fatal(found)
	}
	count := int32(3)
	want := target{Name: "1.30", Count: &count, On: true, Tags: map[string]string{"a": "no"}, Any: map[string]any{"big": int64(9007199254740993), "f": 1.5, "n": nil, "s": "yes"}}
	want.Inner.List = []string{"x", "2024-01-01"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Decode (-want +got):\n%s", d)
	}
}

// What does not fit is found all at once, and then nothing is filled in.
func TestDecodeFindsAll(t *testing.T) {
	docs, _ := Parse("f.yaml", []byte("name: 1.30\nnmae: x\ncount: x\ninner: {list: {a: b}}\ntags: [a]\n"))
	var got target
	found := docs[0].Decode("test", &got).String()
	want := `f.yaml:1:7: name: want a string, got the number 1.30 [test/wrong-type]
  hint: quote it: "1.30"
f.yaml:2:1: unknown field "nmae", want one of any, count, inner, name, on, tags [test/unknown-field]
  hint: did you mean "name"?
f.yaml:3:8: count: want a whole number, got "x" [test/wrong-type]
f.yaml:4:15: inner.list: want a list, got a mapping [test/wrong-type]
f.yaml:5:7: tags: want a mapping (key: value), got a list [test/wrong-type]
`
	if d := cmp.Diff(want, found); d != "" {
		t.Errorf("Decode findings (-want +got):\n%s", d)
	}
	if d := cmp.Diff(target{}, got); d != "" {
		t.Errorf("Decode filled a struct that does not fit:\n%s", d)
	}
}

func TestTooLarge(t *testing.T) {
	_, found := Parse("f.yaml", []byte(strings.Repeat("# padding\n", MaxSize/10+1)))
	if len(found) != 1 || found[0].Name != "yaml/too-large" || found[0].Severity != diag.Error {
		t.Errorf("Parse of %d bytes = %s", MaxSize+10, found)
	}
}
