package topology_test

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/manifest"
)

var versions = []string{"v1.33.5", "v1.34.1", "v1.34.2", "v1.35.0", "v1.36.0"}

// newCluster is a request that the class takes, as far as can be told by its schemas.
func (p *player) newCluster(r *repository) *asked {
	workers := map[string]any{}
	for i := range 1 + p.rand.IntN(3) {
		workers[fmt.Sprintf("md-%d", i)] = p.newPool(r)
	}
	variables := map[string]any{}
	for _, v := range entries(r.spec()["variables"]) {
		if v["required"] == true || chance(p.rand, 2) {
			variables[v["name"].(string)] = value(p.rand, at(v, "schema", "openAPIV3Schema").(map[string]any), false, 0)
		}
	}
	delete(variables, "machineSize")
	return &asked{spec: map[string]any{
		"tier": "tier", "version": pick(p.rand, versions[1], versions[1], versions[1], versions[0], versions[3]), "workers": workers, "variables": variables,
	}}
}

func (p *player) newPool(r *repository) map[string]any {
	out := map[string]any{"class": pick(p.rand, r.workerClasses()...), "replicas": int64(1 + p.rand.IntN(3))}
	if chance(p.rand, 5) {
		out["deferUpgrade"] = true
	}
	if chance(p.rand, 5) {
		out["failureDomain"] = "zone-a"
	}
	return out
}

// edit changes a repository at random, and says what it did to each cluster; "" is what it did to all of them.
func (p *player) edit(r *repository) map[string][]string {
	done := map[string][]string{}
	if !chance(p.rand, 3) {
		for range 1 + p.rand.IntN(2) {
			done[""] = append(done[""], "class: "+p.editClass(r))
		}
	}
	for _, name := range catalog.Sorted(r.clusters) {
		if len(done[""]) > 0 && !chance(p.rand, 4) || chance(p.rand, 6) {
			continue
		}
		for range 1 + p.rand.IntN(2) {
			done[name] = append(done[name], p.editCluster(r, r.clusters[name]))
		}
	}
	return done
}

func (p *player) editCluster(r *repository, a *asked) string {
	for range 100 {
		var said string
		switch n := p.rand.IntN(12); {
		case n < 3:
			said = p.editVariables(r, a)
		case n < 8:
			said = p.editPool(r, a)
		case n < 10:
			said = p.editOverlay(r, a)
		case n == 10:
			to := pick(p.rand, versions...)
			said = fmt.Sprintf("version %v -> %s", a.spec["version"], to)
			a.spec["version"] = to
		default:
			if chance(p.rand, 2) {
				a.spec["controlPlane"] = map[string]any{"replicas": int64(1 + p.rand.IntN(3))}
				said = "controlPlane " + toJSON(a.spec["controlPlane"])
			} else {
				a.spec["clusterNetwork"] = map[string]any{"pods": []any{pick[any](p.rand, "198.51.100.0/24", "203.0.113.0/24")}}
				said = "clusterNetwork " + toJSON(a.spec["clusterNetwork"])
			}
		}
		if said != "" {
			return said
		}
	}
	return "nothing"
}

func (p *player) editVariables(r *repository, a *asked) string {
	all := entries(r.spec()["variables"])
	if len(all) == 0 {
		return ""
	}
	v := pick(p.rand, all...)
	name := v["name"].(string)
	if name == "machineSize" {
		return ""
	}
	variables := a.spec["variables"].(map[string]any)
	if chance(p.rand, 5) {
		delete(variables, name)
		return "variable " + name + " not given"
	}
	variables[name] = value(p.rand, at(v, "schema", "openAPIV3Schema").(map[string]any), true, 0)
	return "variable " + name + " = " + toJSON(variables[name])
}

func (p *player) editPool(r *repository, a *asked) string {
	names := a.poolNames()
	name := pick(p.rand, names...)
	pool := a.pool(name)
	workers := a.spec["workers"].(map[string]any)
	sizes := slices.ContainsFunc(entries(r.spec()["variables"]), func(v map[string]any) bool { return v["name"] == "machineSize" })
	set := func(field string, v any) string {
		pool[field] = v
		if v == nil {
			delete(pool, field)
		}
		return fmt.Sprintf("pool %s: %s = %s", name, field, toJSON(v))
	}
	switch p.rand.IntN(10) {
	case 0:
		if pool["min"] != nil {
			return ""
		}
		return set("replicas", int64(1+p.rand.IntN(4)))
	case 1:
		delete(pool, "replicas")
		pool["max"] = int64(5)
		return set("min", int64(1+p.rand.IntN(3)))
	case 2, 3:
		return set("failureDomain", pick[any](p.rand, nil, "zone-a", "zone-b"))
	case 4:
		if sizes {
			return set("size", pick[any](p.rand, nil, "small", "medium", "large"))
		}
		return set("class", pick(p.rand, r.workerClasses()...))
	case 5:
		return set("labels", pick[any](p.rand, nil, map[string]any{"a": "b"}, map[string]any{"node-role.kubernetes.io/x": "y"}))
	case 6, 7:
		return set("deferUpgrade", pool["deferUpgrade"] != true)
	case 8:
		added := fmt.Sprintf("md-%d", len(names)+p.rand.IntN(2))
		workers[added] = p.newPool(r)
		return "new pool " + added + " " + toJSON(workers[added])
	default:
		if len(names) < 2 {
			return ""
		}
		delete(workers, name)
		if chance(p.rand, 2) {
			workers["x-"+name] = pool
			return "pool " + name + " renamed"
		}
		return "pool " + name + " gone"
	}
}

func (p *player) editOverlay(r *repository, a *asked) string {
	put := func(into *map[string]any, key string, v any) string {
		if *into == nil {
			*into = map[string]any{}
		}
		(*into)[key] = v
		if v == nil {
			delete(*into, key)
		}
		return fmt.Sprintf("%s = %s by overlay", key, toJSON(v))
	}
	pool := pick(p.rand, a.poolNames()...)
	extra, _ := a.pools[pool].(map[string]any)
	onPool := func(key string, v any) string {
		said := put(&extra, key, v)
		put(&a.pools, pool, extra)
		return "pool " + pool + ": " + said
	}
	switch p.rand.IntN(11) {
	case 0:
		return "label " + put(&a.labels, "team", pick[any](p.rand, nil, "a", "b"))
	case 1:
		return "annotation " + put(&a.annotations, "a", pick[any](p.rand, nil, "a", "b"))
	case 2:
		return onPool("metadata", pick[any](p.rand, nil, map[string]any{"annotations": map[string]any{"a": "b"}}, map[string]any{"annotations": map[string]any{"topology.cluster.x-k8s.io/hold-upgrade-sequence": ""}}))
	case 3, 4:
		return onPool("rollout", pick[any](p.rand, nil, map[string]any{"strategy": map[string]any{"type": "OnDelete"}},
			map[string]any{"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(2)}}}, map[string]any{"after": "2027-01-01T00:00:00Z"}))
	case 5:
		return onPool("deletion", pick[any](p.rand, nil, map[string]any{"nodeDrainTimeoutSeconds": int64(60)}))
	case 6:
		return onPool("minReadySeconds", pick[any](p.rand, nil, int64(10)))
	case 7:
		return onPool("healthCheck", pick[any](p.rand, nil, map[string]any{"enabled": true, "checks": map[string]any{"nodeStartupTimeoutSeconds": int64(300)}}))
	case 8:
		return "controlPlane." + put(&a.controlPlane, "metadata", pick[any](p.rand, nil, map[string]any{"labels": map[string]any{"a": "b"}}))
	case 9:
		if !chance(p.rand, 3) {
			return ""
		}
		return "controlPlane." + put(&a.controlPlane, "rollout", pick[any](p.rand, nil, map[string]any{"after": "2027-01-01T00:00:00Z"}))
	default:
		all := entries(r.spec()["variables"])
		if len(all) == 0 {
			return ""
		}
		v := pick(p.rand, all...)
		return onPool("variables", pick[any](p.rand, nil, map[string]any{"overrides": []any{map[string]any{"name": v["name"], "value": value(p.rand, at(v, "schema", "openAPIV3Schema").(map[string]any), true, 0)}}}))
	}
}

// editClass changes the class or one of its templates.
func (p *player) editClass(r *repository) string {
	for {
		var said string
		switch n := p.rand.IntN(14); {
		case n < 5:
			t := pick(p.rand, r.class[1:]...)
			said = t.GetKind() + " " + mangle(p.rand, t)
		case n == 5:
			said = p.editMetadata(r)
		case n < 9:
			said = p.editPatch(r)
		case n == 9:
			said = p.newPatch(r)
		case n < 12:
			said = p.editVariable(r)
		default:
			said = p.editWorkerClass(r)
		}
		if said != "" {
			return said
		}
	}
}

// editMetadata changes what of a template is not below its spec: its labels, its annotations, its name.
func (p *player) editMetadata(r *repository) string {
	t := pick(p.rand, r.class[1:]...)
	switch p.rand.IntN(4) {
	case 0:
		t.SetLabels(map[string]string{"chart": pick(p.rand, "v1", "v2")})
		return t.GetKind() + " label"
	case 1:
		t.SetAnnotations(map[string]string{"chart": pick(p.rand, "v1", "v2")})
		return t.GetKind() + " annotation"
	}
	old := t.GetName()
	t.SetName(old + pick(p.rand, "-a", "-b"))
	var rename func(v any)
	rename = func(v any) {
		switch x := v.(type) {
		case map[string]any:
			if x["name"] == old && x["kind"] == t.GetKind() {
				x["name"] = t.GetName()
			}
			for _, e := range x {
				rename(e)
			}
		case []any:
			for _, e := range x {
				rename(e)
			}
		}
	}
	rename(r.spec())
	said := t.GetKind() + " renamed to " + t.GetName()
	if chance(p.rand, 2) {
		said += ", " + mangle(p.rand, t)
	}
	return said
}

func (p *player) editWorkerClass(r *repository) string {
	w := pick(p.rand, entries(at(r.spec(), "workers", "machineDeployments"))...)
	set := func(key string, v any) string {
		w[key] = v
		if v == nil {
			delete(w, key)
		}
		return fmt.Sprintf("worker class %s: %s = %s", w["class"], key, toJSON(v))
	}
	switch p.rand.IntN(9) {
	case 0:
		return set("metadata", pick[any](p.rand, nil, map[string]any{"labels": map[string]any{"class": "x"}}, map[string]any{"annotations": map[string]any{"class": "x"}}))
	case 1, 2:
		return set("failureDomain", pick[any](p.rand, nil, "zone-a", "zone-c"))
	case 3:
		return set("deletion", pick[any](p.rand, nil, map[string]any{"order": "Newest"}, map[string]any{"nodeDrainTimeoutSeconds": int64(30)}))
	case 4:
		return set("minReadySeconds", pick[any](p.rand, nil, int64(5)))
	case 5:
		return set("rollout", pick[any](p.rand, nil, map[string]any{"strategy": map[string]any{"type": "OnDelete"}}, map[string]any{"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(3)}}}))
	case 6:
		return set("healthCheck", pick[any](p.rand, nil, map[string]any{"checks": map[string]any{"nodeStartupTimeoutSeconds": int64(900)}}))
	case 7:
		return set("naming", pick[any](p.rand, nil, map[string]any{"template": "{{ .machineDeployment.topologyName }}-{{ .random }}"}))
	}
	if chance(p.rand, 3) {
		w["class"] = w["class"].(string) + "x"
		return fmt.Sprintf("worker class renamed to %s", w["class"])
	}
	added := runtime.DeepCopyJSON(w)
	added["class"] = w["class"].(string) + "-two"
	workers := at(r.spec(), "workers").(map[string]any)
	if slices.Contains(r.workerClasses(), added["class"].(string)) {
		return ""
	}
	workers["machineDeployments"] = append(workers["machineDeployments"].([]any), added)
	return fmt.Sprintf("worker class %s is new", added["class"])
}

func (p *player) editVariable(r *repository) string {
	list, _ := r.spec()["variables"].([]any)
	if len(list) == 0 || chance(p.rand, 3) {
		return p.newVariable(r)
	}
	v := pick(p.rand, entries(list)...)
	schema := at(v, "schema", "openAPIV3Schema").(map[string]any)
	said := fmt.Sprintf("variable %s: ", v["name"])
	switch p.rand.IntN(6) {
	case 0:
		schema["default"] = value(p.rand, schema, true, 0)
		return said + "default " + toJSON(schema["default"])
	case 1:
		delete(schema, "default")
		return said + "no default"
	case 2:
		if enum, ok := schema["enum"].([]any); ok && len(enum) > 1 {
			schema["enum"] = enum[:len(enum)-1]
			return said + "enum " + toJSON(schema["enum"])
		}
	case 3:
		v["required"] = v["required"] != true
		return said + fmt.Sprintf("required %v", v["required"])
	case 4:
		schema["description"] = "words"
		return said + "description"
	case 5:
		if properties, ok := schema["properties"].(map[string]any); ok {
			properties["added"] = pick(p.rand, map[string]any{"type": "integer", "default": int64(7)}, map[string]any{"type": "string"})
			return said + "a property more " + toJSON(properties["added"])
		}
		if chance(p.rand, 3) {
			r.spec()["variables"] = slices.DeleteFunc(list, func(x any) bool { return at(x, "name") == v["name"] })
			return said + "gone"
		}
	}
	return ""
}

func (p *player) newVariable(r *repository) string {
	list, _ := r.spec()["variables"].([]any)
	name := fmt.Sprintf("extra%d", len(list))
	if slices.ContainsFunc(entries(list), func(v map[string]any) bool { return v["name"] == name }) {
		return ""
	}
	schema := pick(p.rand, map[string]any{"type": "string", "default": "a"}, map[string]any{"type": "string"},
		map[string]any{"type": "object", "default": map[string]any{}, "properties": map[string]any{"a": map[string]any{"type": "integer", "default": int64(1)}}},
		map[string]any{"type": "array", "items": map[string]any{"type": "string"}})
	r.spec()["variables"] = append(list, map[string]any{"name": name, "required": false, "schema": map[string]any{"openAPIV3Schema": schema}})
	said := "new variable " + name + " " + toJSON(schema)
	if chance(p.rand, 2) {
		said += ", " + p.newPatch(r)
	}
	return said
}

// kinds of templates by what the class names them for.
func (r *repository) templates(suffix string) []*manifest.Object {
	var out []*manifest.Object
	for _, o := range r.class[1:] {
		if strings.HasSuffix(o.GetKind(), suffix) {
			out = append(out, o)
		}
	}
	return out
}
