package bench

import (
	"reflect"
	"testing"
)

func recorded() recipe {
	return recipe{
		Run: "run-0999999", Call: "call-9000000079", Sequence: 160,
		Reserve: step{Writes: []command{
			{[]byte("HSET"), []byte("k:{run-0999999}:call-9000000079"), []byte("status"), []byte("PROJECTING")},
			{[]byte("RPUSH"), []byte("done:{run-0999999}"), []byte("160 call-9000000079")},
		}},
		Settle: step{Writes: []command{{[]byte("HDEL"), []byte("run:{run-0999999}"), []byte("open:160")}}},
	}
}

var other = values{run: "run-0000001", call: "call-0000000002", dispatch: "run-0000001.7"}

func TestATemplatePutsRunCallAndDispatchIn(t *testing.T) {
	r := recorded()
	for text, want := range map[string]string{
		"":                                    "",
		"plain":                               "plain",
		"run-0999999":                         "run-0000001",
		"x run-0999999.160 y call-9000000079": "x run-0000001.7 y call-0000000002",
		"run-0999999.161 run-0999999":         "run-0000001.161 run-0000001",
		"call-9000000079call-9000000079":      "call-0000000002call-0000000002",
	} {
		template := r.newTemplate([]byte(text))
		if got := string(template.append(nil, other)); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if template.plain() != (text == want) {
			t.Errorf("%q: plain is %v", text, template.plain())
		}
	}
}

func TestCommandsKeepNumberAndSizeOfWhatWasRecorded(t *testing.T) {
	r := recorded()
	if commands, bytes := r.writes(); commands != 3 || bytes != 4+31+6+10+5+18+19+4+17+8 {
		t.Errorf("recorded are %d commands with %d bytes", commands, bytes)
	}
	want := [][]string{
		{"HSET", "k:{run-0000001}:call-0000000002", "status", "PROJECTING"},
		{"RPUSH", "done:{run-0000001}", "160 call-0000000002"},
	}
	for i, c := range r.newCommands(r.Reserve.Writes) {
		for range 2 { // the second time is as the first
			var got []string
			for _, arg := range c.with(other) {
				got = append(got, string(arg.([]byte)))
			}
			if !reflect.DeepEqual(got, want[i]) {
				t.Errorf("got %q, want %q", got, want[i])
			}
		}
	}
}

func TestAMessageKeepsItsHeadersAndIsFencedAnew(t *testing.T) {
	r := recorded()
	m := r.newMessage(message{
		Subject: "harness.v1.dispatch.bench.run-0999999.160",
		Header: map[string][]string{
			"ce-id": {"run-0999999.160"}, "ce-type": {"harness.tool.dispatch.v1"},
			headerExpectLast: {"4711"}, headerExpectFilter: {"harness.v1.fact.bench.run-0999999.>"},
		},
		Data: []byte(`{"run_id":"run-0999999","tool_call_id":"call-9000000079"}`),
	})
	m.with(values{run: "run-1111111", call: "call-1111111111", dispatch: "run-1111111.1"}, "first", 1)
	got := m.with(other, "reply", 42)
	if got.Subject != "harness.v1.dispatch.bench.run-0000001.7" || got.Reply != "reply" ||
		string(got.Data) != `{"run_id":"run-0000001","tool_call_id":"call-0000000002"}` {
		t.Errorf("got %s %s %s", got.Subject, got.Reply, got.Data)
	}
	want := map[string][]string{
		"ce-id": {"run-0000001.7"}, "ce-type": {"harness.tool.dispatch.v1"},
		headerExpectLast: {"42"}, headerExpectFilter: {"harness.v1.fact.bench.run-0000001.>"},
	}
	if !reflect.DeepEqual(map[string][]string(got.Header), want) {
		t.Errorf("got %v, want %v", got.Header, want)
	}
}

func TestALineOfMonitorIsACommand(t *testing.T) {
	line := `+1339518083.107412 [0 lua] "HSET" "a b" "\x00\xff\"\\\r\n" "] x"` + "\r\n"
	got, err := parseMonitored(line)
	want := command{[]byte("HSET"), []byte("a b"), []byte("\x00\xff\"\\\r\n"), []byte("] x")}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, wrong := range []string{"", "+OK", "+1 [0 lua] ", `+1 [0 lua] "HSET`, `+1 [0 lua] HSET "x"`} {
		if got, err := parseMonitored(wrong); err == nil {
			t.Errorf("%q is %q", wrong, got)
		}
	}
}
