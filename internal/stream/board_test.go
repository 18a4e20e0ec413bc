package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

var boardConfig = PartitionsConfig{Process: "p2", Count: 16, LeaseTTL: 3 * time.Second, Heartbeat: time.Second}

// boardAt is a board of process p2 with generation 100, and its clock's zero.
func boardAt() (*board, time.Time) {
	return newBoard(boardConfig, "i2", 100), time.Unix(1000, 0)
}

func show(t *testing.T, b *board, now time.Time, sequence uint64, key, value string) {
	t.Helper()
	m := Message{Subject: "$KV.PARTITIONS." + key, Sequence: sequence, Data: []byte(value)}
	if value == "" {
		m.Header = nats.Header{"KV-Operation": {"DEL"}}
	}
	if superseded, err := b.see(m, now); superseded || err != nil {
		t.Fatalf("%s %s: superseded %v, %v", key, value, superseded, err)
	}
}

func lease(owner string, generation uint64) string {
	return fmt.Sprintf(`{"owner":%q,"generation":%d,"position":7}`, owner, generation)
}

func TestBoardGivesEachMemberItsShare(t *testing.T) {
	for others, want := range map[string]int{
		"":                                    16,
		"p1":                                  8,
		"p1 p3":                               5, // 6, 5, 5 by name
		"p3 p4":                               6,
		"p1 p3 p4 p5 p6 p7 p8 p9 pa pb pc pd": 2, // 13 members: the first three have two
		"a b p1 p3 p4 p5 p6 p7 p8 p9 pa pb":   1, // 13 members, p2 the fourth of them
		"a b c d e f g h i j k l m n o pa pb": 1, // 18 members: the first 16 have one
		"a b c d e f g h i j k l m n o oo":    0,
	} {
		b, now := boardAt()
		for i, name := range strings.Fields(others) {
			show(t, b, now, uint64(i+1), "member."+name, `{"instance":"x"}`)
		}
		if got := len(b.plan(now).take); got != want {
			t.Errorf("with %q: takes %d, want %d", others, got, want)
		}
	}
}

func TestBoardTakesOnlyWhatIsFreeExpiredOrItsOwnFromBefore(t *testing.T) {
	b, now := boardAt()
	for p := range 16 {
		show(t, b, now, uint64(p+1), fmt.Sprintf("lease.%d", p), lease("p9", 1))
	}
	show(t, b, now, 20, "lease.3", lease("", 0))
	show(t, b, now, 21, "lease.4", lease("p2", 50)) // an earlier p2
	if got := b.plan(now).take; !slices.Equal(got, []int{3, 4}) {
		t.Errorf("at once: takes %v, want 3 and 4", got)
	}
	later := now.Add(2 * time.Second)
	show(t, b, later, 22, "lease.5", lease("p9", 1)) // renewed
	if got := b.plan(now.Add(2999 * time.Millisecond)).take; !slices.Equal(got, []int{3, 4}) {
		t.Errorf("just before the TTL: takes %v, want 3 and 4", got)
	}
	if got := b.plan(now.Add(3 * time.Second)).take; len(got) != 15 || slices.Contains(got, 5) {
		t.Errorf("after the TTL: takes %v, want all but 5", got)
	}
}

func TestBoardGivesUpWhatIsAboveItsShareOnceTheMembersHaveSettled(t *testing.T) {
	b, now := boardAt()
	for p := range 16 {
		b.held[p] = true
	}
	if p := b.plan(now); len(p.give)+len(p.take) != 0 {
		t.Errorf("alone: got %+v, want nothing to do", p)
	}
	show(t, b, now, 101, "member.p1", `{"instance":"x"}`)
	if p := b.plan(now); len(p.give) != 0 {
		t.Errorf("at once: gives %v, want to wait", p.give)
	}
	now = now.Add(time.Second)
	show(t, b, now, 102, "member.p1", `{"instance":"x"}`)
	if p := b.plan(now); len(p.give) != 8 {
		t.Errorf("settled: gives %v, want 8", p.give)
	}
}

func TestBoardForgetsAMemberThatIsSilentForTheTTLOrLeft(t *testing.T) {
	b, now := boardAt()
	show(t, b, now, 101, "member.p1", `{"instance":"x"}`)
	show(t, b, now, 102, "member.p3", `{"instance":"x"}`)
	b.plan(now)
	if got := strings.Join(b.live, " "); got != "p1 p2 p3" {
		t.Errorf("live: got %q, want p1 p2 p3", got)
	}
	show(t, b, now, 103, "member.p3", "")
	show(t, b, now, 102, "member.p3", `{"instance":"x"}`) // older than its leaving
	b.plan(now)
	if got := strings.Join(b.live, " "); got != "p1 p2" {
		t.Errorf("after p3 left: got %q, want p1 p2", got)
	}
	b.plan(now.Add(3 * time.Second))
	if got := strings.Join(b.live, " "); got != "p2" {
		t.Errorf("after the TTL: got %q, want p2", got)
	}
	if got := b.forget(now.Add(9 * time.Minute)); len(got) != 0 {
		t.Errorf("after 9 min: removes %v, want none", got)
	}
	if got := b.forget(now.Add(10 * time.Minute)); !slices.Equal(got, []string{"p1", "p3"}) {
		t.Errorf("after 10 min: removes %v, want p1 and p3", got)
	}
	if got := b.forget(now.Add(10 * time.Minute)); len(got) != 0 {
		t.Errorf("again: removes %v, want none", got)
	}
}

func TestBoardCountsSilenceAnewAfterNotHearing(t *testing.T) {
	b, now := boardAt()
	show(t, b, now, 101, "member.p1", `{"instance":"x"}`)
	show(t, b, now, 102, "lease.0", lease("p1", 1))
	now = now.Add(time.Minute)
	b.refresh(now)
	if p := b.plan(now); len(b.live) != 2 || slices.Contains(p.take, 0) {
		t.Errorf("live %v, takes %v, want p1 alive and its lease left alone", b.live, p.take)
	}
}

func TestBoardGivesBackWhatItDoesNotWorkOn(t *testing.T) {
	b, now := boardAt()
	show(t, b, now, 1, "member.p1", `{"instance":"x"}`)
	for p := range 8 {
		b.held[p] = true
	}
	show(t, b, now, 101, "lease.12", lease("p2", 100))
	if p := b.plan(now); !slices.Equal(p.free, []int{12}) || len(p.take) != 0 {
		t.Errorf("got %+v, want lease 12 freed", p)
	}
	show(t, b, now, 102, "lease.12", lease("p2", 99))
	if p := b.plan(now); !slices.Equal(p.free, []int{12}) {
		t.Errorf("got %+v, want lease 12 of the process before this one freed: it is dead, and the others wait for it", p)
	}
	show(t, b, now, 103, "lease.12", lease("p2", 101))
	if p := b.plan(now); len(p.free) != 0 {
		t.Errorf("got %+v, want the lease of a younger process left alone", p)
	}
}

func TestBoardKnowsAYoungerProcessOfItsNameAndItsOwnLateHeartbeat(t *testing.T) {
	b, now := boardAt()
	beat := func(sequence uint64, value string) bool {
		superseded, err := b.see(Message{Subject: "$KV.PARTITIONS.member.p2", Sequence: sequence, Data: []byte(value)}, now)
		if err != nil {
			t.Fatal(err)
		}
		return superseded
	}
	if beat(101, `{"generation":40,"instance":"older"}`) {
		t.Error("superseded by an older process")
	}
	if beat(102, `{"instance":"i2"}`) {
		t.Error("superseded by its own first heartbeat, stored late")
	}
	if !beat(103, `{"instance":"younger"}`) {
		t.Error("not superseded by a younger process")
	}
}

func TestBoardRefusesALeaseThatCannotBeRead(t *testing.T) {
	b, now := boardAt()
	for key, value := range map[string]string{"lease.3": "{", "member.p1": "["} {
		if _, err := b.see(Message{Subject: "$KV.PARTITIONS." + key, Sequence: 101, Data: []byte(value)}, now); err == nil {
			t.Errorf("%s %s was taken", key, value)
		}
	}
}

func TestBoardPassesOverALeaseOfAPartitionThatIsNotThere(t *testing.T) {
	b, now := boardAt()
	for _, key := range []string{"lease.16", "lease.x", "lease.-1"} {
		if _, err := b.see(Message{Subject: "$KV.PARTITIONS." + key, Sequence: 101, Data: []byte(lease("p1", 1))}, now); err != nil {
			t.Errorf("%s: %v; one stray key must not stop every process", key, err)
		}
	}
}
