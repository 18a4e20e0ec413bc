package main

import (
	"strings"
	"testing"
)

func TestWrongUsageExitsWith2AndSaysWhereToLook(t *testing.T) {
	for _, c := range []struct {
		args, says, see string
	}{
		{"serv", `unknown command "serv"; did you mean "serve"?`, `see "processor --help"`},
		{"serv --policy x", `unknown command "serv"; did you mean "serve"?`, `see "processor --help"`},
		{"help serv", `unknown command "serv"; did you mean "serve"?`, `see "processor --help"`},
		{"frobnicate", "unknown command \"frobnicate\"\n", `see "processor --help"`},
		{"streams aply --nats-url x", `unknown command "aply"; did you mean "apply"?`, `see "processor streams --help"`},
		{"--nope", "unknown flag: --nope", `see "processor --help"`},
		{"serve --nope", "unknown flag: --nope", `see "processor serve --help"`},
		{"serve x", `serve takes no arguments, got "x"`, `see "processor serve --help"`},
		{"policy check", "check takes one policy file, got 0", `see "processor policy check --help"`},
		{"dev --nats-port x", `"--nats-port" flag: want a port from 1 to 65535`, `see "processor dev --help"`},
		{"dev --log-level loud", `--log-level: want debug, info, warn or error, got "loud"`, `see "processor dev --help"`},
		{"demo --transcripts /nowhere", "/nowhere", ""},
		{"demo --policy /nowhere", "policy: open /nowhere", ""},
	} {
		got := try(t, strings.Fields(c.args)...)
		got.want(t, exitUsage, c.says, c.see)
		if got.out != "" {
			t.Errorf("%s: standard output has %q, want nothing", c.args, got.out)
		}
	}
}

func TestHelpFitsAScreenAndTellsTheExitStatuses(t *testing.T) {
	got := try(t, "--help")
	got.want(t, 0)
	if n := strings.Count(got.out, "\n"); n > 50 {
		t.Errorf("help has %d lines, want at most 50", n)
	}
	for _, text := range []string{"Exit status: 0", "demo", "dev", "serve", "streams", "policy"} {
		if !strings.Contains(got.out, text) {
			t.Errorf("help does not have %q", text)
		}
	}
}

func TestVersionGoesToStandardOutputHoweverItIsAskedFor(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		got := try(t, arg)
		got.want(t, 0)
		if !strings.HasPrefix(got.out, "runledger processor ") || strings.Count(got.out, "\n") != 3 || got.err != "" {
			t.Errorf("%s: got %q and %q", arg, got.out, got.err)
		}
	}
}

func TestDemoHelpNamesEveryMemberOfItsJSON(t *testing.T) {
	help := try(t, "demo", "--help").out
	for _, member := range []string{
		"runs", "calls", "reserved", "ready", "error", "evidence_found", "no_evidence", "rejected", "terminated",
		"facts", "sequence_gaps", "duplicate_dispatches", "seconds", "violations", "violation_count",
	} {
		if !strings.Contains(help, member) {
			t.Errorf("help of demo does not name %s", member)
		}
	}
}
