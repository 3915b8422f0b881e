package strict

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// fill sets a value from a node that fits its type, as encoding/json would from the same data: what is not written, or null, stays.
// Numbers in an any are int64 where they are whole and fit, else float64.
func fill(n *node, v reflect.Value) error {
	if n.isNull() {
		switch v.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
			v.SetZero()
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return fill(n, v.Elem())
	case reflect.Struct:
		known := fieldsOf(v.Type())
		for i := 0; i+1 < len(n.content); i += 2 {
			if err := fill(&n.content[i+1], v.FieldByIndex(known.byName[n.content[i].value].index)); err != nil {
				return err
			}
		}
	case reflect.Map:
		return fillMap(n, v)
	case reflect.Slice:
		list := reflect.MakeSlice(v.Type(), len(n.content), len(n.content))
		for i := range n.content {
			if err := fill(&n.content[i], list.Index(i)); err != nil {
				return err
			}
		}
		v.Set(list)
	case reflect.String:
		v.SetString(n.value)
	case reflect.Bool:
		v.SetBool(strings.EqualFold(n.value, "true"))
	case reflect.Int, reflect.Int32, reflect.Int64:
		i, err := whole(n, v.Type())
		if err != nil {
			return err
		}
		v.SetInt(i)
	case reflect.Interface:
		x, err := free(n)
		if err != nil {
			return err
		}
		v.Set(reflect.ValueOf(x))
	}
	return nil
}

func fillMap(n *node, v reflect.Value) error {
	if v.IsNil() {
		v.Set(reflect.MakeMapWithSize(v.Type(), len(n.content)/2))
	}
	if m, ok := v.Interface().(map[string]any); ok {
		for i := 0; i+1 < len(n.content); i += 2 {
			x, err := free(&n.content[i+1])
			if err != nil {
				return err
			}
			m[n.content[i].value] = x
		}
		return nil
	}
	for i := 0; i+1 < len(n.content); i += 2 {
		entry := reflect.New(v.Type().Elem()).Elem()
		if err := fill(&n.content[i+1], entry); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(n.content[i].value).Convert(v.Type().Key()), entry)
	}
	return nil
}

// free is a node as maps, lists, strings, booleans, nil, int64 and float64.
func free(n *node) (any, error) {
	switch {
	case n.kind == mappingKind:
		m := make(map[string]any, len(n.content)/2)
		for i := 0; i+1 < len(n.content); i += 2 {
			x, err := free(&n.content[i+1])
			if err != nil {
				return nil, err
			}
			m[n.content[i].value] = x
		}
		return m, nil
	case n.kind == listKind:
		l := make([]any, len(n.content))
		for i := range n.content {
			x, err := free(&n.content[i])
			if err != nil {
				return nil, err
			}
			l[i] = x
		}
		return l, nil
	case n.tag == intTag || n.tag == floatTag:
		if i, err := strconv.ParseInt(n.value, 10, 64); err == nil {
			return i, nil
		}
		return strconv.ParseFloat(n.value, 64)
	case n.tag == boolTag:
		return strings.EqualFold(n.value, "true"), nil
	case n.tag == nullTag:
		return nil, nil
	}
	return n.value, nil
}

// value is a node as maps, lists, strings, booleans, nil and json.Number.
func value(n *node) any {
	switch {
	case n.kind == mappingKind:
		m := make(map[string]any, len(n.content)/2)
		for i := 0; i+1 < len(n.content); i += 2 {
			m[n.content[i].value] = value(&n.content[i+1])
		}
		return m
	case n.kind == listKind:
		l := make([]any, 0, len(n.content))
		for i := range n.content {
			l = append(l, value(&n.content[i]))
		}
		return l
	case n.tag == nullTag:
		return nil
	case n.tag == boolTag:
		return strings.EqualFold(n.value, "true")
	case n.tag == intTag || n.tag == floatTag:
		return json.Number(strings.TrimPrefix(n.value, "+"))
	}
	return n.value
}
