package topology

import (
	"maps"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/Masterminds/sprig/v3"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/render/manifest"
)

// reads is what the patches of a class look at when they change a template: variables by name, and builtins by their whole path.
//
// It follows from the text of the patches alone. A Go template gets at its data through the dot and through $ only; so what it can
// depend on are the paths that it names from there. Where the whole of the data is handed on (toYaml ., a define), it may depend
// on anything, which everything says.
type reads struct {
	paths      map[string]bool // as machineSize, network.subnet, builtin.cluster.name
	everything bool
}

func (r reads) plus(other reads) reads {
	out := reads{paths: maps.Clone(r.paths), everything: r.everything || other.everything}
	maps.Copy(out.paths, other.paths)
	return out
}

// unknowables are the builtins that only a management cluster knows (api/runtime/hooks/v1alpha1/topologymutation_variable_types.go).
var unknowables = []string{
	"builtin.cluster.uid",
	"builtin.controlPlane.name",
	"builtin.controlPlane.machineTemplate.infrastructureRef.name",
	"builtin.machineDeployment.name",
	"builtin.machineDeployment.bootstrap.configRef.name",
	"builtin.machineDeployment.infrastructureRef.name",
}

// extension stands among the paths for all that a runtime extension reads.
const extension = "a runtime extension"

// unknowable are the paths that hold an unknowable builtin, sorted.
func (r reads) unknowable() []string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(r.paths)) {
		if p == extension || slices.ContainsFunc(unknowables, func(u string) bool { return p == u || strings.HasPrefix(p, u+".") }) {
			out = append(out, p)
		}
	}
	return out
}

// at reports whether a path, or one above or below it, is read.
func (r reads) at(path string) bool {
	for p := range r.paths {
		if p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(path, p+".") {
			return true
		}
	}
	return false
}

// builtins are the paths that are not variables, sorted.
func (r reads) builtins() []string {
	var out []string
	for p := range r.paths {
		if p == "builtin" || strings.HasPrefix(p, "builtin.") {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// reads is what the patches on a template of a class look at. A patch is on a template when a selector names its kind: which of the
// objects of one kind it matches is left to Cluster API, so this may be more than what is read, never less.
func (c *Class) reads(t *manifest.Object) reads {
	key := t.GetAPIVersion() + " " + t.GetKind()
	c.readsMu.Lock()
	defer c.readsMu.Unlock()
	if r, done := c.readsOf[key]; done {
		return r
	}
	r := reads{paths: map[string]bool{}}
	if c.External() {
		r.paths[extension], r.everything = true, true
	}
	for _, p := range c.class.Spec.Patches {
		for _, d := range p.Definitions {
			if d.Selector.APIVersion == t.GetAPIVersion() && d.Selector.Kind == t.GetKind() {
				r.text(p.EnabledIf)
				r.definition(d)
			}
		}
	}
	if c.readsOf == nil {
		c.readsOf = map[string]reads{}
	}
	c.readsOf[key] = r
	return r
}

func (r *reads) definition(d clusterv1.PatchDefinition) {
	for _, p := range d.JSONPatches {
		if p.ValueFrom == nil {
			continue
		}
		if v := p.ValueFrom.Variable; v != "" {
			path, _, _ := strings.Cut(v, "[")
			r.add(path)
		}
		r.text(p.ValueFrom.Template)
	}
}

// add enters a path. Half a builtin, as builtin.cluster, holds all below it.
func (r *reads) add(path string) {
	r.paths[path] = true
	for _, u := range append(slices.Clone(unknowables), "builtin.cluster.metadata.annotations") {
		if strings.HasPrefix(u, path+".") {
			r.everything = true // looked at as a whole: find out by trying
		}
	}
	if strings.HasPrefix(path, "builtin.cluster.metadata.annotations") {
		r.everything = true
	}
}

// text enters what a Go template reads.
func (r *reads) text(text string) {
	if text == "" {
		return
	}
	t, err := template.New("").Funcs(sprig.HermeticTxtFuncMap()).Parse(text)
	if err != nil || len(t.Templates()) > 1 {
		r.everything = true
		return
	}
	if t.Tree != nil {
		r.list(t.Root, true)
	}
}

// list enters what the nodes of a list read; root says whether the dot is the whole of the data there.
func (r *reads) list(l *parse.ListNode, root bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			r.pipe(n.Pipe, root)
		case *parse.IfNode:
			r.pipe(n.Pipe, root)
			r.list(n.List, root)
			r.list(n.ElseList, root)
		case *parse.RangeNode: // inside, the dot is a part of what the pipe gives, which is entered already
			r.pipe(n.Pipe, root)
			r.list(n.List, false)
			r.list(n.ElseList, root)
		case *parse.WithNode:
			r.pipe(n.Pipe, root)
			r.list(n.List, false)
			r.list(n.ElseList, root)
		case *parse.TemplateNode:
			r.everything = true
		}
	}
}

func (r *reads) pipe(p *parse.PipeNode, root bool) {
	if p == nil {
		return
	}
	for _, c := range p.Cmds {
		r.command(c, root)
	}
}

// lookups are functions that take one path out of the data when their keys are written out: the place of the data among the
// arguments, and whether the keys come before it.
var lookups = map[string]struct{ dataLast, hasDefault bool }{
	"dig":    {dataLast: true, hasDefault: true}, // dig "a" "b" DEFAULT DATA
	"get":    {},                                 // get DATA "a"
	"hasKey": {},
	"index":  {}, // index DATA "a" "b"
}

func (r *reads) command(c *parse.CommandNode, root bool) {
	if f, ok := c.Args[0].(*parse.IdentifierNode); ok {
		if l, ok := lookups[f.Ident]; ok && len(c.Args) > 2 {
			args := c.Args[1:]
			data, keys := args[0], args[1:]
			if l.dataLast {
				data, keys = args[len(args)-1], args[:len(args)-1]
			}
			if l.hasDefault {
				if len(keys) == 0 {
					r.everything = true
					return
				}
				r.arg(keys[len(keys)-1], root)
				keys = keys[:len(keys)-1]
			}
			if path, ok := literal(keys); ok && isRoot(data, root) && len(keys) > 0 {
				r.add(path)
				return
			}
		}
	}
	for _, a := range c.Args {
		r.arg(a, root)
	}
}

func (r *reads) arg(n parse.Node, root bool) {
	switch n := n.(type) {
	case *parse.FieldNode:
		if root {
			r.add(strings.Join(n.Ident, "."))
		}
	case *parse.VariableNode: // $ is the data; other variables were made of what is entered already
		if n.Ident[0] == "$" {
			if len(n.Ident) == 1 {
				r.everything = true
				return
			}
			r.add(strings.Join(n.Ident[1:], "."))
		}
	case *parse.DotNode:
		if root {
			r.everything = true
		}
	case *parse.ChainNode: // (pipe).field
		r.arg(n.Node, root)
	case *parse.PipeNode:
		r.pipe(n, root)
	}
}

func isRoot(n parse.Node, root bool) bool {
	switch n := n.(type) {
	case *parse.DotNode:
		return root
	case *parse.VariableNode:
		return n.Ident[0] == "$" && len(n.Ident) == 1
	}
	return false
}

func literal(keys []parse.Node) (string, bool) {
	var parts []string
	for _, k := range keys {
		s, ok := k.(*parse.StringNode)
		if !ok {
			return "", false
		}
		parts = append(parts, s.Text)
	}
	return strings.Join(parts, "."), true
}
