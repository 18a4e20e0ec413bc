package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"runledger/internal/policy"
	"runledger/internal/testenv"

	"github.com/nats-io/nats.go"
)

// startDev runs dev until the end of the test; it gives the banner, and what
// comes on standard error after it.
func startDev(t *testing.T, args ...string) (banner string, log *bufio.Reader) {
	t.Helper()
	temp := t.TempDir()
	cmd := program(t, append([]string{"dev", "--nats-port", "0", "--redis-port", "0"}, args...)...)
	cmd.Env = append(cmd.Env, "TMPDIR="+temp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errOut, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log = bufio.NewReader(errOut)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_, _ = io.Copy(io.Discard, log)
		if err := cmd.Wait(); err != nil {
			t.Errorf("dev ended: %v, want it stopped in order", err)
		}
		if left, _ := filepath.Glob(temp + "/runledger-*"); len(left) != 0 {
			t.Errorf("dev left %v", left)
		}
	})
	lines := bufio.NewScanner(out)
	var text strings.Builder
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "docs/protocol.md") {
			return text.String(), log
		}
	}
	rest, _ := io.ReadAll(log)
	t.Fatalf("dev ended before its banner did:\n%s%s", &text, rest)
	return "", nil
}

func TestEventsOfTheBannerAreAnsweredAndDeadLettersAreTold(t *testing.T) {
	banner, log := startDev(t)
	server := regexp.MustCompile(`nats://[0-9.:]+`).FindString(banner)
	nc, err := nats.Connect(server)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	facts, err := nc.SubscribeSync(regexp.MustCompile(`nats sub -s \S+ '(\S+)'`).FindStringSubmatch(banner)[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Dir(testenv.NATSCommand(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	commands := regexp.MustCompile(`(?m)^  nats pub .*$`).FindAllString(banner, -1)
	if len(commands) != 3 {
		t.Fatalf("got %d commands, want start, call and answer", len(commands))
	}
	for i, want := range []string{"run.started", "tool.reserved", "tool.settled"} {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", commands[i])
		cmd.Env = append(os.Environ(), "PATH="+path, "HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s\n%v\n%s", commands[i], err, out)
		}
		m, err := facts.NextMsg(15 * time.Second)
		if err != nil || m.Header.Get("ce-type") != "harness."+want+".v1" {
			t.Fatalf("after\n%s\ngot %v, %v, want %s", commands[i], m, err, want)
		}
		if want == "tool.settled" && !strings.Contains(string(m.Data), `"status":"READY"`) {
			t.Errorf("the call ended as %s, want READY", m.Data)
		}
	}
	if err := nc.Publish("harness.v1.in.agent.me.hello.tool.bla", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	line, err := log.ReadString('\n')
	if err != nil || !strings.Contains(line, "WRN an event could not be decided") || !strings.Contains(line, "reason=UNDECODABLE") ||
		!strings.Contains(line, "detail=") || strings.Contains(line, "\x1b") {
		t.Errorf("got %q, %v, want the dead letter with its reason and detail, without colours", line, err)
	}
}

const ownPolicy = `version: 1
longest_run: 90s
tools:
  - {name: write, executor: shed, read_only: false, timeout: 1m}
  - name: look up
    executor: shed
    read_only: true
    timeout: 90m
    input_schema: {type: object, required: [id], properties: {id: {type: string}}}
  - {name: "they're all", executor: shed, read_only: true, timeout: 1h}
grants:
  - {agent: robot, tools: ["*"]}
ceilings: {tool_calls: 3, run_bytes: 500}
`

func TestBannerSuggestsWhatAnotherPolicyAllows(t *testing.T) {
	parsed, err := policy.Parse("own.yaml", []byte(ownPolicy))
	if err != nil {
		t.Fatal(err)
	}
	text := banner{nats: "nats://x:1", natsKind: "n", redis: "y:2", redisKind: "miniredis", policy: "own.yaml", first: firstEvents(parsed, false)}.String()
	for _, want := range []string{
		`Follow the runs of the agent "robot"`, "nats sub -s nats://x:1 'harness.v1.run.robot.>'",
		"Start a run that has 1m30s:", "'+90 seconds'", `"tool_calls":3,`, `"run_bytes":500}`,
		`executor "shed" answers within 1h, the call ends as TOOL_TIMEOUT`,
		`"tool":"they'\''re all","arguments":{}}`, "Redis is emulated",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
	only := strings.Replace(ownPolicy, `  - {name: "they're all", executor: shed, read_only: true, timeout: 1h}`+"\n", "", 1)
	if parsed, err = policy.Parse("own.yaml", []byte(only)); err != nil {
		t.Fatal(err)
	}
	text = banner{first: firstEvents(parsed, false)}.String()
	if strings.Contains(text, "tool.call") || !strings.Contains(text, "run.start") {
		t.Errorf("got\n%s\nwant only a run.start, since no tool takes {}", text)
	}
}

func TestDemoGoesOnToAnOrderlyEndWhereNobodyReadsItsOutput(t *testing.T) {
	for _, flag := range []string{"--json=false", "--json"} {
		temp := t.TempDir()
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := program(t, "demo", flag)
		cmd.Env = append(cmd.Env, "TMPDIR="+temp)
		cmd.Stdout = write
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = write.Close(), read.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: got %v, want 0", flag, err)
		}
		if left, _ := filepath.Glob(temp + "/*"); len(left) != 0 {
			t.Errorf("%s: left %v", flag, left)
		}
	}
}
