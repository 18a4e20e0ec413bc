package events_test

import (
	"strings"
	"testing"

	"runledger/internal/events"
)

// wire is the subjects below the default prefix, as every test here uses them.
func wire(tb testing.TB) events.Subjects {
	tb.Helper()
	s, err := events.NewSubjects(events.DefaultPrefix)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestEverySubjectIsBuiltAsTheProtocolWritesIt(t *testing.T) {
	s := wire(t)
	for got, want := range map[string]string{
		s.Agent("alice", "r1", events.VerbToolCall):            "harness.v1.in.agent.alice.r1.tool.call",
		s.Executor("web", "r1"):                                "harness.v1.in.executor.web.r1.tool.result",
		s.Operator("olga", "r1"):                               "harness.v1.in.operator.olga.r1.run.cancel",
		s.Partition(3):                                         "harness.v1.part.3.>",
		s.Fact("alice", "r1", events.KindToolSettled):          "harness.v1.fact.alice.r1.tool.settled",
		s.History("alice", "r1"):                               "harness.v1.fact.alice.r1.>",
		s.HistoryOfAny("r1"):                                   "harness.v1.fact.*.r1.>",
		s.Outside("bob", "r1", events.KindRunRejected, "in-7"): "harness.v1.outside.bob.r1.run.rejected.in-7",
		s.Everything():                                         "harness.v1.>",
		s.Stored():                                             "harness.v1.part.>",
		s.StoredOf("r1")[0]:                                    "harness.v1.part.*.in.*.*.r1.>",
		s.StoredOf("r1")[1]:                                    "harness.v1.part.*.tick.r1",
		s.Told("alice", "*"):                                   "harness.v1.*.alice.*.>",
		s.Timers("r1"):                                         "harness.v1.timer.r1.*",
		s.Republished("alice"):                                 "harness.v1.run.alice.>",
		s.Dispatch("web", "r1", 18446744073709551615):          "harness.v1.dispatch.web.r1.18446744073709551615",
		s.Timer("r1", 1767225600123):                           "harness.v1.timer.r1.1767225600123",
		s.Tick("r1"):                                           "harness.v1.tick.r1",
		s.Invalid(events.RoleAgent, "alice", 9):                "harness.v1.invalid.agent.alice.9",
		events.DispatchID("r1", 2):                             "r1.2",
		events.SchemaURI(events.VerbToolCall.Type()):           "urn:runledger:schema:harness.tool.call.v1",
		events.KindRunTerminated.Type():                        "harness.run.terminated.v1",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestTheSubjectOfAStoredFactIsReadBackAsItWasBuilt(t *testing.T) {
	s := wire(t)
	for subject, want := range map[string]events.FactAddress{
		s.Fact("alice", "r1", events.KindToolSettled):          {Agent: "alice", Run: "r1", Kind: events.KindToolSettled},
		s.Outside("bob", "r1", events.KindRunRejected, "in-7"): {Agent: "bob", Run: "r1", Kind: events.KindRunRejected, OutsideKey: "in-7"},
		"harness.v1.fact.alice.r1.run.paused":                  {Agent: "alice", Run: "r1", Kind: "run.paused"},
	} {
		if got, err := s.ParseFact(subject); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", subject, got, err, want)
		}
	}
	for _, subject := range []string{
		"", "fact.alice.r1.run.ending", "other.v1.fact.alice.r1.run.ending", "harness.v1.fact.alice.r1.run", "harness.v1.fact.al*.r1.run.ending",
		"harness.v1.fact.alice..run.ending", "harness.v1.fact.alice.r1.run.ending.in-7", "harness.v1.outside.bob.r1.run.rejected",
		"harness.v1.outside.bob.r1.run.rejected.", "harness.v1.in.agent.alice.r1.run.finish",
	} {
		if got, err := s.ParseFact(subject); err == nil {
			t.Errorf("%q: got %+v, want it refused", subject, got)
		}
	}
	for subject, want := range map[string]int{
		"harness.v1.part.12.in.agent.alice.r1.run.finish": 12, "harness.v1.part.0.tick.r1": 0,
		"harness.v1.part.x.tick.r1": -1, "harness.v1.part.-2.tick.r1": -1, "other.v1.part.1.tick.r1": -1, "": -1,
	} {
		if got := s.PartitionOf(subject); got != want {
			t.Errorf("%s: got partition %d, want %d", subject, got, want)
		}
	}
}

// stored is what the stream's transform makes of a published subject.
func stored(published string) string {
	return strings.Replace(published, "harness.v1.", "harness.v1.part.5.", 1)
}

func TestEveryInboundSubjectIsReadBackAsItWasBuilt(t *testing.T) {
	s := wire(t)
	longest := strings.Repeat("x", 128)
	for subject, want := range map[string]events.Address{
		s.Agent("alice", "r1", events.VerbRunStart):     {Role: "agent", Principal: "alice", Run: "r1", Verb: "run.start"},
		s.Agent("A_1-z", "r-1_Z", events.VerbToolCall):  {Role: "agent", Principal: "A_1-z", Run: "r-1_Z", Verb: "tool.call"},
		s.Agent("alice", longest, events.VerbRunCancel): {Role: "agent", Principal: "alice", Run: longest, Verb: "run.cancel"},
		s.Agent(longest, "r1", events.VerbRunFinish):    {Role: "agent", Principal: longest, Run: "r1", Verb: "run.finish"},
		s.Agent("in", "tick", events.VerbRunFinish):     {Role: "agent", Principal: "in", Run: "tick", Verb: "run.finish"},
		s.Executor("web", "r1"):                         {Role: "executor", Principal: "web", Run: "r1", Verb: "tool.result"},
		s.Operator("olga", "r1"):                        {Role: "operator", Principal: "olga", Run: "r1", Verb: "run.cancel"},
		s.Tick("r1"):                                    {Role: "timer", Principal: "r1", Run: "r1", Verb: "tick"},
	} {
		got, err := s.ParseInbound(stored(subject))
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", subject, got, err, want)
		}
	}
}

func TestAHostileSubjectNamesNobody(t *testing.T) {
	s := wire(t)
	for _, subject := range []string{
		"",
		".",
		"harness.v1",
		"harness.v1.part.",
		"harness.v1.part.5",
		"harness.v1.part.5.",
		"harness.v1.part.5.in",
		"harness.v1.part.5.in.agent.alice.r1",
		"harness.v1.part.5.in.agent.alice.r1.",
		"harness.v1.in.agent.alice.r1.tool.call", // not as the stream stores it
		"other.v1.part.5.in.agent.alice.r1.tool.call",
		"harness.v10.part.5.in.agent.alice.r1.tool.call",
		"harness.v1.part.5.out.agent.alice.r1.tool.call",
		"harness.v1.part.5.in.admin.alice.r1.tool.call",
		"harness.v1.part.5.in.AGENT.alice.r1.tool.call",
		"harness.v1.part.5.in.agent.alice.r1.tool.result",    // executors alone have results
		"harness.v1.part.5.in.executor.web.r1.tool.call",     // and nothing else
		"harness.v1.part.5.in.operator.olga.r1.run.finish",   // an operator only cancels
		"harness.v1.part.5.in.timer.r1.r1.tick",              // ticks come from the schedule alone
		"harness.v1.part.5.in.agent.alice.r1.tick",           //
		"harness.v1.part.5.in.agent.alice.r1.TOOL.CALL",      //
		"harness.v1.part.5.in.agent.alice.r1.tool.call.more", //
		"harness.v1.part.5.in.agent.alice.r1.tool",           //
		"harness.v1.part.5.in.agent..r1.tool.call",           //
		"harness.v1.part.5.in.agent.alice..tool.call",        //
		"harness.v1.part.5.in.agent.*.r1.tool.call",          //
		"harness.v1.part.5.in.agent.alice.>.tool.call",       //
		"harness.v1.part.5.in.agent.al ice.r1.tool.call",     //
		"harness.v1.part.5.in.agent.alice.r1\n.tool.call",    // a dollar in a pattern may match before a line feed
		"harness.v1.part.5.in.agent.alice.r{1}.tool.call",    //
		"harness.v1.part.5.in.agent.alicé.r1.tool.call",      //
		"harness.v1.part.5.in.agent.al\x00ice.r1.tool.call",  //
		"harness.v1.part.5.tick.",                            //
		"harness.v1.part.5.tick.r1.more",                     //
		"harness.v1.part.5.tick.*",                           //
		"harness.v1.part.5.in.agent.alice." + strings.Repeat("x", 129) + ".tool.call",
		"harness.v1.part.5.in.agent." + strings.Repeat("x", 129) + ".r1.tool.call",
		"harness.v1.part.5.in.agent.alice." + strings.Repeat("x", 1<<20) + ".tool.call",
	} {
		got, err := s.ParseInbound(subject)
		if err == nil {
			t.Errorf("%.200q: got %+v, want an error", subject, got)
		} else if len(err.Error()) > 2000 {
			t.Errorf("%.80q: the error has %d bytes, want it bounded", subject, len(err.Error()))
		}
	}
}

func TestNamesAreOneTokenOfSubjectAndKey(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "A-z_09": true, strings.Repeat("x", 128): true,
		"": false, strings.Repeat("x", 129): false, "a.b": false, "a b": false, "a*": false, ">": false,
		"a:b": false, "{a}": false, "é": false, "a\n": false, "\na": false, "a/b": false, "a\x00": false,
	} {
		if got := events.ValidName(name); got != want {
			t.Errorf("%.40q: got %v, want %v", name, got, want)
		}
	}
}

func TestAPrefixIsPlainTokens(t *testing.T) {
	for _, good := range []string{"h", "harness.v1", "a.b.c", "A_-9"} {
		if _, err := events.NewSubjects(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "a.", ".a", "a..b", "a.*", "a.>", "a b", "é", "a\n", "$JS.API\r"} {
		if _, err := events.NewSubjects(bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}
