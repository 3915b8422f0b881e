package strict

import (
	"strings"
	"sync"
)

// quick reads the YAML in which nearly every file of a repository is written: block mappings, lists of words, flow collections on
// one line, words and quoted text without escapes, comments, in printable ASCII. What it reads it reads as the parser does, place by
// place; of anything beyond, whether that is wrong or merely rare, it says that it is not for it. It never finds a fault.
//
// Tests compare it with the parser on whatever it accepts.
func quick(text string) (*node, bool) {
	if len(text) > MaxSize {
		return nil, false
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\n' || c > '~' {
			return nil, false
		}
	}
	stack := stacks.Get().(*[]node)
	p := reader{text: text, stack: (*stack)[:0]}
	defer func() {
		if all := p.stack[:cap(p.stack)]; len(all) <= mostStack {
			clear(all) // or it would keep a file's text
			*stack = all
			stacks.Put(stack)
		}
	}()
	p.advance()
	if p.indent != 0 {
		return nil, false
	}
	root, ok := p.mapping(0, 0)
	if !ok || p.indent != atEnd {
		return nil, false
	}
	return &root, true
}

// stacks are those of files that have been read, but for the rare large one.
var stacks = sync.Pool{New: func() any { return new([]node) }}

// mostStack is how many nodes a stack that is kept has room for.
const mostStack = 256

// What a file may have and still be quick's. Rare and costly cases are the parser's.
const (
	quickDepth = 16
	quickKeys  = 100 // of a mapping; each is compared with those before it
	quickKey   = 128 // bytes: YAML wants a ? before longer ones
)

// atEnd is the indentation of the line after the last.
const atEnd = -1

// reader stands on a line that holds something.
type reader struct {
	text    string
	next    int // start of the line after this one
	line    int // number of this line, from 1
	start   int // of this line
	at, end int // of what it holds, without the spaces before it
	indent  int

	stack []node // of collections that are not finished
}

// advance goes to the next line that holds more than spaces and a comment.
func (p *reader) advance() {
	for p.next < len(p.text) {
		p.start = p.next
		p.end = len(p.text)
		if n := strings.IndexByte(p.text[p.start:], '\n'); n >= 0 {
			p.end = p.start + n
		}
		p.next = p.end + 1
		p.line++
		for p.at = p.start; p.at < p.end && p.text[p.at] == ' '; p.at++ {
		}
		if p.at < p.end && p.text[p.at] != '#' {
			p.indent = p.at - p.start
			return
		}
	}
	p.indent = atEnd
}

// collect makes a collection of what was put on the stack since from.
func (p *reader) collect(k kind, line, col int32, from int) node {
	n := node{kind: k, line: line, col: col}
	if len(p.stack) > from {
		n.content = append(make([]node, 0, len(p.stack)-from), p.stack[from:]...)
		p.stack = p.stack[:from]
	}
	return n
}

// place is the line and column of a byte of this line.
func (p *reader) place(at int) (line, col int32) { return int32(p.line), int32(at - p.start + 1) }

// mapping reads a block mapping whose keys stand at an indentation.
func (p *reader) mapping(indent, depth int) (node, bool) {
	from := len(p.stack)
	line, col := p.place(p.at)
	for p.indent == indent {
		at, ok := p.key(p.at, from, &blockKey)
		if !ok {
			return node{}, false
		}
		for at < p.end && p.text[at] == ' ' {
			at++
		}
		if at < p.end && p.text[at] != '#' {
			if ok = p.value(at, depth+1); ok {
				p.advance()
			}
		} else {
			ok = p.below(indent, depth+1)
		}
		if !ok || p.indent > indent { // deeper is a line that goes on, or a fault
			return node{}, false
		}
	}
	return p.collect(mappingKind, line, col, from), true
}

// below reads what stands under a key, on lines of its own.
func (p *reader) below(indent, depth int) bool {
	p.advance()
	var n node
	ok := depth <= quickDepth
	switch list := p.dash(); {
	case !ok:
	case list && p.indent >= indent:
		n, ok = p.list(p.indent, depth)
	case !list && p.indent > indent:
		n, ok = p.mapping(p.indent, depth)
	default: // nothing
		ok = false
	}
	p.stack = append(p.stack, n)
	return ok
}

// dash reports whether the line is an entry of a block list.
func (p *reader) dash() bool {
	return p.indent != atEnd && p.at+1 < p.end && p.text[p.at] == '-' && p.text[p.at+1] == ' '
}

// list reads a block list of words and flow collections.
func (p *reader) list(indent, depth int) (node, bool) {
	from := len(p.stack)
	line, col := p.place(p.at)
	for p.indent == indent && p.dash() {
		at := p.at + 1
		for at < p.end && p.text[at] == ' ' {
			at++
		}
		if at == p.end || !p.value(at, depth+1) {
			return node{}, false
		}
		p.advance()
		if p.indent > indent {
			return node{}, false
		}
	}
	return p.collect(listKind, line, col, from), true
}

// value reads a value that ends on its line, and a comment after it.
func (p *reader) value(at, depth int) bool {
	after, ok := p.inline(at, depth, &blockWord)
	if !ok || after == p.end {
		return ok
	}
	if p.text[after] != ' ' {
		return false
	}
	for after < p.end && p.text[after] == ' ' {
		after++
	}
	return after == p.end || p.text[after] == '#'
}

// inline puts the value at a byte of the line on the stack and gives the byte after it.
func (p *reader) inline(at, depth int, word *[256]bool) (int, bool) {
	if at >= p.end || depth > quickDepth {
		return 0, false
	}
	switch c := p.text[at]; c {
	case '"', '\'':
		n := strings.IndexByte(p.text[at+1:p.end], c)
		if n < 0 || c == '"' && strings.IndexByte(p.text[at+1:at+1+n], '\\') >= 0 {
			return 0, false
		}
		after := at + n + 2
		if after < p.end && p.text[after] == c { // two quotes are one in the text
			return 0, false
		}
		line, col := p.place(at)
		p.stack = append(p.stack, node{line: line, col: col, value: p.text[at+1 : after-1]})
		return after, true
	case '{':
		return p.flow(at, depth, mappingKind, '}')
	case '[':
		return p.flow(at, depth, listKind, ']')
	}
	return p.plain(at, word)
}

// plain reads a word without quotes.
func (p *reader) plain(at int, word *[256]bool) (int, bool) {
	after := at
	for after < p.end {
		switch c := p.text[after]; {
		case word[c]:
		case c == ':' && word == &blockWord && after > at && after+1 < p.end && (wordStart[p.text[after+1]] || p.text[after+1] == ':'): // an IPv6 address, a time
		default:
			goto out
		}
		after++
	}
out:
	if after == at || !wordStart[p.text[at]] && (p.text[at] != '-' || after == at+1 || !digit(p.text[at+1])) {
		return 0, false
	}
	text := p.text[at:after]
	t, ok := tagOf(text)
	if !ok || (t == intTag || t == floatTag) && !decimal.MatchString(text) {
		return 0, false
	}
	line, col := p.place(at)
	p.stack = append(p.stack, node{tag: t, line: line, col: col, value: text})
	return after, true
}

// flow reads a flow collection.
func (p *reader) flow(at, depth int, k kind, closing byte) (int, bool) {
	from := len(p.stack)
	line, col := p.place(at)
	at++
	for first := true; ; first = false {
		for at < p.end && p.text[at] == ' ' {
			at++
		}
		if at < p.end && p.text[at] == closing && first {
			break
		}
		ok := true
		if k == mappingKind {
			at, ok = p.key(at, from, &flowWord)
			for ok && at < p.end && p.text[at] == ' ' {
				at++
			}
		}
		if ok {
			at, ok = p.inline(at, depth+1, &flowWord)
		}
		for ok && at < p.end && p.text[at] == ' ' {
			at++
		}
		if !ok || at >= p.end {
			return 0, false
		}
		if p.text[at] == closing {
			break
		}
		if p.text[at] != ',' {
			return 0, false
		}
		at++
	}
	n := p.collect(k, line, col, from)
	p.stack = append(p.stack, n)
	return at + 1, true
}

// key puts the key at a byte of the line on the stack and gives the byte after its colon. from is where its mapping begins on the
// stack.
func (p *reader) key(at, from int, word *[256]bool) (int, bool) {
	after := at
	for after < p.end && word[p.text[after]] {
		after++
	}
	if after == at || !wordStart[p.text[at]] || after-at > quickKey || after >= p.end || p.text[after] != ':' || after+1 < p.end && p.text[after+1] != ' ' {
		return 0, false
	}
	text := p.text[at:after]
	t, ok := tagOf(text)
	if !ok || t == nullTag || len(p.stack)-from >= 2*quickKeys {
		return 0, false
	}
	for i := from; i < len(p.stack); i += 2 {
		if p.stack[i].value == text { // given twice
			return 0, false
		}
	}
	line, col := p.place(at)
	p.stack = append(p.stack, node{tag: t, line: line, col: col, value: text})
	return after + 1, true
}

// The characters of words without quotes: how one begins, and how it goes on in a flow collection, in a block and as a block's key.
var (
	wordStart = charset("./_")
	flowWord  = charset("./_-+=@~$")
	blockWord = charset("./_-+=@~$,;()*")
	blockKey  = charset("./_-+=@~$[]{}")
)

func charset(more string) (set [256]bool) {
	for c := range set {
		set[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte(more, byte(c)) >= 0
	}
	return set
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
