package projector

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxExpression bounds an evidence expression, in bytes. What may stand in one:
//
//   - the variable result, which is the raw response as JSON has it (with
//     parse_text, what its text is); numbers are doubles, and compare with whole
//     ones: result.total > 0
//   - comparisons, arithmetic, && || ! ?: in, members and indexes
//   - size, contains, startsWith, endsWith, int, double, string
//   - has, all, exists, exists_one, filter
//   - lists of constants, as in result.status in ["open", "new"]
//
// There is no clock, no time zone, no environment and no regular expression, and
// nothing that builds lists out of lists: whatever is there costs what it is
// counted for.
const MaxExpression = 1000

// maxFaults is how many faults of an expression a policy is told.
const maxFaults = 3

var (
	errExpression = errors.New("evidence: want true or false of the expression for this response, got an error; guard what may be missing with has()")
	errEvidence   = errors.New("evidence: want a response within the levels and numbers that an expression can take")
)

// expression is a compiled evidence expression. It is immutable and safe for
// use by several goroutines.
type expression struct {
	program cel.Program
	most    int64
}

// newExpression compiles an expression that may cost so much. The error says
// what is wrong with it, and where.
func newExpression(text string, most int64) (*expression, error) {
	if len(text) > MaxExpression {
		return nil, fmt.Errorf("want an expression of at most %d bytes, got %d", MaxExpression, len(text))
	}
	environment, err := newEnvironment()
	if err != nil {
		return nil, fmt.Errorf("the expression language: %w", err)
	}
	checked, issues := environment.Compile(text)
	if faults := issues.Errors(); len(faults) > 0 {
		texts := make([]string, 0, maxFaults)
		for _, fault := range faults[:min(len(faults), maxFaults)] {
			message := strings.Join(strings.Fields(fault.Message), " ")
			texts = append(texts, fmt.Sprintf("%.200s (at %d:%d of the expression)", message, fault.Location.Line(), fault.Location.Column()+1))
		}
		return nil, fmt.Errorf("want a CEL expression over result: %s", strings.Join(texts, "; "))
	}
	if got := checked.OutputType(); !got.IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("want an expression that is true or false, got one of type %s; compare it, as in … == true", got)
	}
	if err := checkLiterals(checked.NativeRep()); err != nil {
		return nil, err
	}
	program, err := environment.Program(checked, cel.CostTracking(costs{}), cel.CostLimit(uint64(max(most, 0))))
	if err != nil {
		return nil, fmt.Errorf("want a CEL expression over result: %.200w", err)
	}
	return &expression{program: program, most: most}, nil
}

func newEnvironment() (*cel.Env, error) {
	language := env.NewLibrarySubset().AddIncludedMacros(
		operators.Has, operators.All, operators.Exists, operators.ExistsOne, operators.Filter)
	for _, name := range [...]string{
		operators.Conditional, operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot,
		operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals,
		operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Negate,
		operators.In, operators.Index, operators.NotStrictlyFalse,
		overloads.Size, overloads.Contains, overloads.StartsWith, overloads.EndsWith,
		overloads.TypeConvertInt, overloads.TypeConvertDouble, overloads.TypeConvertString,
	} {
		language.AddIncludedFunctions(env.NewFunction(name))
	}
	return cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(language)),
		cel.Variable("result", cel.DynType),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableHiddenAccumulatorName(true),
		cel.ParserRecursionLimit(64),
		cel.ParserExpressionSizeLimit(MaxExpression),
	)
}

// checkLiterals lets only constants into lists, and no maps or messages at all.
// A list that holds a part of the response twice, bound by exists over it again
// and again, would grow with the power of its depth while it costs next to
// nothing. What filter makes of itself is the one exception.
func checkLiterals(checked *ast.AST) error {
	for _, e := range ast.MatchDescendants(ast.NavigateAST(checked), ast.AllMatcher()) {
		switch e.Kind() {
		case ast.MapKind, ast.StructKind:
			return errors.New("want no maps or messages in the expression")
		case ast.ListKind:
			if !isConstant(e) && !isOfFilter(e) {
				return errors.New(`want only constants in a list, as in ["open", "new"]`)
			}
		}
	}
	return nil
}

func isConstant(e ast.Expr) bool {
	if e.Kind() != ast.ListKind {
		return e.Kind() == ast.LiteralKind
	}
	for _, element := range e.AsList().Elements() {
		if !isConstant(element) {
			return false
		}
	}
	return true
}

// isOfFilter recognizes the [x] of the accumulator + [x] that filter is written
// out as; nobody can write the accumulator's name.
func isOfFilter(list ast.NavigableExpr) bool {
	parent, ok := list.Parent()
	if !ok || parent.Kind() != ast.CallKind || parent.AsCall().FunctionName() != operators.Add {
		return false
	}
	to := parent.AsCall().Args()[0]
	return to.Kind() == ast.IdentKind && strings.HasPrefix(to.AsIdent(), "@")
}

// holds evaluates the expression over a strict JSON value. It fails where the
// expression does, or costs more than it may; nothing of the value is in the
// error, which CEL's own would name.
func (e *expression) holds(value jsontext.Value, m *meter) (bool, error) {
	if err := m.pass(len(value)); err != nil {
		return false, err
	}
	result, err := celValue(value, m)
	if err != nil {
		return false, err
	}
	out, details, err := e.program.Eval(map[string]any{"result": result})
	if cancelled := (interpreter.EvalCancelledError{}); errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return false, fmt.Errorf("evidence: want an expression that costs at most max_cost %d, got more for this response", e.most)
	}
	holds, ok := out.(types.Bool)
	if err != nil || !ok {
		return false, errExpression
	}
	if cost := details.ActualCost(); cost != nil {
		err = m.spend(int(min(*cost, MaxCost))) //nolint:gosec // the bound is checked
	}
	return bool(holds), err
}
