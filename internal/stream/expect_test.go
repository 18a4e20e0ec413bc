package stream

import "testing"

func TestASubjectIsUnderAFilter(t *testing.T) {
	for _, c := range []struct {
		filter, subject string
		want            bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.c", false},
		{"a.b", "a", false},
		{"a.b", "a.b.c", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"*.b", "a.b", true},
		{"a.>", "a.b", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false}, // a token at least
		{"a.*.>", "a.b", false},
		{">", "a", true},
		{"a.b", "ab", false},
	} {
		if got := Matches(c.filter, c.subject); got != c.want {
			t.Errorf("%s under %s: got %t, want %t", c.subject, c.filter, got, c.want)
		}
	}
}
