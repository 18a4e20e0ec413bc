package main

import (
	"io"
	"strings"
	"testing"
)

func TestASeedThatIsNamedIsPlayedAloneAlsoIfItIsZero(t *testing.T) {
	for _, seed := range []string{"0", "7"} {
		o, err := parse([]string{"-seed", seed}, io.Discard)
		if err != nil || !o.one {
			t.Fatalf("seed %s: got %+v, %v, want it played alone", seed, o, err)
		}
	}
	o, err := parse([]string{"-seeds", "3", "-base", "0"}, io.Discard)
	if err != nil || o.one || o.seeds != 3 || o.base != 0 {
		t.Errorf("got %+v, %v, want three seeds from 0 on", o, err)
	}
	var out strings.Builder
	if err := run(options{one: true}, &out); err != nil || !strings.Contains(out.String(), "1 seeds") {
		t.Errorf("seed 0: got %v and\n%.300s\nwant it played", err, out.String())
	}
}

func TestFlagsThatWouldBeIgnoredAreRefused(t *testing.T) {
	for args, says := range map[string]string{
		"-seed 1 -seeds 3 -base 2": "want -seed alone, got it with -base, -seeds",
		"-seeds 0":                 "want -parallel and -seeds of at least 1",
		"-parallel 0":              "want -parallel and -seeds of at least 1",
		"3":                        `want flags only, got "3"`,
		"-seed x":                  "invalid value",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", args, err, says)
		}
	}
}
