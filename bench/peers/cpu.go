package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// clockTick is the unit in which Linux counts the CPU time of a process, in
// seconds (USER_HZ, which is 100 on every architecture that Go runs on).
const clockTick = 0.01

// CPU is CPU time by process, in seconds.
type CPU struct {
	Peer  float64 `json:"peer"` // with the load, and with its server where that is inside it
	NATS  float64 `json:"nats_server"`
	Redis float64 `json:"redis_server"`
}

// pids are the processes of one measurement; 0 is none.
type pids struct{ peer, nats, redis int }

// used is what these processes have used since they started.
func (p pids) used() CPU {
	return CPU{Peer: cpuSeconds(p.peer), NATS: cpuSeconds(p.nats), Redis: cpuSeconds(p.redis)}
}

func (c CPU) minus(earlier CPU) CPU {
	return CPU{Peer: c.Peer - earlier.Peer, NATS: c.NATS - earlier.NATS, Redis: c.Redis - earlier.Redis}
}

func (c CPU) times(factor float64) CPU {
	return CPU{Peer: c.Peer * factor, NATS: c.NATS * factor, Redis: c.Redis * factor}
}

// cpuSeconds is the CPU time of a process in user and system mode, 0 where the
// system has no /proc to tell it.
func cpuSeconds(pid int) float64 {
	if pid == 0 {
		return 0
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return cpuOf(string(data))
}

// cpuOf reads fields 14 and 15 of /proc/<pid>/stat (proc(5)). The name, field
// 2, stands in parentheses and may hold anything, so counting begins after it.
func cpuOf(stat string) float64 {
	_, rest, ok := cutLast(stat, ")")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0
	}
	var ticks float64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0
		}
		ticks += float64(n)
	}
	return ticks * clockTick
}

func cutLast(s, separator string) (before, after string, found bool) {
	at := strings.LastIndex(s, separator)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(separator):], true
}
