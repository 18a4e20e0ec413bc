package projector

import (
	"math"
	"strconv"

	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/go-json-experiment/json/jsontext"
)

// celSteps is what making one value for an expression costs, in steps.
const celSteps = 5

// celList is a JSON list in an expression.
type celList struct {
	traits.Lister
	weight uint64
}

// celObject is a JSON object in an expression. Unlike CEL's own maps it is gone
// through in the order in which it was written, so that an expression always
// costs the same and fails at the same member.
type celObject struct {
	traits.Mapper
	names  traits.Lister
	weight uint64
}

// Iterator implements traits.Iterable.
func (o *celObject) Iterator() traits.Iterator { return o.names.Iterator() }

// celValue makes a strict JSON value one of CEL.
func celValue(value jsontext.Value, m *meter) (ref.Val, error) {
	v, _, err := (&celReader{m: m, dec: again(value)}).next()
	return v, err
}

type celReader struct {
	m   *meter
	dec *jsontext.Decoder
}

// next gives the next value and its weight: 8 for each value in it, and the
// bytes of its text.
func (r *celReader) next() (ref.Val, uint64, error) {
	if err := r.m.spend(celSteps); err != nil {
		return nil, 0, err
	}
	token, err := r.dec.ReadToken()
	if err != nil {
		return nil, 0, err
	}
	switch token.Kind() {
	case 'n':
		return types.NullValue, weightOfOne, nil
	case 't', 'f':
		return types.Bool(token.Kind() == 't'), weightOfOne, nil
	case '0':
		// Beyond what a double holds there would be an infinity, which is
		// larger than anything the response says.
		n, err := strconv.ParseFloat(token.String(), 64)
		if err != nil || math.IsInf(n, 0) {
			return nil, 0, errEvidence
		}
		return types.Double(n), weightOfOne, nil
	case '"':
		text := types.String(token.String())
		return text, weightOfOne + uint64(len(text)), nil
	case '[':
		return r.list()
	default:
		return r.object()
	}
}

func (r *celReader) list() (ref.Val, uint64, error) {
	if r.dec.StackDepth() > MaxDepth {
		return nil, 0, errEvidence
	}
	values, weight := []ref.Val{}, uint64(weightOfOne)
	for r.dec.PeekKind() != ']' {
		v, w, err := r.next()
		if err != nil {
			return nil, 0, err
		}
		values = append(values, v)
		weight += w
	}
	_, err := r.dec.ReadToken()
	return &celList{types.NewRefValList(types.DefaultTypeAdapter, values), weight}, weight, err
}

func (r *celReader) object() (ref.Val, uint64, error) {
	if r.dec.StackDepth() > MaxDepth {
		return nil, 0, errEvidence
	}
	names, values, weight := []ref.Val{}, map[string]any{}, uint64(weightOfOne)
	for r.dec.PeekKind() != '}' {
		token, err := r.dec.ReadToken()
		if err != nil {
			return nil, 0, err
		}
		name := token.String()
		v, w, err := r.next()
		if err != nil {
			return nil, 0, err
		}
		names = append(names, types.String(name))
		values[name] = v
		weight += w + uint64(len(name))
	}
	_, err := r.dec.ReadToken()
	return &celObject{
		types.NewStringInterfaceMap(types.DefaultTypeAdapter, values), types.NewRefValList(types.DefaultTypeAdapter, names), weight,
	}, weight, err
}

const (
	weightOfOne    = 8
	weightsPerStep = 8
)

// costs says what a call of an expression costs. It is complete, so that the
// cost of an expression does not change with the version of the library, and it
// counts what a call looks at, where CEL's own counts only the length of lists.
type costs struct{}

// CallCost implements CEL's estimator of actual costs.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	var weight uint64
	switch function {
	case operators.Equals, operators.NotEquals:
		weight = min(weightOf(args[0]), weightOf(args[1]))
	case operators.In:
		if _, list := args[1].(traits.Lister); list {
			weight = weightOf(args[1])
		}
	case operators.Index, operators.Conditional, operators.LogicalAnd, operators.LogicalOr:
	case overloads.Size:
		if _, text := args[0].(types.String); text {
			weight = weightOf(args[0]) // its characters are counted
		}
	default:
		for _, arg := range args {
			if _, text := arg.(types.String); text {
				weight += weightOf(arg)
			}
		}
	}
	cost := 1 + weight/weightsPerStep
	return &cost
}

func weightOf(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return weightOfOne + uint64(len(v))
	case *celList:
		return v.weight
	case *celObject:
		return v.weight
	case traits.Lister: // of constants, of filter, or joined from some
		weight := uint64(weightOfOne)
		for it := v.Iterator(); it.HasNext() == types.True; {
			weight += weightOf(it.Next())
		}
		return weight
	}
	return weightOfOne
}
