package bench

import "time"

// schedule is when calls arrive in an open loop: evenly, whatever became of the
// ones before.
type schedule struct {
	start time.Time
	rate  int // a second
}

// at gives the instant of arrival n, from 0.
func (s schedule) at(n int) time.Time {
	whole, part := n/s.rate, n%s.rate
	return s.start.Add(time.Duration(whole)*time.Second + time.Duration(part)*time.Second/time.Duration(s.rate))
}

// count gives how many arrivals lie before an instant.
func (s schedule) count(until time.Time) int {
	span := until.Sub(s.start)
	if span <= 0 {
		return 0
	}
	whole, part := int(span/time.Second), span%time.Second
	n := whole*s.rate + int(part*time.Duration(s.rate)/time.Second)
	for s.at(n).Before(until) {
		n++
	}
	return n
}
