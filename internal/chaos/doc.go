// Package chaos breaks servers, processors, networks and disks under load, with
// real processes, and has what came of it counted from the streams by the
// checker in internal/audit, which shares nothing with what it judges.
//
// The tests take minutes, so they are compiled only with the build tag "chaos":
// `make chaos` runs all of them and prints a table, `make chaos SHORT=1` the
// few that fit into CI, `make soak MINUTES=30` plays random faults for so long
// and watches what grows.
//
// A test is a fault under load: the recorded runs are played before it, round
// after round while it lasts, and for a round afterwards. Each round has to come
// out as the recording did, unless the fault itself makes another outcome right.
// Work has to go on within a bound from the fault's end, and goroutines,
// connections, keys and consumers have to come back to where they were.
package chaos
