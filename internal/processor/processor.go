package processor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/policy"
	"runledger/internal/stream"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Settings says what a process serves, on which servers.
type Settings struct {
	Name       string // of this process among all that serve; unique
	JetStream  jetstream.JetStream
	Store      Store
	Policy     []byte // by which new runs start
	PolicyName string // for messages: the file's name
	Prefix     string // of subjects
	Partitions int    // as the streams were made
	LeaseTTL   time.Duration
	Registerer prometheus.Registerer
	Log        zerolog.Logger
}

// Processor serves its share of the partitions.
type Processor struct {
	settings   Settings
	in         string // which IN this is
	worker     Config
	partitions *stream.Partitions
	publisher  *stream.Publisher
	serving    atomic.Int32
}

// New checks policy and streams, keeps the policy where every process finds it,
// and prepares to serve. It refuses streams that are missing or were made for
// another prefix or number of partitions.
func New(ctx context.Context, s Settings) (*Processor, error) {
	subjects, err := events.NewSubjects(s.Prefix)
	if err != nil {
		return nil, err
	}
	current, err := policy.Parse(s.PolicyName, s.Policy)
	if err != nil {
		return nil, err
	}
	if err := checkStreams(ctx, s, policy.Executors(current)); err != nil {
		return nil, err
	}
	if err := checkSizes(current, s.JetStream.Conn().MaxPayload()); err != nil {
		return nil, err
	}
	raw, err := stream.NewPublisher(s.JetStream.Conn(), stream.PublisherConfig{Log: s.Log})
	if err != nil {
		return nil, err
	}
	policies := stream.NewPolicies(s.JetStream, raw)
	if err := policies.Put(ctx, current.Digest, s.Policy); err != nil {
		raw.Close()
		return nil, fmt.Errorf("keep policy %s: %w", s.PolicyName, err)
	}
	in, err := inbound(ctx, s.JetStream)
	if err != nil {
		raw.Close()
		return nil, err
	}
	partitions, err := stream.NewPartitions(s.JetStream, stream.PartitionsConfig{
		Process: s.Name, Count: s.Partitions, Stream: in, LeaseTTL: s.LeaseTTL, Log: s.Log,
	})
	if err != nil {
		raw.Close()
		return nil, err
	}
	cfg := DefaultConfig()
	cfg.Subjects, cfg.Publisher = subjects, NewPublisher(raw)
	cfg.History = stream.NewHistory(s.JetStream, s.Log)
	cfg.Store, cfg.Rulebook = s.Store, NewRulebook(current, policies)
	cfg.Metrics, cfg.Log = NewMetrics(s.Registerer), s.Log
	p := &Processor{settings: s, in: in, worker: cfg, partitions: partitions, publisher: raw}
	if err := cfg.Validate(); err != nil {
		raw.Close()
		return nil, err
	}
	p.registerGauges(s.Registerer)
	return p, nil
}

// envelopeRoom is what a message needs beside the request or result that it
// carries.
const envelopeRoom = 64 << 10

// checkSizes refuses a policy whose calls the server could not carry.
func checkSizes(p *harness.Policy, maxPayload int64) error {
	var errs []error
	for name, size := range map[string]int64{"bytes.request": p.Bytes.Request, "bytes.agent_result": p.Bytes.AgentResult} {
		if size+envelopeRoom > maxPayload {
			errs = append(errs, fmt.Errorf("policy: %s: want at most %d bytes, since the server takes messages of %d and the envelope needs room, got %d; lower it, or raise max_payload of the server",
				name, maxPayload-envelopeRoom, maxPayload, size))
		}
	}
	return errors.Join(errs...)
}

// checkStreams refuses to work on streams that would lead events past it.
func checkStreams(ctx context.Context, s Settings, executors []string) error {
	options := stream.DefaultOptions()
	options.Prefix, options.Partitions, options.Executors = s.Prefix, s.Partitions, executors
	topology, err := stream.LoadTopology(options)
	if err != nil {
		return err
	}
	differences, err := topology.Check(ctx, s.JetStream)
	if err != nil {
		return err
	}
	var blocking []error
	missing := 0
	for _, d := range differences {
		if d.Blocks() {
			blocking = append(blocking, errors.New(d.String()))
		}
		if d.Blocks() && d.Field == "" {
			missing++
		}
	}
	switch {
	case missing > 0 && missing == len(blocking):
		return fmt.Errorf("streams and buckets are missing; make them with \"processor streams apply --policy …\":\n%w", errors.Join(blocking...))
	case len(blocking) > 0:
		return fmt.Errorf("the streams are not those of prefix %q with %d partitions; set subjects.prefix and subjects.partitions to what they were made with, or make others with \"processor streams apply\":\n%w",
			s.Prefix, s.Partitions, errors.Join(blocking...))
	}
	for _, d := range differences {
		if d.MissingConsumer() {
			s.Log.Warn().Str("consumer", d.Name).
				Msg(`an executor of the policy has no consumer: its calls will time out; run "processor streams apply --policy …"`)
		}
	}
	return nil
}

// inbound tells this IN from another of its name; see [stream.Made].
func inbound(ctx context.Context, js jetstream.JetStream) (string, error) {
	in, err := js.Stream(ctx, stream.StreamIn)
	if err != nil {
		return "", fmt.Errorf("look at stream %s: %w", stream.StreamIn, err)
	}
	return stream.Made(in.CachedInfo()), nil
}

func (p *Processor) registerGauges(registerer prometheus.Registerer) {
	registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "runledger", Name: "partitions_owned", Help: "Partitions that this process serves.",
	}, func() float64 { return float64(p.serving.Load()) }))
}

// Serving gives the number of partitions that this process serves now.
func (p *Processor) Serving() int { return int(p.serving.Load()) }

// Held gives the number of partitions whose events wait, because the stream or
// the store does not do what they need.
func (p *Processor) Held() int { return int(p.worker.Held.Load()) }

// Deaf tells whether NATS stores nothing of what this process says, so that it
// works on nothing; see [stream.Partitions.Deaf].
func (p *Processor) Deaf() bool { return p.partitions.Deaf() }

// Run serves until the context ends, then hands its partitions over. What a
// batch had not finished is done by the next owner.
func (p *Processor) Run(ctx context.Context) error {
	defer p.publisher.Close()
	err := p.partitions.Run(ctx, p.serve)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// serve carries one partition until its lease ends.
func (p *Processor) serve(ctx context.Context, lease *stream.Lease) {
	log := p.settings.Log.With().Int("partition", lease.Partition()).Logger()
	p.serving.Add(1)
	defer p.serving.Add(-1)
	log.Debug().Uint64("position", lease.Position()).Msg("partition taken")
	err := p.carry(ctx, lease, log)
	switch {
	case ctx.Err() != nil, errors.Is(err, stream.ErrLeaseLost):
		log.Debug().Msg("partition given up")
	default:
		log.Error().Err(err).Msg("partition stopped; it will be taken again")
		_ = wait(ctx, time.Second) // a lasting fault must not spin
	}
}

func (p *Processor) carry(ctx context.Context, lease *stream.Lease, log zerolog.Logger) error {
	if of := lease.Stream(); of != "" && of != p.in {
		return fmt.Errorf("%w: the position %d counts in the IN of %s, and this one is of %s; restore that, or remove streams, buckets and the prefix of the keys together to begin anew",
			stream.ErrRewound, lease.Position(), of, p.in)
	}
	filter := p.worker.Subjects.Partition(lease.Partition())
	reader, err := stream.OpenReader(ctx, p.settings.JetStream, filter, lease.Position(), stream.ReaderConfig{Made: p.in, Log: log})
	if err != nil {
		return err
	}
	defer reader.Close()
	cfg := p.worker
	cfg.Log = log
	worker, err := NewWorker(cfg)
	if err != nil {
		return err
	}
	return worker.Run(ctx, reader, lease)
}
