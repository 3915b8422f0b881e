package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A file among the schemas is read for what it is before any kind asks for it.
func TestCheckSchema(t *testing.T) {
	const spec = `"spec": {"group": "example.org", "names": {"plural": "widgets"}}`
	for _, x := range []struct{ name, data, want string }{
		{"widgets.example.org.json", `{"kind": "CustomResourceDefinition", ` + spec + `}`, ""},
		{"widgets.example.org.yaml", "kind: CustomResourceDefinition\nspec: {group: example.org, names: {plural: widgets}}\n", ""},
		{"widgets.example.org.json", "kind: CustomResourceDefinition\nspec: {group: example.org, names: {plural: widgets}}\n", ""},
		{"gadgets.example.org.json", `{"kind": "CustomResourceDefinition", ` + spec + `}`, "catalog/crds/gadgets.example.org.json:1: warning: the schema of widgets.example.org is not looked for here: nothing is checked with it [catalog/unused-schema]"},
		{"widgets.example.org.json", "{\n  \"kind\" \"x\"\n}", `catalog/crds/widgets.example.org.json:2:10: the schema cannot be read: invalid character '"' after object key [catalog/bad-schema]`},
		{"widgets.example.org.json", "{\n", "catalog/crds/widgets.example.org.json:1:2: the schema cannot be read: unexpected end of JSON input [catalog/bad-schema]"},
		{"widgets.example.org.json", "", "catalog/crds/widgets.example.org.json:1: kind \"\", want a CustomResourceDefinition with a group and a plural name [catalog/bad-schema]"},
		{"widgets.example.org.json", "null", "catalog/crds/widgets.example.org.json:1: kind \"\", want a CustomResourceDefinition with a group and a plural name [catalog/bad-schema]"},
		{"widgets.example.org.yaml", "kind: List\n", "catalog/crds/widgets.example.org.yaml:1: kind \"List\", want a CustomResourceDefinition with a group and a plural name [catalog/bad-schema]"},
	} {
		got := ""
		for _, f := range checkSchema("catalog/crds/"+x.name, []byte(x.data)) {
			got += f.String()
		}
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", x.name, x.data, diff)
		}
	}
}
