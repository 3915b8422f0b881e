package plugin

import (
	"reflect"
	"strings"
	"testing"
)

func TestReadParameters(t *testing.T) {
	for _, c := range []struct {
		name    string
		environ []string
		want    Parameters
		found   string // names of findings
	}{
		{"none", nil, Parameters{}, ""},
		{"empty, as version 3 of Argo CD passes it on", []string{"ARGOCD_APP_PARAMETERS="}, Parameters{}, ""},
		{"null, as Argo CD writes no list", []string{"ARGOCD_APP_PARAMETERS=null"}, Parameters{}, ""},
		{"both", []string{`ARGOCD_APP_PARAMETERS=[{"name":"clusters","array":["solar","lunar","solar"]},{"name":"kinds","array":["Cluster"]}]`}, Parameters{Clusters: []string{"lunar", "solar"}, Kinds: []string{"Cluster"}}, ""},
		{"what Argo CD always sets", []string{"ARGOCD_APP_NAME=photon-prod", "KUBE_VERSION=1.34.1", "PARAM_POLICY=allow", "ENV=x"}, Parameters{}, ""},
		{"unknown", []string{`ARGOCD_APP_PARAMETERS=[{"name":"image","string":"x"}]`}, Parameters{}, "plugin/unknown-parameter"},
		{"no name", []string{`ARGOCD_APP_PARAMETERS=[{"array":["x"]}]`}, Parameters{}, "plugin/unknown-parameter"},
		{"a string", []string{`ARGOCD_APP_PARAMETERS=[{"name":"clusters","string":"solar"}]`}, Parameters{}, "plugin/bad-parameter"},
		{"a map", []string{`ARGOCD_APP_PARAMETERS=[{"name":"clusters","map":{"solar":"x"},"array":["solar"]}]`}, Parameters{}, "plugin/bad-parameter"},
		{"no value", []string{`ARGOCD_APP_PARAMETERS=[{"name":"clusters"}]`}, Parameters{}, "plugin/bad-parameter"},
		{"an empty list", []string{`ARGOCD_APP_PARAMETERS=[{"name":"clusters","array":[]}]`}, Parameters{}, "plugin/bad-parameter"},
		{"an empty name", []string{`ARGOCD_APP_PARAMETERS=[{"name":"kinds","array":["Cluster",""]}]`}, Parameters{}, "plugin/bad-parameter"},
		{"twice", []string{`ARGOCD_APP_PARAMETERS=[{"name":"kinds","array":["Cluster"]},{"name":"kinds","array":["SubnetClaim"]}]`}, Parameters{Kinds: []string{"SubnetClaim"}}, "plugin/bad-parameter"},
		{"no list", []string{`ARGOCD_APP_PARAMETERS={}`}, Parameters{}, "plugin/bad-parameter"},
		{"cut off", []string{`ARGOCD_APP_PARAMETERS=[{"name":`}, Parameters{}, "plugin/bad-parameter"},
		{"two lists", []string{`ARGOCD_APP_PARAMETERS=[{"name":"clusters","array":["solar"]}] [{"name":"clusters","array":["lunar"]}]`}, Parameters{}, "plugin/bad-parameter"},
		{"more than a list", []string{`ARGOCD_APP_PARAMETERS=[{"name":"clusters","array":["solar"]}]]`}, Parameters{}, "plugin/bad-parameter"},
		{"a field that Argo CD does not have", []string{`ARGOCD_APP_PARAMETERS=[{"name":"kinds","array":["Cluster"],"policy":"allow"}]`}, Parameters{}, "plugin/bad-parameter"},
		{"environment", []string{"ARGOCD_ENV_POLICY=allow", "ARGOCD_ENV_EMPTY="}, Parameters{}, "plugin/environment plugin/environment"},
	} {
		got, found := ReadParameters(c.environ)
		var names []string
		for _, f := range found {
			names = append(names, f.Name)
			if !strings.Contains(f.Message, "want") && f.Hint == "" && f.Name != "plugin/bad-parameter" {
				t.Errorf("%s: %s says no way out", c.name, f)
			}
		}
		if strings.Join(names, " ") != c.found || len(found) == 0 && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %s; want %+v, %s", c.name, got, names, c.want, c.found)
		}
	}
}

func TestAnnounce(t *testing.T) {
	got, err := Announce(nil, nil)
	if err != nil || string(got) != "[]\n" {
		t.Errorf("Announce of nothing = %q, %v", got, err)
	}
	many := strings.Fields(strings.Repeat("solar ", 25))
	got, err = Announce(many, nil)
	if err != nil || !strings.Contains(string(got), "solar and 5 more") || strings.Contains(string(got), "kinds") {
		t.Errorf("Announce of 25 clusters = %s, %v", got, err)
	}
}
