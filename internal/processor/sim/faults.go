package sim

import (
	"fmt"
	"strings"
)

// Faults are the chances, per step or call, of what goes wrong.
type Faults struct {
	Crash          float64 // a process dies before a call to the outside
	Stall          float64 // a process halts before a call, and others work meanwhile
	Takeover       float64 // a partition is taken from an owner that lives and goes on for a while
	LostRequest    float64 // a publish is lost, or lands later
	LostReply      float64 // a publish is stored and its answer lost
	StoreError     float64 // a call to the store fails and does nothing
	StoreLostReply float64 // a projection is made and its answer lost
	StoreDown      float64 // the store goes away for a while
	LostWrites     float64 // the store falls back to an earlier state
	Flush          float64 // the store forgets everything
	LostKey        float64 // somebody removes one key of a run: a record, its list, its operations
	LateTick       float64 // a tick comes later, or is lost for long
	TickTwice      float64 // a tick comes twice
	Duplicate      float64 // an event is published twice
	DiesEarly      float64 // an executor dies before its claim
	DiesLate       float64 // an executor dies after its claim
	Redelivery     float64 // an executor is given a dispatch again after its claim
	Skew           float64 // a new process's clock is off by up to a second
	Jump           float64 // the clock of a living process jumps
	TwoPolicies    float64 // a seed has two policies, and processes that begin runs under each
}

// Everything is the faults that a run of many seeds plays.
func Everything() Faults {
	return Faults{
		Crash: 0.005, Stall: 0.02, Takeover: 0.02, LostRequest: 0.01, LostReply: 0.01,
		StoreError: 0.01, StoreLostReply: 0.01, StoreDown: 0.02, LostWrites: 0.02, Flush: 0.01, LostKey: 0.02,
		LateTick: 0.2, TickTwice: 0.05, Duplicate: 0.1, DiesEarly: 0.05, DiesLate: 0.05, Redelivery: 0.1,
		Skew: 0.3, Jump: 0.01, TwoPolicies: 0.3,
	}
}

// Count names something that happened in a simulation.
type Count int

// What is counted.
const (
	Seeds Count = iota
	Steps
	Events
	Facts
	Dispatches
	DeadLetters
	Projections
	Crashes
	Stalls
	Takeovers
	LostPublishes
	StoreErrors
	Outages
	StoreLosses
	LostKeys
	LateTicks
	Jumps
	ExecutorDeaths
	Redeliveries
	kinds
)

func (c Count) String() string {
	return [kinds]string{
		"seeds", "steps", "events", "facts", "dispatches", "dead letters", "projections", "crashes", "stalls", "takeovers",
		"lost publishes", "store errors", "store outages", "store losses", "lost keys", "late ticks", "clock jumps",
		"executor deaths", "redeliveries",
	}[c]
}

// Counts is how often each happened.
type Counts [kinds]int

// Add adds what another simulation counted.
func (c *Counts) Add(more Counts) {
	for i := range c {
		c[i] += more[i]
	}
}

// String gives all counts in one line.
func (c Counts) String() string {
	parts := make([]string, kinds)
	for i, n := range c {
		parts[i] = fmt.Sprintf("%d %s", n, Count(i))
	}
	return strings.Join(parts, ", ")
}
