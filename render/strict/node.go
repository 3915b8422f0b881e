package strict

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"copyhold.dev/copyhold/render/diag"
)

// node is a value of a document with its place. A repository has tens of thousands of files, and the parser's own nodes have room
// for styles, anchors and comments that a document here has none of.
type node struct {
	kind      kind
	tag       tag
	line, col int32  // from 1; MaxSize bounds them
	value     string // of a scalar, without quotes
	content   []node // of a mapping keys and values by turns, of a list its entries
}

type kind uint8

const (
	scalarKind kind = iota
	mappingKind
	listKind
)

// tag is the type of a scalar as YAML resolves it.
type tag uint8

const (
	strTag tag = iota
	intTag
	floatTag
	boolTag
	nullTag
	timestampTag
)

var tags = map[string]tag{"!!str": strTag, "!!int": intTag, "!!float": floatTag, "!!bool": boolTag, "!!null": nullTag, "!!timestamp": timestampTag}

// tagOf is the type of a plain scalar, from its text; the parser is asked, so that there is one opinion.
func tagOf(text string) (tag, bool) {
	if c := text[0]; (c < '0' || c > '9') && c != '+' && c != '-' && c != '.' && len(text) > len("false") {
		return strTag, true // the words that are not text are null, true and false
	}
	t, ok := tags[(&yaml.Node{Kind: yaml.ScalarNode, Value: text}).ShortTag()]
	return t, ok
}

// compact converts a node of the parser's that refuse has passed.
func compact(n *yaml.Node) node {
	out := node{line: int32(n.Line), col: int32(n.Column)}
	switch n.Kind {
	case yaml.MappingNode:
		out.kind = mappingKind
	case yaml.SequenceNode:
		out.kind = listKind
	default:
		out.tag, out.value = tags[n.ShortTag()], n.Value
	}
	if len(n.Content) > 0 {
		out.content = make([]node, len(n.Content))
		for i, c := range n.Content {
			out.content[i] = compact(c)
		}
	}
	return out
}

func (n *node) isNull() bool { return n.kind == scalarKind && n.tag == nullTag }

// child is the value under a key of a mapping or an index of a list, or nil.
func (n *node) child(key string) *node {
	switch n.kind {
	case mappingKind:
		for i := 0; i+1 < len(n.content); i += 2 {
			if n.content[i].value == key {
				return &n.content[i+1]
			}
		}
	case listKind:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.content) {
			return &n.content[i]
		}
	}
	return nil
}

func (n *node) pos(file string) diag.Pos {
	return diag.Pos{File: file, Line: int(n.line), Col: int(n.col)}
}

// describe names a node for a message.
func (n *node) describe() string {
	switch {
	case n.kind == mappingKind:
		return "a mapping"
	case n.kind == listKind:
		return "a list"
	case n.tag == intTag || n.tag == floatTag:
		return "the number " + n.value
	case n.tag == boolTag:
		return n.value + " (true or false)"
	case n.tag == nullTag:
		return "nothing"
	}
	return fmt.Sprintf("%q", clip(n.value))
}

func clip(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "..."
}
