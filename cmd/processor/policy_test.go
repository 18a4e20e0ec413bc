package main

import (
	"regexp"
	"strings"
	"testing"

	"runledger/internal/policy"
)

func TestExamplePolicyIsGoodAndWhatItHasAsCommentsAreTheDefaults(t *testing.T) {
	example := try(t, "policy", "example")
	example.want(t, 0)
	as, err := policy.Parse("example", []byte(example.out))
	if err != nil {
		t.Fatal(err)
	}
	_, defaults, found := strings.Cut(example.out, "with the defaults:\n")
	if !found {
		t.Fatal("the example does not list the defaults")
	}
	said := regexp.MustCompile(`(?m)^# `).ReplaceAllString(defaults, "")
	spelt, err := policy.Parse("spelt out", []byte(string(policy.Airline())+said))
	if err != nil {
		t.Fatal(err)
	}
	if spelt.Bytes != as.Bytes || spelt.LongestRun != as.LongestRun || spelt.TTL != as.TTL ||
		spelt.AllowColon != as.AllowColon || spelt.Observed != as.Observed || spelt.Progress != as.Progress || spelt.Ceilings != as.Ceilings {
		t.Errorf("spelt out it says\n%+v\nwant what holds without:\n%+v", spelt, as)
	}
}

func TestPolicyCheckNamesEveryFaultAndExitsWith1(t *testing.T) {
	good := try(t, "policy", "check", airline(t))
	good.want(t, 0)
	for _, text := range []string{"14, of which 7 are read-only", "airline", "sha256:"} {
		if !strings.Contains(good.out, text) {
			t.Errorf("got %q, want %q in it", good.out, text)
		}
	}
	bad := file(t, "bad.yaml", "version: 1\ntools:\n  - {name: a, executor: b, timeout: soon}\ngrants: []\n")
	try(t, "policy", "check", bad).want(t, exitFailed, bad+`:3:37: tools[0].timeout: want a duration`, bad+":4:1: grants: ")
	try(t, "policy", "check", "/nowhere").want(t, exitUsage, "/nowhere")
	try(t, "serve", "--policy", bad).want(t, exitUsage, bad+":3:37: ")
	try(t, "serve").want(t, exitUsage, "--policy FILE", "processor policy example > policy.yaml")
}
