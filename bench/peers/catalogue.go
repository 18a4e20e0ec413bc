package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// The tools.
const (
	toolRunledger = "runledger"
	toolWatermill = "watermill"
	toolAsynq     = "asynq"
	toolTemporal  = "temporal"
)

// place is where a peer finds its servers and keeps its files.
type place struct {
	NATS, Redis, Dir string // URL, host:port, folder; the first two are "" for who needs none

	pids pids
}

// spec is a peer that can be measured.
type spec struct {
	Name, Tool string
	What       string // what a call is, for people
	Settings   string
	Durability string // of what is acknowledged
	NATS       bool   // it needs a nats-server
	Redis      bool   // it needs a redis-server
	InFlight   int    // takes at once; where throughput has stopped rising
	Open       func(context.Context, place, *ledger) (peer, error)
}

const (
	onNATSAndRedis = "JetStream on file, sync_interval default (2 min); Redis AOF everysec"
	onRedis        = "Redis AOF everysec"
	onSQLite       = "SQLite on file, WAL, synchronous=normal (no fsync per commit)"
)

// catalogue is all peers, in the order in which they are measured.
func catalogue() []spec {
	temporalPeer := func(name, what string, inFlight int, form temporalForm) spec {
		return spec{
			Name: name, Tool: toolTemporal, What: what, Durability: onSQLite, InFlight: inFlight,
			Settings: fmt.Sprintf("%d in flight; %d history shard, 1 task queue partition, rate limits lifted; 1 worker, autoscaled pollers, eager activities, 1 attempt",
				inFlight, temporalShards),
			Open: func(ctx context.Context, at place, l *ledger) (peer, error) {
				return openTemporal(ctx, at.Dir, l, form)
			},
		}
	}
	watermillPeer := func(name, what string, dispatch bool) spec {
		const inFlight = 256
		return spec{
			Name: name, Tool: toolWatermill, What: what, Durability: onNATSAndRedis, NATS: true, Redis: true, InFlight: inFlight,
			Settings: fmt.Sprintf("%d in flight; %d subscribers a topic; message ids, synchronous acks; deduplicator on Redis, retry, poison queue",
				inFlight, watermillSubscribers),
			Open: func(ctx context.Context, at place, l *ledger) (peer, error) {
				return openWatermill(ctx, at.NATS, at.Redis, l, dispatch)
			},
		}
	}
	asynqPeer := func(name, what string, readBack bool) spec {
		const inFlight = 512
		return spec{
			Name: name, Tool: toolAsynq, What: what, Durability: onRedis, Redis: true, InFlight: inFlight,
			Settings: fmt.Sprintf("%d in flight; %d servers of %d workers; task id of the call, retention, no retry",
				inFlight, asynqServers, asynqConcurrency),
			Open: func(_ context.Context, at place, l *ledger) (peer, error) { return openAsynq(at.Redis, l, readBack) },
		}
	}
	return []spec{
		watermillPeer("watermill", "2 stored messages, 1 Redis write", false),
		watermillPeer("watermill-dispatch", "3 stored messages, 3 Redis writes", true),
		asynqPeer("asynq", "1 task, result stored with it", false),
		asynqPeer("asynq-read", "1 task, result read back by the agent", true),
		temporalPeer("temporal-activities", fmt.Sprintf("1 of %d activities of a workflow, %d at once", runSteps*runWidth, runWidth), 16, callActivities),
		temporalPeer("temporal-workflows", "1 workflow of 1 activity", 32, callWorkflows),
		temporalPeer("temporal-standalone", "1 activity without a workflow", 32, callStandalone),
	}
}

// choose picks the peers that a list with commas names, by name or by tool.
func choose(only string) ([]spec, error) {
	all := catalogue()
	if only == "" {
		return all, nil
	}
	chosen := make(map[string]bool)
	for name := range strings.SplitSeq(only, ",") {
		known := false
		for _, s := range all {
			if name == s.Name || name == s.Tool {
				chosen[s.Name], known = true, true
			}
		}
		if !known {
			return nil, fmt.Errorf("--only names %q, want some of %s, %s, %s or a peer's own name", name, toolWatermill, toolAsynq, toolTemporal)
		}
	}
	return slices.DeleteFunc(all, func(s spec) bool { return !chosen[s.Name] }), nil
}

// specOf is the peer with that very name.
func specOf(name string) (spec, error) {
	for _, s := range catalogue() {
		if s.Name == name {
			return s, nil
		}
	}
	return spec{}, fmt.Errorf("no peer has the name %q", name)
}
