package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	natsdeploy "runledger/deploy/nats"
)

// Names of the streams and buckets, as deploy/nats has them.
const (
	StreamIn       = "IN"
	StreamRuns     = "RUNS"
	StreamDispatch = "DISPATCH"
	StreamTimers   = "TIMERS"
	StreamInvalid  = "INVALID"

	BucketPartitions = "PARTITIONS"
	BucketPolicies   = "POLICIES"
	BucketClaims     = "CLAIMS"
)

// What the files of deploy/nats are written for.
const (
	filePrefix     = "harness.v1"
	filePartitions = 16
	fileReplicas   = 1
)

// MaxPartitions bounds Options.Partitions; each partition costs its owner a
// consumer and a buffer.
const MaxPartitions = 1024

// Options is what an installation may choose about its streams.
type Options struct {
	// Prefix begins every subject; dot-separated tokens of [A-Za-z0-9_-].
	Prefix string
	// Partitions is the number of partitions of IN, 1 to MaxPartitions. It is
	// fixed when the streams are made.
	Partitions int
	// Replicas of every stream and bucket: 1, 3 or 5.
	Replicas int
	// Storage is file storage, unless a test wants memory.
	Storage jetstream.StorageType
	// Executors that get a durable consumer on DISPATCH; names of
	// [A-Za-z0-9_-], 1 to 128 bytes.
	Executors []string
}

// DefaultOptions is what the files say as they stand.
func DefaultOptions() Options {
	return Options{Prefix: filePrefix, Partitions: filePartitions, Replicas: fileReplicas, Storage: jetstream.FileStorage}
}

var (
	prefixPattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	namePattern   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
)

// Validate names the first field that is wrong, what it got and what it wants.
func (o Options) Validate() error {
	if len(o.Prefix) > 128 || !prefixPattern.MatchString(o.Prefix) {
		return fmt.Errorf("Prefix: got %q, want tokens of letters, digits, _ and - joined by dots, at most 128 bytes", o.Prefix)
	}
	if o.Partitions < 1 || o.Partitions > MaxPartitions {
		return fmt.Errorf("Partitions: got %d, want 1 to %d", o.Partitions, MaxPartitions)
	}
	if o.Replicas != 1 && o.Replicas != 3 && o.Replicas != 5 {
		return fmt.Errorf("Replicas: got %d, want 1, 3 or 5", o.Replicas)
	}
	if o.Storage != jetstream.FileStorage && o.Storage != jetstream.MemoryStorage {
		return fmt.Errorf("Storage: got %v, want file or memory", o.Storage)
	}
	for i, name := range o.Executors {
		if !namePattern.MatchString(name) {
			return fmt.Errorf("Executors[%d]: got %q, want 1 to 128 letters, digits, _ or -", i, name)
		}
	}
	return nil
}

// Topology is the set of streams, buckets and consumers that an installation
// needs. It is a value; nothing happens on a server before Apply.
type Topology struct {
	options   Options
	streams   []jetstream.StreamConfig // in the order in which they must be made
	buckets   []jetstream.KeyValueConfig
	consumers []jetstream.ConsumerConfig // on DISPATCH
}

// HasConsumers reports whether there are executors that get a consumer.
func (t Topology) HasConsumers() bool { return len(t.consumers) > 0 }

// LoadTopology reads the files of deploy/nats and puts the options in.
func LoadTopology(options Options) (Topology, error) {
	if err := options.Validate(); err != nil {
		return Topology{}, fmt.Errorf("stream options: %w", err)
	}
	t := Topology{options: options}
	// TIMERS before IN, which sources it.
	for _, name := range []string{StreamTimers, StreamIn, StreamRuns, StreamDispatch, StreamInvalid} {
		config, err := readFile[jetstream.StreamConfig](path.Join("streams", name+".json"), options)
		if err != nil {
			return Topology{}, err
		}
		config.Replicas, config.Storage = options.Replicas, options.Storage
		t.streams = append(t.streams, config)
	}
	for _, name := range []string{BucketPartitions, BucketPolicies, BucketClaims} {
		config, err := readFile[jetstream.KeyValueConfig](path.Join("buckets", name+".json"), options)
		if err != nil {
			return Topology{}, err
		}
		config.Replicas, config.Storage = options.Replicas, options.Storage
		t.buckets = append(t.buckets, config)
	}
	for _, name := range options.Executors {
		config, err := executorConsumer(name, options)
		if err != nil {
			return Topology{}, err
		}
		t.consumers = append(t.consumers, config)
	}
	return t, nil
}

// readFile decodes one file of deploy/nats, strictly, after putting prefix and
// partition count into its text.
func readFile[T any](name string, options Options) (T, error) {
	var config T
	text, err := fs.ReadFile(natsdeploy.Files, name)
	if err != nil {
		return config, fmt.Errorf("deploy/nats: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(substitute(string(text), options))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return config, fmt.Errorf("deploy/nats/%s: %w", name, err)
	}
	return config, nil
}

// substitute replaces the literals that the files are written with. The options
// were validated, so what is put in needs no quoting in JSON.
func substitute(text string, options Options) string {
	return strings.NewReplacer(
		`"`+filePrefix+`.`, `"`+options.Prefix+`.`,
		`{{partition(`+strconv.Itoa(filePartitions)+`,`, `{{partition(`+strconv.Itoa(options.Partitions)+`,`,
	).Replace(text)
}
