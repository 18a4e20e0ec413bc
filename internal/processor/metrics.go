package processor

import (
	"time"

	"runledger/internal/events"
	"runledger/internal/harness"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics of all workers of a process. Labels are closed sets: kinds of fact,
// codes and reasons; nothing that an agent chooses.
type Metrics struct {
	events      prometheus.Counter
	facts       *prometheus.CounterVec // by fact, code
	deadLetters *prometheus.CounterVec // by reason
	dispatches  prometheus.Counter
	held        prometheus.Counter
	reloads     prometheus.Counter
	catchUps    prometheus.Counter
	rebuilds    prometheus.Counter
	conflicts   prometheus.Counter
	batchSize   prometheus.Histogram
	batchTime   prometheus.Histogram
	lag         prometheus.Histogram
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	f := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Namespace: "runledger", Name: name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return f.NewHistogram(prometheus.HistogramOpts{Namespace: "runledger", Name: name, Help: help, Buckets: buckets})
	}
	seconds := prometheus.ExponentialBuckets(0.0005, 2, 16)
	m := &Metrics{
		events:      counter("events_total", "Inbound events carried through."),
		facts:       f.NewCounterVec(prometheus.CounterOpts{Namespace: "runledger", Name: "facts_total", Help: "Facts stored, by kind and code."}, []string{"fact", "code"}),
		deadLetters: f.NewCounterVec(prometheus.CounterOpts{Namespace: "runledger", Name: "dead_letters_total", Help: "Events kept under invalid, by reason."}, []string{"reason"}),
		dispatches:  counter("dispatches_total", "Calls handed to executors."),
		held:        counter("batches_held_total", "Batches that failed and were tried again."),
		reloads:     counter("run_reloads_total", "Runs dropped and loaded again because something else had moved them or the store."),
		catchUps:    counter("run_catch_ups_total", "Runs that were behind their facts in the stream when loaded."),
		rebuilds:    counter("run_rebuilds_total", "Runs projected again because the store had lost writes."),
		conflicts:   counter("store_conflicts_total", "Runs whose keys in the store hold something else."),
		batchSize:   histogram("batch_events", "Events in a batch.", prometheus.ExponentialBuckets(1, 2, 10)),
		batchTime:   histogram("batch_seconds", "Time that a batch took.", seconds),
		lag:         histogram("event_lag_seconds", "Age of the oldest event of a batch when it was begun.", seconds),
	}
	m.beginAtZero()
	return m
}

// beginAtZero makes every series that can be foreseen, so that an alert on an
// increase sees the first event of its kind.
func (m *Metrics) beginAtZero() {
	for _, reason := range deadLetterReasons() {
		m.deadLetters.WithLabelValues(string(reason))
	}
	for kind, codes := range factSeries() {
		for _, code := range codes {
			m.facts.WithLabelValues(string(kind), string(code))
		}
	}
}

// deadLetterReasons is the closed set of harness.Reason.
func deadLetterReasons() []harness.Reason {
	return []harness.Reason{
		harness.ReasonUndecodable, harness.ReasonInvalidData, harness.ReasonUnknownRun, harness.ReasonUnknownCall,
		harness.ReasonForeignExecutor, harness.ReasonRunMismatch, harness.ReasonExpiredCall, harness.ReasonLateAgain,
		harness.ReasonRefusedCancel, harness.ReasonStoreConflict, harness.ReasonBrokenInvariant,
	}
}

// factSeries gives for each kind of fact what stands behind it as code: none,
// the codes of its refusals, the reasons of a release, or the outcomes of a run.
func factSeries() map[events.Kind][]events.Code {
	plain := []events.Code{""}
	return map[events.Kind][]events.Code{
		events.KindRunStarted:       plain,
		events.KindToolReserved:     plain,
		events.KindToolLate:         plain,
		events.KindModelGranted:     plain,
		events.KindModelRecorded:    plain,
		events.KindProgressAccepted: plain,
		events.KindRunReleased:      {events.Code(events.ReleaseProtocolViolated), events.Code(events.ReleaseStalled)},
		events.KindRunEnding:        plain,
		events.KindRunProgress:      plain,
		events.KindModelRejected: {
			events.CodeInvalidEnvelope, events.CodeRunMismatch, events.CodeRunNotFound, events.CodeRunNotOwned, events.CodeRunNotActive,
			events.CodeDeadlineExceeded, events.CodeRunReleased, events.CodeRetryNotAllowed, events.CodeAttemptNotOpen,
			events.CodeBudgetExhausted, events.CodeInternal,
		},
		events.KindProgressInvalid: {
			events.InvalidProgressProtocol, events.CodeRunMismatch, events.CodeRunNotFound, events.CodeRunNotOwned,
			events.CodeRunNotActive, events.CodeDeadlineExceeded, events.CodeInvalidEnvelope, events.CodeInternal,
		},
		events.KindRunRejected: {
			events.CodeInvalidEnvelope, events.CodeRunMismatch, events.CodeRunNotFound, events.CodeRunNotOwned, events.CodeRunNotActive,
			events.CodeRunExists, events.CodeInvalidIdentity, events.CodeInvalidLimits, events.CodeInvalidDeadline, events.CodeInternal,
		},
		events.KindToolRejected: {
			events.CodeInvalidEnvelope, events.CodeInvalidToolCallID, events.CodeRunMismatch, events.CodeRunNotFound, events.CodeRunNotOwned,
			events.CodeInvalidInput, events.CodeRequestTooLarge, events.CodeToolNotFound, events.CodeUnauthorized, events.CodeNotReadOnly,
			events.CodeRunNotActive, events.CodeDeadlineExceeded, events.CodeRunReleased, events.CodeDuplicateToolCall, events.CodeBudgetExhausted, events.CodeInternal,
		},
		events.KindToolSettled: {
			"", events.CodeToolExecutionFailed, events.CodeToolTimeout, events.CodeResultTooLarge, events.CodeProjectionFailed,
			events.CodeRunTerminated, events.CodeBudgetExhausted,
		},
		events.KindRunTerminated: {
			events.Code(events.OutcomeSuccess), events.Code(events.OutcomeFailed), events.Code(events.OutcomeCancelled),
			events.Code(events.OutcomeTimedOut), events.Code(events.OutcomeBudgetExhausted),
		},
	}
}

// stored counts what the stream has taken.
func (m *Metrics) stored(p *publication) {
	switch {
	case p.fact != nil:
		m.facts.WithLabelValues(string(p.fact.Kind()), string(codeOf(p.fact.Payload))).Inc()
	case p.dispatched != "":
		m.dispatches.Inc()
	default:
		m.deadLetters.WithLabelValues(string(p.reason)).Inc()
	}
}

func codeOf(payload events.Payload) events.Code {
	switch p := payload.(type) {
	case *events.ToolRejected:
		return p.Code
	case *events.RunRejected:
		return p.Code
	case *events.ModelRejected:
		return p.Code
	case *events.ProgressInvalid:
		return events.Code(p.Code)
	case *events.RunReleased:
		return events.Code(p.Reason)
	case *events.ToolSettled:
		return p.Code
	case *events.RunTerminated:
		return events.Code(p.Outcome)
	}
	return ""
}

func (m *Metrics) batch(size int, took, lag time.Duration) {
	m.events.Add(float64(size))
	m.batchSize.Observe(float64(size))
	m.batchTime.Observe(took.Seconds())
	m.lag.Observe(lag.Seconds())
}
