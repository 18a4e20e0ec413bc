package projector_test

import (
	"fmt"
	"strings"
	"testing"

	"runledger/internal/projector"
)

func TestALogIsItsCountsLevelsEndsAndSamples(t *testing.T) {
	few := func(n int64) func(*projector.LogConfig) {
		return func(c *projector.LogConfig) { c.MaxSamples = n }
	}
	checkProjections(t, []projection{
		{name: "text", config: logs(), raw: `"2024-05-01T10:00:00Z INFO start\n2024-05-01T10:00:01Z ERROR disk full\r\n\n2024-05-01T10:00:02Z INFO stop\n"`,
			want: `{"lines":3,"levels":{"ERROR":1,"INFO":2},"first":{"line":1,"level":"INFO","text":"2024-05-01T10:00:00Z INFO start"},` +
				`"last":{"line":3,"level":"INFO","text":"2024-05-01T10:00:02Z INFO stop"},` +
				`"samples":[{"line":2,"level":"ERROR","text":"2024-05-01T10:00:01Z ERROR disk full"}]}`, evidence: found},
		{name: "one line", config: logs(), raw: `"panic: oh"`,
			want: `{"lines":1,"levels":{"FATAL":1},"first":{"line":1,"level":"FATAL","text":"panic: oh"},"samples":[]}`, evidence: found},
		{name: "two lines", config: logs(), raw: `["a","b"]`,
			want: `{"lines":2,"levels":{"OTHER":2},"first":{"line":1,"level":"OTHER","text":"a"},"last":{"line":2,"level":"OTHER","text":"b"},"samples":[]}`, evidence: found},
		{name: "the most severe first, of those the earliest, in the order of the log", config: logs(few(3)),
			raw: `["INFO 1","DEBUG 2","ERROR 3","WARN 4","ERROR 5","FATAL 6","ERROR 7","INFO 8"]`,
			want: `{"lines":8,"levels":{"FATAL":1,"ERROR":3,"WARN":1,"INFO":2,"DEBUG":1},"first":{"line":1,"level":"INFO","text":"INFO 1"},"last":{"line":8,"level":"INFO","text":"INFO 8"},` +
				`"samples":[{"line":3,"level":"ERROR","text":"ERROR 3"},{"line":5,"level":"ERROR","text":"ERROR 5"},{"line":6,"level":"FATAL","text":"FATAL 6"}],"left_out":{"lines":3}}`, evidence: found},
		{name: "a last line that would be a sample stands once", config: logs(few(1)), raw: `["a","b","ERROR c","FATAL d"]`,
			want: `{"lines":4,"levels":{"FATAL":1,"ERROR":1,"OTHER":2},"first":{"line":1,"level":"OTHER","text":"a"},"last":{"line":4,"level":"FATAL","text":"FATAL d"},` +
				`"samples":[{"line":3,"level":"ERROR","text":"ERROR c"}],"left_out":{"lines":1}}`, evidence: found},
		{name: "structured lines", config: logs(),
			raw: `{"lines":[{"level":"info","ts":1714557600.5,"msg":"up","pid":7},{"severity":"Error","time":"10:00","message":"down","stack":["x"],"pid":7},{"level":50,"msg":"pino"},{"n":1}]}`,
			want: `{"lines":4,"levels":{"ERROR":2,"INFO":1,"OTHER":1},"first":{"line":1,"level":"INFO","time":"1714557600.5","text":"up"},"last":{"line":4,"level":"OTHER","text":"{\"n\":1}"},` +
				`"samples":[{"line":2,"level":"ERROR","time":"10:00","text":"down"},{"line":3,"level":"ERROR","text":"pino"}],"left_out":{"paths":3}}`, evidence: found},
		{name: "text of one JSON object a line, and what is not", config: logs(), raw: `"{\"level\":\"warn\",\"msg\":\"low\"}\n{\"level\":\"warn\"\nplain"`,
			want: `{"lines":3,"levels":{"WARN":2,"OTHER":1},"first":{"line":1,"level":"WARN","text":"low"},"last":{"line":3,"level":"OTHER","text":"plain"},` +
				`"samples":[{"line":2,"level":"WARN","text":"{\"level\":\"warn\""}]}`, evidence: found},
		{name: "a level that nobody knows is told as what it is, a member left out", config: logs(), raw: `[{"level":"loud","msg":"x"}]`,
			want: `{"lines":1,"levels":{"OTHER":1},"first":{"line":1,"level":"OTHER","text":"x"},"samples":[],"left_out":{"paths":1}}`, evidence: found},
		{name: "found by a path", config: logs(func(c *projector.LogConfig) { c.Lines = "data.log" }), raw: `{"data":{"log":"a","next":2},"ok":true}`,
			want: `{"lines":1,"levels":{"OTHER":1},"first":{"line":1,"level":"OTHER","text":"a"},"samples":[],"left_out":{"paths":2}}`, evidence: found},
		{name: "an empty text", config: logs(), raw: `""`, want: `{"lines":0,"levels":{},"samples":[]}`, evidence: nothing},
		{name: "blank lines", config: logs(), raw: `"\n \r\n"`, want: `{"lines":0,"levels":{},"samples":[]}`, evidence: nothing},
		{name: "an empty list", config: logs(), raw: `{"lines":[]}`, want: `{"lines":0,"levels":{},"samples":[]}`, evidence: nothing},
		{name: "null", config: logs(), raw: `null`, want: `{"lines":0,"levels":{},"samples":[]}`, evidence: nothing},
		{name: "a line that is a number", config: logs(), raw: `["a",7]`, wantErr: "raw response: want log lines that are texts or objects, got another at line 2"},
		{name: "no lines where they should be", config: logs(), raw: `{"error":"denied"}`, wantErr: "raw response: want a list of lines as the response or at lines in it, got none; a text does as well"},
		{name: "a number", config: logs(), raw: `7`, wantErr: "raw response: want a list of lines as the response or at lines in it, got none; a text does as well"},
	})
}

func TestTheLevelOfALineIsReadFromItsOwnWords(t *testing.T) {
	for line, want := range map[string]string{
		`2024-05-01 10:00:00,123 - app - CRITICAL - out of memory`: "FATAL",
		`<0>kernel panic`:                                                "OTHER",
		`PANIC: Unrecoverable error`:                                     "FATAL",
		`E0501 10:00:00.000000    1 server.go:12] failed`:                "ERROR",
		`I0501 10:00:00.000000    1 server.go:12] no ERROR here`:         "INFO",
		`[Wed May 01 10:00:00 2024] [core:error] [pid 7] AH00126: uri`:   "ERROR",
		`2024/05/01 10:00:00 [error] 7#7: *1 connect() failed`:           "ERROR",
		`2024/05/01 10:00:00 [warn] low`:                                 "WARN",
		`time=2024-05-01T10:00:00Z level=warning msg="slow"`:             "WARN",
		`ts=1 lvl="dbug" msg=x`:                                          "OTHER",
		`ts=1 lvl="debug" msg=x`:                                         "DEBUG",
		`severity: notice, done`:                                         "INFO",
		`10:00:00.123 [main] TRACE o.h.SQL - select`:                     "TRACE",
		`ERR_CONNECTION_RESET from peer`:                                 "OTHER",
		`connection closed without error`:                                "OTHER",
		`an info desk`:                                                   "OTHER",
		`INFO no ERROR was found`:                                        "INFO",
		`ERROR: relation does not exist`:                                 "ERROR",
		`(fatal) gone`:                                                   "FATAL",
		`ÉERROR`:                                                         "OTHER",
		strings.Repeat("x ", 80) + "ERROR":                               "OTHER", // further in than a level stands
		strings.Repeat("x ", 70) + "ERROR":                               "ERROR",
		`java.lang.IllegalStateException: x`:                             "OTHER",
		`    at com.example.Main.main(Main.java:1)`:                      "OTHER",
		`sublevel=error`:                                                 "OTHER",
		`{"level":"error","msg":`:                                        "ERROR", // cut JSON is text
		`Warning: deprecated`:                                            "WARN",
		`closed with error: timeout`:                                     "OTHER",
		`WARNING - Deprecated`:                                           "WARN",
		`D0501 10:00:00 x`:                                               "OTHER",
		`May  1 10:00:00 host sshd[7]: error: maximum attempts exceeded`: "ERROR",
	} {
		t.Run(line, func(t *testing.T) {
			got, err := compile(t, logs()).Project([]byte(fmt.Sprintf("[%q]", line)))
			if want := `"levels":{"` + want + `":1}`; err != nil || !strings.Contains(string(got.Result), want) {
				t.Errorf("got %s %v, want %s", got.Result, err, want)
			}
		})
	}
}

func TestLogLinesAreCutAndSamplesLeftOutTheLeastSevereFirst(t *testing.T) {
	most := func(bytes, line int64) func(*projector.LogConfig) {
		return func(c *projector.LogConfig) { c.MaxBytes, c.MaxString = bytes, line }
	}
	const three = `["WARN é 1","INFO 2","ERROR 3","WARN é 4"]`
	const head = `{"lines":4,"levels":{"ERROR":1,"WARN":2,"INFO":1},"first":{"line":1,"level":"WARN","text":"WARN é 1"},"last":{"line":4,"level":"WARN","text":"WARN é 4"},"samples":[`
	const info = `{"line":2,"level":"INFO","text":"INFO 2"}`
	const errr = `{"line":3,"level":"ERROR","text":"ERROR 3"}`
	checkProjections(t, []projection{
		{name: "exactly the bytes", config: logs(most(int64(len(head+info+","+errr+"]}")), 99)), raw: three, want: head + info + "," + errr + "]}", evidence: found},
		{name: "a byte less", config: logs(most(int64(len(head+info+","+errr+"]}"))-1, 99)), raw: three, want: head + errr + `],"left_out":{"lines":1}}`, evidence: found},
		{name: "no room for samples", config: logs(most(int64(len(head+`],"left_out":{"lines":2}}`)), 99)), raw: three, want: head + `],"left_out":{"lines":2}}`, evidence: found},
		{name: "no room at all", config: logs(most(int64(len(head+`],"left_out":{"lines":2}}`))-1, 99)), raw: three, wantErr: fmt.Sprintf("result: want at most max_bytes %d, got more with as little in it as may be", len(head+`],"left_out":{"lines":2}}`)-1)},
		{name: "lines cut within a character", config: logs(most(1000, 6)), raw: `["WARN é 1","abcdef","abcdefg"]`,
			want: `{"lines":3,"levels":{"WARN":1,"OTHER":2},"first":{"line":1,"level":"WARN","text":"WARN "},"last":{"line":3,"level":"OTHER","text":"abcdef"},` +
				`"samples":[{"line":2,"level":"OTHER","text":"abcdef"}],"left_out":{"strings":2}}`, evidence: found},
	})
}
