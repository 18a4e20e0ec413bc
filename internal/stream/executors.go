package stream

import (
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// ExecutorConsumer is the name of the durable consumer on DISPATCH from which
// all processes of one executor take their calls.
func ExecutorConsumer(executor string) string { return "executor-" + executor }

// executorConsumer reads the settings of one executor's consumer. The name was
// validated with the options.
func executorConsumer(executor string, options Options) (jetstream.ConsumerConfig, error) {
	config, err := readFile[jetstream.ConsumerConfig]("consumers/executor.json", options)
	if err != nil {
		return config, err
	}
	config.Durable = ExecutorConsumer(executor)
	config.Name = config.Durable
	config.FilterSubject = strings.Replace(config.FilterSubject, ".NAME.", "."+executor+".", 1)
	return config, nil
}
