package catalog

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"copyhold.dev/copyhold/render/diag"
)

// measure is what a quantity of CPU or memory may be. Beyond these bounds somebody has slipped with a unit, and 4 in place of 4Gi would
// count as nothing.
type measure struct {
	least, most resource.Quantity
	want        string
	example     string
}

var measures = map[string]measure{
	"cpu":    {resource.MustParse("1m"), resource.MustParse("1M"), "CPUs from 1m to 1M", "2 or 1500m"},
	"memory": {resource.MustParse("1Mi"), resource.MustParse("1Ei"), "bytes with a unit, from 1Mi to 1Ei", "256Gi"},
}

// Quantity reads a quantity that is written as text or as a number; nil is none. What is wrong with one is found when the catalog is loaded.
func Quantity(v any) (*resource.Quantity, error) {
	if v == nil {
		return nil, nil
	}
	q, err := resource.ParseQuantity(fmt.Sprint(v))
	if err != nil {
		return nil, err
	}
	return &q, nil
}

// Plausible reports whether a quantity of CPU or memory can be meant. None at all can be; other resources have no measure.
func Plausible(name string, q resource.Quantity) bool {
	m, known := measures[name]
	switch {
	case !known || q.IsZero():
		return q.Sign() >= 0
	case name == "cpu" && q.Format == resource.BinarySI:
		return false
	}
	return q.Cmp(m.least) >= 0 && q.Cmp(m.most) <= 0
}

// checkQuantity finds a quantity of CPU or memory at a path of catalog.yaml that cannot be meant.
func (c *Catalog) checkQuantity(name string, v any, orNone bool, p ...string) diag.List {
	m := measures[name]
	q, err := Quantity(v)
	if err == nil && q != nil && Plausible(name, *q) && (orNone || !q.IsZero()) {
		return nil
	}
	text := diag.JSON(v)
	if written := c.doc.Text(append([]string{"spec"}, p...)...); v == nil {
		text = "is not given"
	} else if written != "" {
		text = fmt.Sprintf("%q", written)
	}
	want := m.want
	if orNone {
		want = "0 or " + want
	}
	return diag.List{diag.Errorf(c.At(p...), "catalog/bad-value", "%s %s, want %s, as in %s", strings.Join(p, "."), text, want, m.example)}
}
