package request

import (
	"path"
	"strings"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

// Parse reads one tenant file, tenants/<namespace>/<any>.yaml, which may hold several documents. Everything that is wrong with
// it is in the list; the requests returned are those without an error of their own.
func Parse(file string, data []byte) (Requests, diag.List) {
	docs, found := strict.Parse(file, data)
	var out Requests
	if len(docs) == 0 && !found.Failed() {
		found.Add(diag.Errorf(diag.Pos{File: file}, "request/empty", "the file holds no request").
			Hintf("delete the file, or start one with: copyhold new cluster %s/NAME", namespaceOf(file)))
	}
	for _, d := range docs {
		switch kind := d.Text("kind"); {
		case !d.Has("kind"):
			found.Add(diag.Errorf(d.At(), "request/missing-field", "no kind%s", diag.OneOf([]string{KindCluster, KindSubnet})))
		case kind == KindCluster:
			c := &Cluster{}
			bad, filled := decode(d, &c.Meta, &c.Spec)
			if filled {
				bad.Add(c.check()...)
			}
			if found.Add(bad...); !bad.Failed() {
				out.Clusters = append(out.Clusters, c)
			}
		case kind == KindSubnet:
			s := &Subnet{}
			bad, filled := decode(d, &s.Meta, &s.Spec)
			if filled {
				bad.Add(s.check()...)
			}
			if found.Add(bad...); !bad.Failed() {
				out.Subnets = append(out.Subnets, s)
			}
		default:
			found.Add(unknownKind(d, kind))
		}
	}
	return out, found
}

func unknownKind(d strict.Document, kind string) diag.Finding {
	kinds := []string{KindCluster, KindSubnet}
	f := diag.Errorf(d.At("kind"), "request/unknown-kind", "unknown kind %q%s", kind, diag.OneOf(kinds))
	switch {
	case kind == "Cluster" || kind == "SubnetClaim":
		return f.Hintf("a tenants repository holds requests; copyhold renders the %s", kind)
	case diag.Nearest(kind, kinds) != "":
		return f.Hintf("did you mean %q?", diag.Nearest(kind, kinds))
	}
	return f
}

// namespaceOf is the folder a tenant's file stands in: the folder is the namespace.
func namespaceOf(file string) string { return path.Base(path.Dir(file)) }

// decode fills a request from its document. It is filled, and can be checked further, when all its fields have the right type.
func decode[S any](d strict.Document, m *Meta, spec *S) (found diag.List, filled bool) {
	var h head[S]
	found = d.Decode("request", &h)
	if found.Failed() {
		for i := range found {
			if found[i].Pos == d.At("spec", "version") && found[i].Name == "request/wrong-type" { // quoting 1.30 would not make it a version
				found[i] = found[i].Hintf("write v and three numbers, as in v1.34.1")
			}
		}
		return found, false
	}
	*m, *spec = Meta{Namespace: namespaceOf(d.File), Name: h.Metadata.Name, doc: d}, h.Spec
	if h.APIVersion != APIVersion {
		found.Add(diag.Errorf(d.At("apiVersion"), "request/api-version", "apiVersion %q, want %s", h.APIVersion, APIVersion))
	}
	if ns := h.Metadata.Namespace; ns != "" && ns != m.Namespace {
		found.Add(diag.Errorf(d.At("metadata", "namespace"), "request/wrong-namespace", "namespace %q, want %q: the folder is the namespace", ns, m.Namespace).
			Hintf("move the file to %s, or leave metadata.namespace out", strings.Replace(d.File, "/"+m.Namespace+"/", "/"+ns+"/", 1)))
	}
	if m.Name == "" {
		found.Add(diag.Errorf(d.At("metadata", "name"), "request/missing-field", "no metadata.name"))
	}
	return found, true
}
