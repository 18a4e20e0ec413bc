package stream

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Difference is one setting on the server that is not what deploy/nats says.
type Difference struct {
	// Name of the stream, bucket (as KV_<bucket>, the stream that it is) or
	// consumer (as <stream>/<consumer>).
	Name string
	// Field is the name of the setting in the file, or "partitions" for their
	// number alone; empty where the whole thing is missing.
	Field string
	// Want and Got are JSON.
	Want, Got string
	// Refused says why Apply does not change it; empty where Apply mends it.
	Refused string
}

// String tells the difference in one line.
func (d Difference) String() string {
	if d.Field == "" {
		return d.Name + ": missing"
	}
	if d.Field == fieldPartitions {
		return fmt.Sprintf("%s was made with %s partitions, asked for %s", d.Name, d.Got, d.Want)
	}
	return fmt.Sprintf("%s: %s: want %s, got %s", d.Name, d.Field, d.Want, d.Got)
}

// Blocks reports whether nobody can work rightly while the difference stands:
// a stream or bucket is missing, or its subjects go elsewhere (another prefix,
// another number of partitions). Other differences, and missing consumers of
// executors, are for an operator to mend in time.
func (d Difference) Blocks() bool {
	switch d.Field {
	case "":
		return !d.MissingConsumer()
	case fieldPartitions, "subjects", "subject_transform", "sources", "republish":
		return true
	}
	return false
}

// MissingConsumer reports whether an executor's consumer is not there, so that
// its calls would wait for nobody.
func (d Difference) MissingConsumer() bool { return d.Field == "" && strings.Contains(d.Name, "/") }

// compare lists the fields in which two settings differ, by their JSON, sorted
// by field. A field that one side leaves out counts as its zero value.
func compare(name string, want, got any) ([]Difference, error) {
	w, err := fields(want)
	if err != nil {
		return nil, err
	}
	g, err := fields(got)
	if err != nil {
		return nil, err
	}
	var names []string
	for field := range w {
		names = append(names, field)
	}
	for field := range g {
		if _, both := w[field]; !both {
			names = append(names, field)
		}
	}
	slices.Sort(names)
	var differences []Difference
	for _, field := range names {
		if !reflect.DeepEqual(w[field], g[field]) && !(empty(w[field]) && empty(g[field])) {
			differences = append(differences, Difference{Name: name, Field: field, Want: text(w[field]), Got: text(g[field])})
		}
	}
	return differences, nil
}

// fields gives a setting's JSON fields without those that say nothing.
func fields(setting any) (map[string]any, error) {
	encoded, err := json.Marshal(setting)
	if err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	var all map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(encoded)))
	decoder.UseNumber() // ages in nanoseconds do not fit a float
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	for field, value := range all {
		if empty(value) {
			delete(all, field)
		}
	}
	return all, nil
}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == "" || v == "0001-01-01T00:00:00Z" // a zero time, as the server writes it
	case json.Number:
		return v == "0"
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, inner := range v {
			if !empty(inner) {
				return false
			}
		}
		return true
	}
	return false
}

func text(value any) string {
	if value == nil {
		return "unset"
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	// Subjects hold > and &; JSON would escape them.
	return strings.NewReplacer(`\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(string(encoded))
}

// plainStream takes out of a stream's settings what the server adds by itself:
// its own metadata.
func plainStream(config jetstream.StreamConfig) jetstream.StreamConfig {
	config.Metadata = plainMetadata(config.Metadata)
	return config
}

func plainConsumer(config jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	config.Metadata = plainMetadata(config.Metadata)
	return config
}

func plainMetadata(metadata map[string]string) map[string]string {
	var plain map[string]string
	for key, value := range metadata {
		if strings.HasPrefix(key, "_nats.") {
			continue
		}
		if plain == nil {
			plain = map[string]string{}
		}
		plain[key] = value
	}
	return plain
}

// bucketStream is the stream that a bucket is, so that buckets are compared and
// updated like streams. The shape is that of nats.go's own buckets (NATS ADR-8).
func bucketStream(config jetstream.KeyValueConfig) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              "KV_" + config.Bucket,
		Description:       config.Description,
		Subjects:          []string{"$KV." + config.Bucket + ".>"},
		MaxMsgsPerSubject: int64(max(config.History, 1)),
		MaxBytes:          orUnlimited(config.MaxBytes),
		MaxAge:            config.TTL,
		MaxMsgSize:        orUnlimited(config.MaxValueSize),
		MaxMsgs:           -1,
		MaxConsumers:      -1,
		Storage:           config.Storage,
		Replicas:          config.Replicas,
		AllowRollup:       true,
		DenyDelete:        true,
		AllowDirect:       true,
		Discard:           jetstream.DiscardNew,
		Duplicates:        bucketDuplicateWindow,
	}
}

func orUnlimited[N int32 | int64](n N) N {
	if n == 0 {
		return -1
	}
	return n
}
