package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/strict"
	"copyhold.dev/copyhold/render/topology"
)

// source are the objects of a class source, worked out once. It is not ok when it cannot be used; the reason is found. The lock is
// the caller's to hold, while parts are at work.
func (b *builder) source(key string) ([]*manifest.Object, bool) {
	if s, done := b.sources[key]; done {
		return s.objects, s.ok
	}
	objects, bad, err := b.in.Catalog.ClassObjects(key)
	b.found.Add(bad...)
	b.err = errors.Join(b.err, err)
	b.sources[key] = classSource{objects, err == nil && !bad.Failed()}
	return objects, b.sources[key].ok
}

type classSource struct {
	objects []*manifest.Object
	ok      bool
}

// tierClass is the ClusterClass of a tier with the tier's defaults, worked out once.
func (b *builder) tierClass(name string) *topology.Class {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, done := b.tiers[name]; done {
		return c
	}
	t := b.in.Catalog.Tiers[name]
	class := b.class(t.From, t.Class, b.in.Catalog.At("tiers", name, "class"))
	if class != nil && t.WorkerClass != "" && !slices.Contains(class.WorkerClasses(), t.WorkerClass) {
		b.found.Add(diag.Errorf(b.in.Catalog.At("tiers", name, "workerClass"), "catalog/unknown-worker-class", "worker class %q%s", t.WorkerClass, diag.OneOf(class.WorkerClasses())))
		class = nil
	}
	if class != nil {
		bad := append(b.in.Catalog.TakesNone(name), b.unknownFields(t.From)...)
		if b.found.Add(bad...); bad.Failed() {
			class = nil
		}
	}
	if class != nil && len(t.Defaults) > 0 {
		class = b.tierDefaults(name, class)
	}
	b.tiers[name] = class
	b.placeholders[name] = b.in.Catalog.Placeholders(t.From, t.Class, b.sources[t.From].objects)
	return class
}

// unknownFields finds fields of a class source that are said to feed a variable which none of its classes has. A class that is switched off
// may have it, so it only warns. The lock is the caller's.
func (b *builder) unknownFields(from string) diag.List {
	fields := b.in.Catalog.Classes[from].Fields
	if len(fields) == 0 {
		return nil
	}
	there := map[string]bool{}
	for _, o := range b.sources[from].objects {
		variables, _ := lookup(o.Object, []string{"spec", "variables"}).([]any)
		for _, v := range variables {
			if m, ok := v.(map[string]any); ok && topology.IsClass(o) {
				there[fmt.Sprint(m["name"])] = true
			}
		}
	}
	var found diag.List
	for _, field := range catalog.Sorted(fields) {
		if name, _, _ := strings.Cut(fields[field], "."); name != "" && !there[name] {
			found.Add(diag.Warnf(b.in.Catalog.At("classes", from, "fields", field), "catalog/unknown-variable", "no class of class source %q has a variable %q for %s%s", from, name, field, diag.OneOf(catalog.Sorted(there))))
		}
	}
	return found
}

// tierDefaults puts a tier's defaults over those of its class. An address is never a default: it would be everybody's.
func (b *builder) tierDefaults(name string, class *topology.Class) *topology.Class {
	t := b.in.Catalog.Tiers[name]
	at := func(place string) diag.Pos { return b.in.Catalog.At("tiers", name, "defaults", place) }
	with, _, gone := class.WithDefaults(topology.Defaults(t.Defaults))
	var bad diag.List
	for _, place := range gone {
		bad.Add(diag.Errorf(at(place), "catalog/unknown-variable", "class %q has no variable %q", t.Class, place))
	}
	for _, field := range []string{"address", "serverAddress"} {
		place := strings.Join(b.in.Catalog.Classes[t.From].Variable(field), ".")
		if _, ok := t.Defaults[place]; ok {
			bad.Add(diag.Errorf(at(place), "catalog/address-default", "tier %q makes an address the default of %s", name, place).Hintf("addresses are kept in the ledger"))
		}
	}
	for _, p := range with.Validate() {
		bad.Add(b.badDefault(name, p))
	}
	if b.found.Add(bad...); bad.Failed() {
		return nil
	}
	return with
}

// badDefault is what Cluster API refuses of a class with the tier's defaults: a default, if it says so by its path in the class.
func (b *builder) badDefault(tier string, p topology.Problem) diag.Finding {
	t := b.in.Catalog.Tiers[tier]
	place, rest := defaultPlace(splitField(p.Field))
	if _, ours := t.Defaults[place]; !ours {
		return diag.Errorf(b.in.Catalog.At("tiers", tier, "defaults"), "class/refused", "Cluster API refuses class %q with the defaults of tier %q: %s: %s", t.Class, tier, p.Field, shorten(p.Detail))
	}
	words := inWords(strings.TrimPrefix(shorten(p.Detail), "in body "))
	if _, after, found := strings.Cut(words, ": supported values: "); found { // the value again, which apimachinery quotes only when it is text
		words = inWords("supported values: " + after)
	}
	return b.refusedDefault(tier, place, rest, words)
}

// refusedDefault is what a class or a chart refuses of a tier's default at a place, or of a value within it.
func (b *builder) refusedDefault(tier, place string, rest []string, words string) diag.Finding {
	value := strict.Within(b.in.Catalog.Tiers[tier].Defaults[place], rest)
	return diag.Errorf(b.in.Catalog.At(append([]string{"tiers", tier, "defaults", place}, rest...)...), "catalog/bad-value", "default %s %s of tier %q: %s", strings.Join(append([]string{place}, rest...), "."), diag.JSON(value), tier, words)
}

// defaultPlace is the place of a default, in the notation of topology.Defaults, by its path in a class; "" when it is no path of a default.
func defaultPlace(path []string) (place string, rest []string) {
	if len(path) < 6 || path[1] != "variables" || path[4] != "openAPIV3Schema" {
		return "", nil
	}
	place = path[2]
	for i := 5; i < len(path); i++ {
		switch {
		case path[i] == "default":
			return place, path[i+1:]
		case path[i] == "properties" && i+1 < len(path):
			i++
			place += "." + path[i]
		case path[i] == "items":
			place += "[]"
		case path[i] == "additionalProperties":
			place += "{}"
		default:
			return "", nil
		}
	}
	return "", nil
}

// class is a ClusterClass as Cluster API has accepted it, worked out once.
func (b *builder) class(from, name string, at diag.Pos) *topology.Class {
	key := topology.Key{Namespace: b.in.Catalog.Classes[from].Namespace, Name: name}
	cached := classKey{from, key}
	if c, done := b.classes[cached]; done {
		return c
	}
	b.classes[cached] = nil
	objects, ok := b.source(from)
	if !ok {
		return nil
	}
	var there []string
	for _, o := range objects {
		if topology.IsClass(o) && o.GetNamespace() == key.Namespace {
			there = append(there, o.GetName())
		}
	}
	if !slices.Contains(there, name) {
		objects = b.withdrawnObjects(from, name)
	}
	if objects == nil {
		b.found.Add(diag.Errorf(at, "class/missing", "class source %q has no ClusterClass %s%s", from, key, diag.OneOf(there)))
		return nil
	}
	class, problems, err := topology.NewClass(objects, key)
	b.err = errors.Join(b.err, err)
	for _, p := range problems {
		where := ""
		if p.Field != "" {
			where = p.Field + ": "
		}
		b.found.Add(diag.Errorf(at, "class/refused", "Cluster API refuses ClusterClass %s: %s%s", key, where, p.Detail))
	}
	if class != nil {
		class.Stored(b.schemas)
	}
	b.classes[cached] = class
	return class
}

type dressKey struct {
	class    *topology.Class
	defaults string
}

type dressing struct {
	class       *topology.Class
	fresh, gone []string
}

// withDefaults shares one class among the clusters that have the same defaults recorded, and so what it remembers.
func (b *builder) withDefaults(class *topology.Class, defaults map[string]any) (*topology.Class, []string, []string) {
	text, err := json.Marshal(defaults)
	if err != nil {
		panic(err) // they were read from YAML
	}
	key := dressKey{class, string(text)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dressed[key] == nil {
		with, fresh, gone := class.WithDefaults(topology.Defaults(defaults))
		b.dressed[key] = &dressing{with, fresh, gone}
	}
	x := b.dressed[key]
	return x.class, x.fresh, x.gone
}
