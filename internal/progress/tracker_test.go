package progress

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTrackerKeepsIdentitiesInOrderOfReservationAndEachOnce(t *testing.T) {
	var tracker Tracker
	added := []bool{
		tracker.Complete(Identity{9, "c"}),
		tracker.Complete(Identity{2, "a"}),
		tracker.Complete(Identity{9, "c"}),
		tracker.Complete(Identity{4, "b"}),
		tracker.Complete(Identity{2, "a"}),
	}
	if diff := cmp.Diff([]bool{true, true, false, true, false}, added); diff != "" {
		t.Errorf("added (-want +got):\n%s", diff)
	}
	want := []Identity{{2, "a"}, {4, "b"}, {9, "c"}}
	got := tracker.Completed()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("completed (-want +got):\n%s", diff)
	}
	got[0] = Identity{1, "changed"}
	if diff := cmp.Diff(want, tracker.Completed()); diff != "" {
		t.Errorf("a caller changed what the tracker keeps:\n%s", diff)
	}
}

func TestIdentityIsReadBackFromItsText(t *testing.T) {
	texts := map[string]Identity{
		"7 call_abc":                                     {7, "call_abc"},
		"18446744073709551615 a|b/c.d=~@+:":              {18446744073709551615, "a|b/c.d=~@+:"},
		"1 " + strings.Repeat("x", 2048):                 {1, strings.Repeat("x", 2048)},
		"9007199254740993 fc_" + strings.Repeat("0", 64): {9007199254740993, "fc_" + strings.Repeat("0", 64)},
	}
	for text, want := range texts {
		got, err := ParseIdentity(text)
		if err != nil || got != want {
			t.Errorf("ParseIdentity(%.40q) = %v, %v, want %v", text, got, err, want)
		}
		if want.String() != text {
			t.Errorf("String of %v = %q, want %q", want, want.String(), text)
		}
	}
}

func TestTextThatIsNoIdentityIsRefusedAndNotRepeated(t *testing.T) {
	for _, text := range []string{"", "secret", "7", "7 ", " secret", "-1 secret", "0 secret", "x secret", "18446744073709551616 secret"} {
		_, err := ParseIdentity(text)
		if err == nil {
			t.Errorf("ParseIdentity(%q) accepted it", text)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error repeats the text: %v", err)
		}
	}
}
