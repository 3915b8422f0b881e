package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/sprig/v3"
	"github.com/google/go-cmp/cmp"
	helm "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// allowed are sprig's functions that are repeatable. A function that a new version brings is in neither list until somebody has
// looked at it.
var allowed = strings.Fields(`
	abbrev abbrevboth add add1 add1f addf adler32sum all any append atoi b32dec b32enc b64dec b64enc base biggest buildCustomCert
	camelcase cat ceil chunk clean coalesce compact concat contains dateModify date_modify decryptAES deepCopy deepEqual default
	derivePassword dict dig dir div divf duration durationRound empty ext fail first float64 floor fromJson get has hasKey hasPrefix
	hasSuffix hello indent initial initials int int64 isAbs join kebabcase kindIs kindOf last list lower max maxf merge mergeOverwrite
	min minf mod mul mulf mustAppend mustChunk mustCompact mustDateModify mustDeepCopy mustFirst mustFromJson mustHas mustInitial
	mustLast mustMerge mustMergeOverwrite mustPrepend mustPush mustRegexFind mustRegexFindAll mustRegexMatch mustRegexReplaceAll
	mustRegexReplaceAllLiteral mustRegexSplit mustRest mustReverse mustSlice mustToJson mustToPrettyJson mustToRawJson mustUniq
	mustWithout must_date_modify nindent nospace omit pick pluck plural prepend push quote regexFind regexFindAll regexMatch
	regexQuoteMeta regexReplaceAll regexReplaceAllLiteral regexSplit repeat replace rest reverse round semver semverCompare seq set
	sha1sum sha256sum sha512sum slice snakecase sortAlpha split splitList splitn squote sub subf substr swapcase ternary title toDecimal
	toJson toPrettyJson toRawJson toString toStrings trim trimAll trimPrefix trimSuffix trimall trunc tuple typeIs typeIsLike typeOf
	uniq unixEpoch unset until untilStep untitle upper urlJoin urlParse without wrap wrapWith`)

func TestEveryFunctionIsDecided(t *testing.T) {
	sprigs := sprig.TxtFuncMap()
	var open []string
	for name := range sprigs {
		if _, ok := refused[name]; !ok {
			open = append(open, name)
		}
	}
	slices.Sort(open)
	if d := cmp.Diff(allowed, open); d != "" {
		t.Errorf("sprig's functions that are not refused (-want +got):\n%s", d)
	}
	// What sprig itself calls not repeatable is refused, but for arithmetic on a date that is given.
	hermetic := sprig.HermeticTxtFuncMap()
	for name := range sprigs {
		if _, ok := hermetic[name]; !ok && refused[name].why == "" && name != "dateModify" && name != "date_modify" {
			t.Errorf("sprig says %q is not repeatable, and it is not refused", name)
		}
	}
}

func TestEveryRefusedFunctionExists(t *testing.T) {
	for name := range refused {
		c := &helm.Chart{
			Metadata:  &helm.Metadata{Name: "solar"},
			Templates: []*helm.File{{Name: "templates/a.yaml", Data: []byte("{{ if false }}{{ " + name + " }}{{ end }}")}},
		}
		_, err := engine.Engine{}.Render(c, chartutil.Values{"Values": chartutil.Values{}})
		if name == "env" || name == "expandenv" { // helm has taken these two out of sprig
			if _, ok := sprig.TxtFuncMap()[name]; !ok || err == nil {
				t.Errorf("%s: in sprig %v, helm says %v", name, ok, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("helm has no %q: %v", name, err)
		}
	}
}

func TestRefusedFunctions(t *testing.T) {
	for name, r := range refused {
		t.Run(name, func(t *testing.T) {
			fsys := tree(t, "-- solar/templates/a.yaml --\na: b\n{{ if false }}é {{ print (index (list ("+name+" 1)) 0) }}{{ end }}\n")
			wantFindings(t, fsys, options, fmt.Sprintf("solar/templates/a.yaml:2:40: %q %s [chart/not-repeatable]\n  hint: %s\n", name, r.why, r.hint))
		})
	}
	for _, r := range []refusal{clock, zone, random, ambient, absent, network, osPaths, unsorted} {
		if !slices.Contains(slices.Collect(maps.Values(refused)), r) {
			t.Errorf("no function is refused because it %s", r.why)
		}
	}
}

// uses gives the findings as "file:line:col: function", since the rest is tested above.
func uses(t *testing.T, archive string, values map[string]any) []string {
	t.Helper()
	o := options
	o.Values = values
	_, found, err := Render(tree(t, archive), "solar", o)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range found {
		if f.Name != "chart/not-repeatable" {
			t.Errorf("finding %v", f)
		}
		head, _, _ := strings.Cut(f.String(), `" `)
		out = append(out, head+`"`)
	}
	return out
}

func TestReachable(t *testing.T) {
	const helpers = `
-- solar/templates/_helpers.tpl --
{{ define "unused" }}{{ genCA "a" 1 }}{{ end -}}
{{ define "direct" }}{{ now }}{{ end -}}
{{ define "outer" }}{{ include "inner" . }}{{ end -}}
{{ define "inner" }}{{ uuidv4 }}{{ end -}}
{{ define "common.labels" }}{{ end -}}
-- solar/templates/_text.yaml --
{{ shuffle "abc" }}
-- solar/templates/_other.yaml --
{{ bcrypt "abc" }}
-- solar/values.yaml --
a: text
`
	tests := []struct {
		name, template string
		want           []string
	}{
		{"a helper that nobody uses", `# nothing`, nil},
		{"a comment", `{{/* now */}}`, nil},
		{"a word that is no call", `# {{ "now" }} {{ .Values.now }} {{ $now := 1 }}{{ $now }}`, nil},
		{"include", `{{ include "direct" . }}`, []string{`solar/templates/_helpers.tpl:2:25: "now"`}},
		{"template", `{{ template "direct" . }}`, []string{`solar/templates/_helpers.tpl:2:25: "now"`}},
		{"include at second hand", `{{ if (include "outer" .) }}{{ end }}`, []string{`solar/templates/_helpers.tpl:4:24: "uuidv4"`}},
		{"include by a computed name", `{{ include (printf "%s.labels" "common") . }}`, []string{
			`solar/templates/_helpers.tpl:1:25: "genCA"`, `solar/templates/_helpers.tpl:2:25: "now"`, `solar/templates/_helpers.tpl:4:24: "uuidv4"`,
			`solar/templates/_other.yaml:1:4: "bcrypt"`, `solar/templates/_text.yaml:1:4: "shuffle"`}},
		{"include of a file", `{{ include (print $.Template.BasePath "/_text.yaml") . | sha256sum }}`, []string{`solar/templates/_text.yaml:1:4: "shuffle"`}},
		{"redefined", `{{ define "direct" }}{{ ago 1 }}{{ end }}{{ include "direct" . }}`, []string{`solar/templates/_helpers.tpl:2:25: "now"`}},
		{"in every place of a template", `{{ range $i := list now }}{{ else }}{{ ago 1 }}{{ end }}{{ with randInt 1 2 }}{{ end }}{{ block "b" (randAlpha 1) }}{{ end }}{{ $x := (genPrivateKey "rsa").Key }}{{ template "common.labels" (dict "a" (env "A")) }}`,
			[]string{`solar/templates/a.yaml:1:21: "now"`, `solar/templates/a.yaml:1:40: "ago"`, `solar/templates/a.yaml:1:65: "randInt"`, `solar/templates/a.yaml:1:102: "randAlpha"`,
				`solar/templates/a.yaml:1:136: "genPrivateKey"`, `solar/templates/a.yaml:1:202: "env"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, uses(t, helpers+"-- solar/templates/a.yaml --\n"+tt.template+"\n", nil)); d != "" {
				t.Errorf("uses (-want +got):\n%s", d)
			}
		})
	}
}

func TestReachableInSubcharts(t *testing.T) {
	archive := func(enabled bool) string {
		return fmt.Sprintf(`
-- solar/Chart.yaml --
apiVersion: v2
name: solar
version: 1.0.0
dependencies: [{name: pools, version: 1.0.0, condition: pools.enabled}, {name: common, version: 1.0.0}]
-- solar/values.yaml --
pools: {enabled: %v}
-- solar/templates/a.yaml --
# {{ include "common.name" . }}
-- solar/charts/pools/Chart.yaml --
{apiVersion: v2, name: pools, version: 1.0.0}
-- solar/charts/pools/templates/pool.yaml --
# {{ uuidv4 }}
-- solar/charts/common/Chart.yaml --
{apiVersion: v2, name: common, version: 1.0.0, type: library}
-- solar/charts/common/templates/_names.tpl --
{{ define "common.name" }}{{ keys (dict "a" 1) | first }}{{ end }}
{{ define "common.unused" }}{{ now }}{{ end }}
-- solar/charts/common/templates/ignored.yaml --
{{ now }}
`, enabled)
	}
	name := `solar/charts/common/templates/_names.tpl:1:30: "keys"`
	if d := cmp.Diff([]string{name}, uses(t, archive(false), nil)); d != "" {
		t.Errorf("uses with the subchart off (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{name, `solar/charts/pools/templates/pool.yaml:1:6: "uuidv4"`}, uses(t, archive(true), nil)); d != "" {
		t.Errorf("uses with the subchart on (-want +got):\n%s", d)
	}
}

func TestOrder(t *testing.T) {
	for template, ok := range map[string]bool{
		`{{ keys .Values | sortAlpha | join "," }}`:                  true,
		`{{ values .Values | uniq | sortAlpha }}`:                    true,
		`{{ (keys .Values) | sortAlpha }}`:                           true,
		`{{ sortAlpha (keys .Values) }}`:                             true,
		`{{ sortAlpha (concat (keys .Values) (list "b")) }}`:         true,
		`{{ if keys .Values }}{{ end }}`:                             true,
		`{{ if gt (len (keys .Values)) 1 }}{{ end }}`:                true,
		`{{ range $k := keys .Values | sortAlpha }}{{ end }}`:        true,
		`{{ has "a" (keys .Values) }}`:                               true,
		`{{ keys .Values }}`:                                         false,
		`{{ keys .Values | join "," }}`:                              false,
		`{{ keys .Values | first | list | sortAlpha }}`:              false,
		`{{ $k := keys .Values }}{{ sortAlpha $k }}`:                 false,
		`{{ if $k := keys .Values }}{{ first $k }}{{ end }}`:         false,
		`{{ range keys .Values }}{{ end }}`:                          false,
		`{{ with keys .Values }}{{ end }}`:                           false,
		`{{ concat (keys .Values) (list "b") }}`:                     false,
		`{{ first (values .Values) }}`:                               false,
		`{{ sortAlpha (list (first (keys .Values))) }}`:              false,
		`{{ range $k, $v := .Values }}{{ end }}{{ .Values.keys }}`:   true,
		`{{ (index (values .Values) 0).keys }}`:                      false,
		`{{ template "x" (keys .Values) }}{{ define "x" }}{{ end }}`: false,
		`{{ include "x" (keys .Values) }}{{ define "x" }}{{ end }}`:  false,
		`{{ sortAlpha (keys .Values | without "a") | join (now) }}`:  false,
		`{{ not (keys .Values) }}{{ keys .Values | empty }}`:         true,
		`{{ default (list "a") (keys .Values | uniq) | sortAlpha }}`: true,
		`{{ default (list "a") (keys .Values | uniq) | join "," }}`:  false,
	} {
		got := uses(t, "-- solar/values.yaml --\n{a: text, keys: text}\n-- solar/templates/a.yaml --\n# "+template+"\n", nil)
		if (len(got) == 0) != ok {
			t.Errorf("%s: repeatable %v, want %v (%v)", template, len(got) == 0, ok, got)
		}
	}
}

func TestTextsForTpl(t *testing.T) {
	const chart = `
-- solar/values.yaml --
plain: text
greeting: "{{ now }}"
nested:
  list:
    - ok
    - |
      some text
      {{ include "helper" . }}
global: {word: "{{ ago 1 }}"}
notATemplate: "{{ if"
pools:
  size: "{{ uuidv4 }}"
-- solar/charts/pools/Chart.yaml --
{apiVersion: v2, name: pools, version: 1.0.0}
-- solar/charts/pools/values.yaml --
name: "{{ randInt 1 2 }}"
-- solar/config/a.conf --
a
 {{ env "HOME" }}
-- solar/README.md --
{{ getHostByName "x" }}
-- solar/templates/_helpers.tpl --
{{ define "helper" }}{{ bcrypt "a" }}{{ end }}
`
	if got := uses(t, chart+"-- solar/templates/a.yaml --\n# {{ .Values.greeting | quote }}{{ .Files.Get \"config/a.conf\" | len }}\n", nil); got != nil {
		t.Errorf("without tpl, uses are %v", got)
	}
	inValues := []string{
		`solar/charts/pools/values.yaml:1:7: value "pools.name": "randInt"`,
		`solar/templates/_helpers.tpl:1:25: "bcrypt"`,
		`solar/values.yaml:2:11: value "greeting": "now"`,
		`solar/values.yaml:9:16: value "global.word": "ago"`,
		`solar/values.yaml:12:9: value "pools.size": "uuidv4"`,
	}
	if d := cmp.Diff(inValues, uses(t, chart+"-- solar/templates/a.yaml --\n# {{ tpl .Values.plain . }}\n", nil)); d != "" {
		t.Errorf("uses with tpl (-want +got):\n%s", d)
	}
	given := append([]string{`solar: value "greeting": "htpasswd"`}, slices.Delete(slices.Clone(inValues), 2, 3)...)
	if d := cmp.Diff(given, uses(t, chart+"-- solar/templates/a.yaml --\n# {{ tpl .Values.plain . }}\n", map[string]any{"greeting": `{{ htpasswd "a" "b" }}`})); d != "" {
		t.Errorf("uses with a value that is given (-want +got):\n%s", d)
	}
	withFiles := slices.Insert(slices.Clone(inValues), 1, `solar/config/a.conf:2:5: "env"`)
	if d := cmp.Diff(withFiles, uses(t, chart+"-- solar/templates/a.yaml --\n# {{ tpl (.Files.Get \"config/a.conf\") . }}\n", nil)); d != "" {
		t.Errorf("uses with tpl and files (-want +got):\n%s", d)
	}
	literal := []string{`solar/templates/a.yaml:1:10: "genCA"`}
	if d := cmp.Diff(literal, uses(t, "-- solar/templates/a.yaml --\n# {{ tpl \"{{ genCA \\\"a\\\" 1 }}\" . }}\n", nil)); d != "" {
		t.Errorf("uses in a text in the template (-want +got):\n%s", d)
	}
}

// Helm would run out of stack on these, which no program survives.
func TestEndlessTexts(t *testing.T) {
	wantFindings(t, tree(t, `
-- solar/values.yaml --
one: "{{ tpl .Values.one . }}"
two: "{{ tpl .Values.three.a . }}"
three: {a: '{{ tpl (index .Values "two") . }}'}
four: "{{ tpl .Values.five . }}"
five: text
-- solar/templates/a.yaml --
# {{ tpl .Values.four . }}
`), options, `solar/values.yaml:1:6: value "one" comes back to itself through tpl, without end [chart/template]
solar/values.yaml:2:6: value "two" comes back to itself through tpl, without end [chart/template]
solar/values.yaml:3:12: value "three.a" comes back to itself through tpl, without end [chart/template]
`)
}
