// Package sim runs the real worker and the real core over a simulated stream,
// store and clock, driven by a seed, with faults: lost answers, crashes between
// any two steps, stalled owners that wake up, store outages and lost writes,
// ticks late, twice and lost, executors that die.
//
// [Run] plays one seed and judges what the streams hold at the end by a checker
// that shares no rules with the core. The same seed always plays the same.
package sim
