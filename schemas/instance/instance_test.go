package instance_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"runledger/schemas/instance"
)

func TestReadKeepsNumbersAndCounts(t *testing.T) {
	got, err := instance.Read([]byte(` {"a":[1.0,1e5,-0,12345678901234567890],"bé":"xé","c":[null,true,false,{}]} `))
	if err != nil {
		t.Fatal(err)
	}
	want := instance.Document{
		Value: map[string]any{
			"a":  []any{json.Number("1.0"), json.Number("1e5"), json.Number("-0"), json.Number("12345678901234567890")},
			"bé": "xé",
			"c":  []any{nil, true, false, map[string]any{}},
		},
		Values:      12, // the object, two lists, four numbers, a text, null, true, false, {}
		StringBytes: 8,  // a, bé, xé, c
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadRefusesWhatIsNoStrictJSON(t *testing.T) {
	for _, data := range []string{
		``, ` `, `{`, `{"a"}`, `[1,]`, `01`, `1 2`, `nul`, `"\ud800"`, "\"\xff\"", "\"\x01\"", `{"a":1,"a":1}`, `{"a":1,"\u0061":1}`, `NaN`, `'a'`, "\ufeff1",
	} {
		if _, err := instance.Read([]byte(data)); err == nil || !strings.HasPrefix(err.Error(), "JSON: want one value in UTF-8 with unique member names, got something else at byte ") {
			t.Errorf("%q: %v", data, err)
		}
	}
}

func TestReadHasLimits(t *testing.T) {
	for data, good := range map[string]bool{
		strings.Repeat("[", 128) + strings.Repeat("]", 128): true,
		strings.Repeat("[", 129) + strings.Repeat("]", 129): false,
		strings.Repeat("[", 1_000_000):                      false,
		strings.Repeat("9", 1024):                           true,
		strings.Repeat("9", 1025):                           false,
		"1e1000":                                            true,
		"1e+1000":                                           true,
		"1E-1000":                                           true,
		"1e1001":                                            false,
		"1E-1001":                                           false,
		"1e" + strings.Repeat("9", 1000):                    false,
	} {
		if _, err := instance.Read([]byte(data)); (err == nil) != good {
			t.Errorf("%.20q (%d bytes): %v, want good: %t", data, len(data), err, good)
		}
	}
}

func TestViolationsOfAnotherErrorAreNone(t *testing.T) {
	if got := instance.Violations(errors.New("x")); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}
