// Package bench measures what a processor does and costs, beside a floor: a
// bare loop that makes the same reads, publishes and Redis writes with no logic.
//
// Everything that is measured is a process of its own, started from one program
// (see [Config]): nats-server, redis-server, one or more processors or the
// floor, and the load, which stands for all agents and executors.
//
//	load ──intents──▶ IN ──▶ processor or floor ──facts──▶ RUNS ──▶ load
//	  ▲                               └──calls──▶ DISPATCH ──▶ load (claims)
//	  └───────────────── results ◀────────────────────────────────┘
//
// A whole call is: intent published, tool.reserved read back, dispatch read,
// claim created, result published, tool.settled read back. The load is the same
// for both, so what differs between two figures is the processor and the floor.
//
// What the floor writes is not guessed at: before it runs, a few calls are sent
// through a processor, and the messages that it stores and the commands that
// change Redis are recorded (see recipe). The floor plays them for every call,
// with the run, the call and the sequences put in. So it makes the same number
// of writes of the same size, whatever the processor's layouts become.
//
// Processor and floor alternate over several rounds, on fresh servers each time,
// and medians of the rounds are told. Latencies are measured with an open loop:
// calls arrive by a schedule, whatever became of the ones before, and count from
// the scheduled instant, so that a stall counts for every call that it delays.
package bench
