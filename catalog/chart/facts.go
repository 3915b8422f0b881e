package chart

import (
	"slices"
	"strings"
	"text/template/parse"

	"copyhold.dev/copyhold/render/diag"
)

// part is one template, or one definition in it.
type part struct {
	tree  *parse.Tree
	where func(parse.Pos) diag.Pos
	label string // goes before a message
}

// templatePart is a part of a file, with the file's text to count lines in.
func templatePart(tree *parse.Tree, file, text string) part {
	return part{tree: tree, where: func(p parse.Pos) diag.Pos { return line(file, []byte(text), int(p)) }}
}

// trees parses a template, whatever functions it calls.
func trees(name, text string) (map[string]*parse.Tree, error) {
	all := map[string]*parse.Tree{}
	t := parse.New(name)
	t.Mode = parse.SkipFuncCheck
	if _, err := t.Parse(text, "{{", "}}", all); err != nil {
		return nil, err
	}
	return all, nil
}

func empty(t *parse.Tree) bool { return parse.IsEmptyTree(t.Root) }

// facts are what can be told of a template without running it.
type facts struct {
	calls    []call
	names    []string // the templates it includes
	endings  []string // the template files it includes, from the slash after templates
	anyName  bool     // it includes one by a name that is only known when it runs
	literals []*parse.StringNode
	values   []string // the values it names, without .Values
	tpl      bool
	files    bool
}

// call is the use of a function. keys and values are not among them where their order makes no difference.
type call struct {
	function string
	at       parse.Pos
}

func (p part) facts() facts {
	var f facts
	f.list(p.tree.Root)
	return f
}

func (f *facts) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			f.pipe(n.Pipe, false)
		case *parse.TemplateNode:
			f.names = append(f.names, n.Name)
			f.pipe(n.Pipe, false)
		case *parse.IfNode:
			f.branch(&n.BranchNode, true)
		case *parse.RangeNode:
			f.branch(&n.BranchNode, false)
		case *parse.WithNode:
			f.branch(&n.BranchNode, false)
		}
	}
}

func (f *facts) branch(n *parse.BranchNode, anyOrder bool) {
	f.pipe(n.Pipe, anyOrder && len(n.Pipe.Decl) == 0)
	f.list(n.List)
	f.list(n.ElseList)
}

// inAnyOrder are the functions to which the order of a list they are given makes no difference, and keepers those that hand a list
// on, so that it depends on what takes it from them.
var (
	inAnyOrder = []string{"sortAlpha", "len", "has", "mustHas", "empty", "not"}
	keepers    = []string{"uniq", "mustUniq", "compact", "mustCompact", "concat", "without", "mustWithout", "toStrings", "and", "or", "default"}
)

// pipe goes through a pipeline from its end. anyOrder says that whatever takes its result does not mind the order of a list.
func (f *facts) pipe(p *parse.PipeNode, anyOrder bool) {
	if p == nil {
		return
	}
	for _, c := range slices.Backward(p.Cmds) {
		head, _ := c.Args[0].(*parse.IdentifierNode)
		given := anyOrder // whether this command does not mind the order of what it is given; parentheses hand it on
		if head != nil {
			given = slices.Contains(inAnyOrder, head.Ident) || anyOrder && slices.Contains(keepers, head.Ident)
		}
		for i, a := range c.Args {
			f.argument(a, i == 0 && anyOrder, given)
		}
		if head != nil && head.Ident == "include" {
			f.include(c)
		}
		anyOrder = given
	}
}

// argument looks at one word of a command: its function or what that is given.
func (f *facts) argument(n parse.Node, anyOrder, given bool) {
	switch n := n.(type) {
	case *parse.IdentifierNode:
		f.tpl = f.tpl || n.Ident == "tpl"
		if !anyOrder || n.Ident != "keys" && n.Ident != "values" {
			f.calls = append(f.calls, call{n.Ident, n.Pos})
		}
	case *parse.PipeNode:
		f.pipe(n, given)
	case *parse.ChainNode:
		f.field(n.Field)
		f.argument(n.Node, false, false)
	case *parse.FieldNode:
		f.field(n.Ident)
	case *parse.VariableNode:
		f.field(n.Ident[1:])
	case *parse.StringNode:
		if strings.Contains(n.Text, "{{") {
			f.literals = append(f.literals, n)
		}
	}
}

func (f *facts) field(chain []string) {
	f.files = f.files || slices.Contains(chain, "Files")
	if i := slices.Index(chain, "Values"); i >= 0 {
		f.values = append(f.values, strings.Join(chain[i+1:], "."))
	}
}

// include finds which template a call of include runs. Besides a name as it stands it knows how charts take the checksum of a file:
// include (print $.Template.BasePath "/configmap.yaml") .
func (f *facts) include(c *parse.CommandNode) {
	if len(c.Args) > 1 {
		if name, ok := c.Args[1].(*parse.StringNode); ok {
			f.names = append(f.names, name.Text)
			return
		}
		if p, ok := c.Args[1].(*parse.PipeNode); ok && len(p.Cmds) == 1 && len(p.Cmds[0].Args) == 3 {
			args := p.Cmds[0].Args
			end, ok := args[2].(*parse.StringNode)
			if args[0].String() == "print" && strings.HasSuffix(args[1].String(), ".Template.BasePath") && ok && strings.HasPrefix(end.Text, "/") {
				f.endings = append(f.endings, end.Text)
				return
			}
		}
	}
	f.anyName = true
}
