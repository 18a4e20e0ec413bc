package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
)

const (
	topicIntents    = "intents"
	topicDispatches = "dispatches"
	topicResults    = "results"
	topicPoison     = "poison"
)

// watermillSubscribers is how many messages of a topic are handled at once.
const watermillSubscribers = 64

// watermillConnections is how many connections to Redis they share.
const watermillConnections = 32

// watermillPeer is a router of Watermill over JetStream and Redis, in one of
// two forms. The lean one stores two messages a call and writes to Redis once:
//
//	intents → decide (deduplicated) and execute → results → settle
//
// With dispatch it has runledger's stages, three messages and three writes:
//
//	intents → decide (deduplicated) → dispatches → execute (deduplicated)
//	→ results → settle (the record is written)
type watermillPeer struct {
	ledger   *ledger
	nats     string // URL
	logger   watermill.LoggerAdapter
	redis    *redis.Client
	intents  message.Publisher
	poison   message.Publisher
	router   *message.Router
	stopped  chan error // takes how the router ended, once
	inspects *nats.Conn
}

func openWatermill(ctx context.Context, natsURL, redisAddr string, l *ledger, dispatch bool) (peer, error) {
	w := &watermillPeer{
		ledger: l, nats: natsURL, logger: watermill.NopLogger{}, stopped: make(chan error, 1),
		redis: redis.NewClient(&redis.Options{Addr: redisAddr, PoolSize: watermillConnections, MaxRetries: -1}),
	}
	if err := w.start(ctx, dispatch); err != nil {
		return nil, errors.Join(err, w.close(ctx))
	}
	return w, nil
}

func (w *watermillPeer) start(ctx context.Context, dispatch bool) (err error) {
	if w.inspects, err = nats.Connect(w.nats); err != nil {
		return err
	}
	if w.intents, err = w.publisher(); err != nil {
		return err
	}
	if w.poison, err = w.publisher(); err != nil {
		return err
	}
	if err := w.createPoisonStream(ctx); err != nil {
		return err
	}
	if w.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, w.logger); err != nil {
		return err
	}
	poisoned, err := middleware.PoisonQueue(w.poison, topicPoison)
	if err != nil {
		return err
	}
	w.router.AddMiddleware(poisoned)
	if dispatch {
		err = w.addDispatched()
	} else {
		err = w.addLean()
	}
	if err != nil {
		return err
	}
	// Inside deduplication: a retry of a message is not its duplicate.
	w.router.AddMiddleware(
		middleware.Retry{MaxRetries: 3, InitialInterval: 100 * time.Millisecond, MaxInterval: time.Second, Multiplier: 2}.Middleware,
		middleware.Recoverer,
	)
	go func() { w.stopped <- w.router.Run(context.WithoutCancel(ctx)) }()
	select {
	case <-w.router.Running():
		return nil
	case err := <-w.stopped:
		w.stopped <- err // for close
		return fmt.Errorf("watermill: the router ended: %w", err)
	}
}

// addLean decides and executes in one handler.
func (w *watermillPeer) addLean() error {
	decide, err := w.handler("decide", topicIntents, topicResults, func(m *message.Message) ([]*message.Message, error) {
		i, err := decide(m.Payload)
		if err != nil {
			return nil, err
		}
		return w.execute(callID(i.Call))
	})
	if err != nil {
		return err
	}
	decide.AddMiddleware(w.deduplicated("decided"))
	return w.settleHandler(func(context.Context, *message.Message) error { return nil })
}

// addDispatched decides, executes and records in three handlers.
func (w *watermillPeer) addDispatched() error {
	decide, err := w.handler("decide", topicIntents, topicDispatches, func(m *message.Message) ([]*message.Message, error) {
		i, err := decide(m.Payload)
		if err != nil {
			return nil, err
		}
		return message.Messages{message.NewMessage(callID(i.Call), message.Payload(i.Arguments))}, nil
	})
	if err != nil {
		return err
	}
	decide.AddMiddleware(w.deduplicated("decided"))
	execute, err := w.handler("execute", topicDispatches, topicResults, func(m *message.Message) ([]*message.Message, error) {
		return w.execute(m.UUID)
	})
	if err != nil {
		return err
	}
	execute.AddMiddleware(w.deduplicated("claimed"))
	return w.settleHandler(func(ctx context.Context, m *message.Message) error {
		return w.redis.Set(ctx, "record:"+m.UUID, []byte(m.Payload), recordAge).Err()
	})
}

func (w *watermillPeer) execute(id string) ([]*message.Message, error) {
	call, err := callOf(id)
	if err != nil {
		return nil, err
	}
	if err := w.ledger.execute(call); err != nil {
		return nil, err
	}
	return message.Messages{message.NewMessage(id, runTool())}, nil
}

func (w *watermillPeer) settleHandler(record func(context.Context, *message.Message) error) error {
	results, err := w.subscriber("settle")
	if err != nil {
		return err
	}
	w.router.AddConsumerHandler("settle", topicResults, results, func(m *message.Message) error {
		call, err := callOf(m.UUID)
		if err != nil {
			return err
		}
		if err := record(m.Context(), m); err != nil {
			return err
		}
		return w.ledger.settle(call)
	})
	return nil
}

func (w *watermillPeer) handler(name, from, to string, handle message.HandlerFunc) (*message.Handler, error) {
	subscriber, err := w.subscriber(name)
	if err != nil {
		return nil, err
	}
	publisher, err := w.publisher()
	if err != nil {
		return nil, err
	}
	// Its stream has to stand before the first message is published to it.
	if err := subscriber.SubscribeInitialize(to); err != nil {
		return nil, err
	}
	return w.router.AddHandler(name, from, subscriber, to, publisher, handle), nil
}

// jetStreamConfig is the one that Watermill's documentation names for exactly
// once delivery: message ids, and acknowledgements that wait for the server's.
func jetStreamConfig() wmnats.JetStreamConfig {
	return wmnats.JetStreamConfig{TrackMsgId: true, AckAsync: false}
}

// publisher does not look for the stream before each message (AutoProvision),
// which would double its cost: the subscribers make the streams.
func (w *watermillPeer) publisher() (*wmnats.Publisher, error) {
	p, err := wmnats.NewPublisher(wmnats.PublisherConfig{URL: w.nats, JetStream: jetStreamConfig()}, w.logger)
	if err != nil {
		return nil, fmt.Errorf("watermill: publisher: %w", err)
	}
	return p, nil
}

func (w *watermillPeer) subscriber(name string) (*wmnats.Subscriber, error) {
	js := jetStreamConfig()
	js.AutoProvision = true
	js.DurablePrefix = name
	// Without ManualAck the client would acknowledge what the handler refused.
	js.SubscribeOptions = []nats.SubOpt{nats.DeliverAll(), nats.AckExplicit(), nats.ManualAck(), nats.MaxAckPending(10_000)}
	s, err := wmnats.NewSubscriber(wmnats.SubscriberConfig{
		URL: w.nats, QueueGroupPrefix: name, SubscribersCount: watermillSubscribers,
		AckWaitTimeout: 30 * time.Second, CloseTimeout: 10 * time.Second, JetStream: js,
	}, w.logger)
	if err != nil {
		return nil, fmt.Errorf("watermill: subscriber %s: %w", name, err)
	}
	return s, nil
}

func (w *watermillPeer) createPoisonStream(ctx context.Context) error {
	js, err := jetstream.New(w.inspects)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: topicPoison, Subjects: []string{topicPoison}})
	return err
}

// deduplicated drops what a handler has begun before, by the call.
func (w *watermillPeer) deduplicated(stage string) message.HandlerMiddleware {
	d := middleware.Deduplicator{
		KeyFactory: func(m *message.Message) (string, error) { return m.UUID, nil },
		Repository: seen{redis: w.redis, prefix: stage + ":"},
		Timeout:    10 * time.Second,
	}
	return d.Middleware
}

// seen is Watermill's ExpiringKeyRepository on Redis, which its documentation
// says to write where deduplication has to hold across processes.
type seen struct {
	redis  *redis.Client
	prefix string
}

func (s seen) IsDuplicate(ctx context.Context, key string) (bool, error) {
	_, err := s.redis.SetArgs(ctx, s.prefix+key, "", redis.SetArgs{Mode: "NX", TTL: recordAge}).Result()
	if errors.Is(err, redis.Nil) {
		return true, nil
	}
	return false, err
}

func (w *watermillPeer) take(ctx context.Context) error {
	call, done := w.ledger.intend()
	if err := w.intents.Publish(topicIntents, message.NewMessage(callID(call), encodeIntent(call))); err != nil {
		return err
	}
	return settled(ctx, done)
}

// completed counts what the results' consumer has acknowledged. A message in
// the poison queue is an error.
func (w *watermillPeer) completed(ctx context.Context) (int, error) {
	js, err := jetstream.New(w.inspects)
	if err != nil {
		return 0, err
	}
	poison, err := js.Stream(ctx, topicPoison)
	if err != nil {
		return 0, err
	}
	if n := poison.CachedInfo().State.Msgs; n > 0 {
		return 0, fmt.Errorf("%d messages are in the poison queue, want none", n)
	}
	results, err := js.Stream(ctx, topicResults)
	if err != nil {
		return 0, err
	}
	consumer, err := results.PushConsumer(ctx, "settle")
	if err != nil {
		return 0, err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return 0, err
	}
	return int(info.AckFloor.Stream), nil
}

func (w *watermillPeer) close(context.Context) error {
	var errs []error
	if w.router != nil && w.router.IsRunning() {
		errs = append(errs, w.router.Close(), <-w.stopped)
	}
	for _, p := range []message.Publisher{w.intents, w.poison} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	if w.inspects != nil {
		w.inspects.Close()
	}
	return errors.Join(append(errs, w.redis.Close())...)
}
