package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"copyhold.dev/copyhold/render/diag"
)

// What Argo CD hands a plugin in its environment (its docs/operator-manual/config-management-plugins.md).
const (
	envParameters = "ARGOCD_APP_PARAMETERS" // spec.source.plugin.parameters, as JSON
	envPrefix     = "ARGOCD_ENV_"           // before each name of spec.source.plugin.env
)

// Parameters are what an Application may say of how it is rendered. All of it can be written by a tenant, who may put a file beside
// the requests that overrides the Application's source; so it leaves things out and does nothing else. Policy, image and gate are the
// catalog's.
type Parameters struct {
	Clusters []string // names of the clusters to print; nil: all
	Kinds    []string // kinds of the objects to print; nil: all
}

// The names of the parameters.
const (
	paramClusters = "clusters"
	paramKinds    = "kinds"
)

var paramNames = []string{paramClusters, paramKinds}

// parameter is one of an Application's, as Argo CD writes it. One of the values is set.
type parameter struct {
	Name   string             `json:"name"`
	String *string            `json:"string"`
	Array  *[]string          `json:"array"`
	Map    *map[string]string `json:"map"`
}

// ReadParameters reads what an Application says, out of an environment of KEY=value. What it does not know is an error: somebody counts
// on it.
func ReadParameters(environ []string) (Parameters, diag.List) {
	var p Parameters
	var found diag.List
	text := ""
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if variable, ok := strings.CutPrefix(name, envPrefix); ok {
			found.Add(diag.Errorf(diag.Pos{}, "plugin/environment", "the Application sets %q in spec.source.plugin.env, where copyhold reads nothing", variable).
				Hintf("remove it: the catalog says how to render, and the parameters %s what to print of it", strings.Join(paramNames, " and ")))
		}
		if name == envParameters {
			text = value
		}
	}
	if text == "" {
		return p, found
	}
	var list []parameter
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(&list)
	if _, after := d.Token(); err == nil && after != io.EOF {
		err = errors.New("there is more after the list")
	}
	if err != nil {
		found.Add(diag.Errorf(diag.Pos{}, "plugin/bad-parameter", "%s, which Argo CD sets, does not read: %v", envParameters, err))
		return p, found
	}
	seen := map[string]bool{}
	for _, one := range list {
		if seen[one.Name] {
			found.Add(diag.Errorf(diag.Pos{}, "plugin/bad-parameter", "parameter %q is given twice", one.Name))
		}
		seen[one.Name] = true
		found.Add(p.set(one)...)
	}
	return p, found
}

func (p *Parameters) set(one parameter) diag.List {
	to := map[string]*[]string{paramClusters: &p.Clusters, paramKinds: &p.Kinds}[one.Name]
	if to == nil {
		return diag.List{diag.Errorf(diag.Pos{}, "plugin/unknown-parameter", "unknown parameter %q%s", one.Name, diag.OneOf(paramNames)).
			Hintf("parameters only say what is left out; the catalog says how to render")}
	}
	if one.Array == nil || one.String != nil || one.Map != nil {
		return diag.List{diag.Errorf(diag.Pos{}, "plugin/bad-parameter", "parameter %q is not an array, want array: [NAME, ...]", one.Name)}
	}
	values := slices.Clone(*one.Array)
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) == 0 || values[0] == "" {
		return diag.List{diag.Errorf(diag.Pos{}, "plugin/bad-parameter", "parameter %q has no value, or an empty one", one.Name).
			Hintf("leave the parameter out to print all")}
	}
	*to = values
	return nil
}

// announcement is a parameter as Argo CD's user interface shows it (its reposerver/repository/repository.proto). It has no value: one
// that is edited in the interface would be kept, and leave out what is added later.
type announcement struct {
	Name           string `json:"name"`
	Title          string `json:"title"`
	Tooltip        string `json:"tooltip"`
	CollectionType string `json:"collectionType"`
}

// Announce writes, as JSON, the parameters that an application with these clusters and kinds may set.
func Announce(clusters, kinds []string) ([]byte, error) {
	var list []announcement
	add := func(name, title, what string, have []string) {
		if len(have) > 0 {
			list = append(list, announcement{name, title, fmt.Sprintf("%s; all when left out. Here: %s", what, shortened(have)), "array"})
		}
	}
	add(paramClusters, "Clusters", "names of the clusters to print", clusters)
	add(paramKinds, "Kinds", "kinds of the objects to print", kinds)
	if list == nil {
		list = []announcement{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(list)
	return b.Bytes(), err
}

// shortened is a list for a tooltip.
func shortened(words []string) string {
	const most = 20
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
}
