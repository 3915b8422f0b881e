// Package strict reads YAML that people write by hand: every unknown, repeated or mistyped key is found in one pass, with its place.
// It knows nothing of what the keys mean, and it never expands an alias, so a small file cannot become a large one.
//
// Parse splits a file in documents; Document.Decode fills a struct and says what does not fit; Document.At finds a value's place.
package strict

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"copyhold.dev/copyhold/render/diag"
)

// MaxSize is the largest file that is read, in bytes. Requests are a few hundred bytes; a catalog a few thousand.
const MaxSize = 1 << 20

// maxDepth bounds how deep mappings and lists may nest.
const maxDepth = 64

// maxKey bounds a key, in bytes: the longest that Kubernetes has are 317. YAML writes one of over 128 in a way few readers know.
const maxKey = 512

// Document is one YAML document, with the place of every node in it.
type Document struct {
	File string
	root *node  // the document's mapping; nil when the text is kept instead
	text string // what quick read, or ""
}

// Lean is the document without its tree, which is read again when it is asked for a place or a value. It is for those that are kept
// by the thousands, and asked when something is wrong with them.
func (d Document) Lean() Document {
	if d.text != "" {
		d.root = nil
	}
	return d
}

// tree is the document's mapping, never nil.
func (d Document) tree() *node {
	if d.root != nil {
		return d.root
	}
	root, ok := quick(d.text)
	if !ok {
		panic("strict: a text that was read cannot be read again")
	}
	return root
}

// Parse splits a file in its documents. Empty and comment-only documents are left out.
// A file that is not readable YAML gives the documents before the fault and a finding at it.
func Parse(file string, data []byte) ([]Document, diag.List) {
	text := string(data)
	if root, ok := quick(text); ok {
		return []Document{{File: file, root: root, text: text}}, nil
	}
	return parse(file, data)
}

// parse is Parse by the YAML parser alone.
func parse(file string, data []byte) ([]Document, diag.List) {
	text, found := clean(file, data)
	if found.Failed() {
		return nil, found
	}
	var docs []Document
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, found
		}
		if err != nil {
			found.Add(syntax(file, text, err))
			return docs, found
		}
		root := content(&n)
		if root == nil {
			continue
		}
		bad := refuse(file, root, 0)
		found.Add(bad...)
		if bad.Failed() {
			continue
		}
		if root.Kind != yaml.MappingNode {
			found.Add(diag.Errorf(pos(file, root), "yaml/not-a-mapping", "want a mapping (key: value), got %s", describe(root)))
			continue
		}
		kept := compact(root)
		docs = append(docs, Document{File: file, root: &kept})
	}
}

// clean checks the bytes before any parser sees them, and takes a byte order mark off.
func clean(file string, data []byte) ([]byte, diag.List) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	at := func(offset int) diag.Pos {
		before := data[:offset]
		line := bytes.Count(before, []byte("\n"))
		return diag.Pos{File: file, Line: line + 1, Col: offset - (bytes.LastIndexByte(before, '\n') + 1) + 1}
	}
	if len(data) > MaxSize {
		return nil, diag.List{diag.Errorf(diag.Pos{File: file}, "yaml/too-large", "the file has %d bytes, want at most %d", len(data), MaxSize).
			Hintf("split it: a folder may hold any number of files")}
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, diag.List{diag.Errorf(diag.Pos{File: file}, "yaml/encoding", "the file is UTF-16, want UTF-8").Hintf("save it as UTF-8")}
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return nil, diag.List{diag.Errorf(at(i), "yaml/encoding", "a NUL byte, want text in UTF-8")}
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if _, bad := control(string(r)); bad && r != utf8.RuneError { // some of these end a line for YAML and for no editor
			return nil, diag.List{diag.Errorf(at(i), "yaml/control-character", "the file holds the character %U, want text", r)}
		}
		if r == utf8.RuneError && size == 1 {
			return nil, diag.List{diag.Errorf(at(i), "yaml/encoding", "the byte 0x%02x is not UTF-8", data[i]).Hintf("save the file as UTF-8")}
		}
		i += size
	}
	return data, nil
}

var lineInError = regexp.MustCompile(`line (\d+): `)

// tabbed is the first line up to and with one that is indented with a tab, or 0.
func tabbed(text []byte, last int) int {
	n := 0
	for line := range bytes.Lines(text) {
		if n++; n > last {
			break
		}
		if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")) && len(bytes.TrimSpace(line)) > 0 {
			return n
		}
	}
	return 0
}

// syntax turns a parser's error into a finding; the parser names a line, never a column, and often the one after the fault.
func syntax(file string, text []byte, err error) diag.Finding {
	p, msg := diag.Pos{File: file, Line: 1}, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := lineInError.FindStringSubmatch(msg); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		msg = strings.Replace(msg, m[0], "", 1)
	}
	if line := tabbed(text, p.Line); line > 0 {
		return diag.Errorf(diag.Pos{File: file, Line: line, Col: 1}, "yaml/syntax", "the line is indented with a tab").Hintf("indent with spaces")
	}
	return diag.Errorf(p, "yaml/syntax", "%s", msg).Hintf("look at this line and those beside it: indentation, a space after each colon, quotes around values that start with @, ` or %%")
}

// content is the node a document holds, or nil when it holds nothing.
func content(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.DocumentNode {
		if len(n.Content) == 0 {
			return nil
		}
		n = n.Content[0]
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" || n.Kind == 0 {
		return nil
	}
	return n
}

// decimal is a number as JSON writes it. YAML knows more (0x1f, 0o17, 017, 1_000, .inf), and its versions disagree on them.
var decimal = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

var plainTags = map[string]bool{"": true, "!!map": true, "!!seq": true, "!!str": true, "!!int": true, "!!float": true, "!!bool": true, "!!null": true, "!!timestamp": true}

// refuse finds what these files must not hold wherever it stands: anchors and aliases (a few lines can expand to gigabytes,
// and a merge key makes it unclear which line set a value), tags, repeated keys, odd keys and numbers, and endless nesting.
func refuse(file string, n *yaml.Node, depth int) diag.List {
	at := pos(file, n)
	switch {
	case depth > maxDepth:
		return diag.List{diag.Errorf(at, "yaml/too-deep", "more than %d levels of nesting", maxDepth)}
	case n.Kind == yaml.AliasNode:
		return diag.List{diag.Errorf(at, "yaml/alias", "alias *%s is not allowed here", n.Value).Hintf("write the value out")}
	case n.Anchor != "":
		return diag.List{diag.Errorf(at, "yaml/alias", "anchor &%s is not allowed here", n.Anchor).Hintf("write the value out where it is used")}
	case n.Style&yaml.TaggedStyle != 0 || !plainTags[n.ShortTag()]:
		return diag.List{diag.Errorf(at, "yaml/tag", "tag %s is not allowed here", n.ShortTag()).Hintf("quote the value if it is text")}
	}
	var found diag.List
	switch n.Kind {
	case yaml.ScalarNode:
		if r, bad := control(n.Value); bad {
			found.Add(diag.Errorf(at, "yaml/control-character", "the value holds the control character %U, want text", r))
		}
		if t := n.ShortTag(); (t == "!!int" || t == "!!float") && !decimal.MatchString(n.Value) {
			found.Add(diag.Errorf(at, "yaml/number", "the number %s is read differently by different tools", clip(n.Value)).Hintf("write a decimal number, or quote it if it is text"))
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			found.Add(refuse(file, c, depth+1)...)
			if c.Kind == yaml.AliasNode { // one says it for the whole list
				break
			}
		}
	case yaml.MappingNode:
		first := map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			switch {
			case k.Kind == yaml.AliasNode || k.Anchor != "" || k.Value == "<<": // quoted it is a key here, and a merge to the next reader
				found.Add(diag.Errorf(pos(file, k), "yaml/alias", "anchors, aliases and merge keys are not allowed here").Hintf("write the value out"))
			case len(k.Value) > maxKey:
				found.Add(diag.Errorf(pos(file, k), "yaml/key", "a key of %d bytes, want at most %d", len(k.Value), maxKey))
			case k.Kind != yaml.ScalarNode || k.ShortTag() == "!!null" || k.Value == "":
				found.Add(diag.Errorf(pos(file, k), "yaml/key", "want a word as key, got %s", describe(k)))
			case first[k.Value] != nil:
				found.Add(diag.Errorf(pos(file, k), "yaml/duplicate-key", "field %q is given twice, first on line %d", k.Value, first[k.Value].Line).
					Hintf("keep one of the two"))
			default:
				first[k.Value] = k
			}
			if r, bad := control(k.Value); bad {
				found.Add(diag.Errorf(pos(file, k), "yaml/control-character", "the key holds the control character %U, want text", r))
			}
			found.Add(refuse(file, v, depth+1)...)
		}
	}
	return found
}

// control is the first character of a text that YAML cannot hold unescaped.
func control(s string) (rune, bool) {
	for _, r := range s {
		if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfffe || r == 0xffff || r == 0xfeff {
			return r, true
		}
	}
	return 0, false
}

// At is the place of the value under a path of keys and list indexes, or of the deepest part of the path that is there.
func (d Document) At(path ...string) diag.Pos {
	n := d.tree()
	for _, p := range path {
		next := n.child(p)
		if next == nil {
			break
		}
		n = next
	}
	return n.pos(d.File)
}

// KeyAt is the place of the last key of the path, or of the deepest part of the path that is there.
func (d Document) KeyAt(path ...string) diag.Pos {
	if len(path) > 0 {
		if parent, ok := d.find(path[:len(path)-1]); ok && parent.kind == mappingKind {
			for i := 0; i+1 < len(parent.content); i += 2 {
				if parent.content[i].value == path[len(path)-1] {
					return parent.content[i].pos(d.File)
				}
			}
		}
	}
	return d.At(path...)
}

// Has reports whether the path is written in the document, even with an empty value.
func (d Document) Has(path ...string) bool {
	_, ok := d.find(path)
	return ok
}

// Text is the scalar under the path as the author wrote it, or "".
func (d Document) Text(path ...string) string {
	if n, ok := d.find(path); ok && n.kind == scalarKind {
		return n.value
	}
	return ""
}

func (d Document) find(path []string) (*node, bool) {
	n := d.tree()
	for _, p := range path {
		if n = n.child(p); n == nil {
			return nil, false
		}
	}
	return n, true
}

func pos(file string, n *yaml.Node) diag.Pos {
	return diag.Pos{File: file, Line: n.Line, Col: n.Column}
}

// describe names a node that is refused, for a message.
func describe(n *yaml.Node) string {
	alone := *n
	alone.Content = nil
	c := compact(&alone)
	return c.describe()
}
