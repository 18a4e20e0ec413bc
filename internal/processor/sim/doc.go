// Package sim runs the real worker and the real core over simulated streams, a
// simulated store and simulated clocks, driven by a seed, with faults: lost
// answers, crashes between any two steps, owners of a partition that are
// overtaken and wake up, store outages and lost writes, clocks that are off and
// jump, ticks late, twice and lost, executors that die.
//
// [Simulator.Play] plays one seed. Whatever happens is told to a judge (see
// package judge), which shares no code with what it judges and says at once what
// must not be. The same seed always plays the same.
//
//	world      the streams, the store, the clock, and one step after the other
//	processes  workers that hold partitions by lease
//	ports      what one worker sees of the world; here it is stalled, crashed, cut off
//	actors     agents, operators, executors, schedules
//	view       what the store has, in the words of the judge
//
// The faults folder holds deliberate faults in the code under test, and holds
// the simulation to finding each of them.
package sim
