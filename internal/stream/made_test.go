package stream

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// made gives IN and RUNS as an installation of that prefix and so many
// partitions has them.
func made(t *testing.T, prefix string, partitions int) (in, runs jetstream.StreamConfig) {
	t.Helper()
	options := DefaultOptions()
	options.Prefix, options.Partitions = prefix, partitions
	topology, err := LoadTopology(options)
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range topology.streams {
		switch config.Name {
		case StreamIn:
			in = config
		case StreamRuns:
			runs = config
		}
	}
	return in, runs
}

func TestInSaysWithHowManyPartitionsItWasMade(t *testing.T) {
	for _, want := range []int{1, 16, MaxPartitions} {
		in, _ := made(t, "a.b", want)
		if got, err := PartitionsOf(in); err != nil || got != want {
			t.Errorf("got %d, %v, want %d", got, err, want)
		}
	}
	in, _ := made(t, "a.b", 16)
	for _, destination := range []string{"", "a.part.3.in", "a.part.{{partition(0,3)}}.in", "a.part.{{partition(99999999999999999999,3)}}.in"} {
		in.SubjectTransform = &jetstream.SubjectTransformConfig{Destination: destination}
		if _, err := PartitionsOf(in); err == nil || !strings.Contains(err.Error(), "streams check") {
			t.Errorf("%q: got %v, want it refused, and what to do", destination, err)
		}
	}
	in.SubjectTransform = nil
	if _, err := PartitionsOf(in); err == nil {
		t.Error("without a transform: want it refused")
	}
}

func TestStreamsOfAnotherPrefixAreNamedWithTheirs(t *testing.T) {
	in, runs := made(t, "mine.v1", 16)
	for _, config := range []jetstream.StreamConfig{in, runs} {
		if err := CheckPrefix(config, "mine.v1"); err != nil {
			t.Errorf("%s: got %v", config.Name, err)
		}
		for _, prefix := range []string{"harness.v1", "mine", "v1"} {
			if err := CheckPrefix(config, prefix); err == nil || !strings.Contains(err.Error(), `the prefix "mine.v1", asked for "`+prefix) {
				t.Errorf("%s: got %v, want both prefixes named", config.Name, err)
			}
		}
		config.Subjects = []string{"orders.>"}
		if err := CheckPrefix(config, "mine.v1"); err == nil || !strings.Contains(err.Error(), "no stream of ours") {
			t.Errorf("%s: got %v, want that it is none of ours", config.Name, err)
		}
	}
}
