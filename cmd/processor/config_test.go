package main

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// load loads a configuration as serve does, and gives what was warned of.
func load(t *testing.T, args ...string) (config, string, error) {
	t.Helper()
	var c config
	var warned strings.Builder
	cmd := &cobra.Command{Use: "processor", RunE: func(cmd *cobra.Command, _ []string) (err error) {
		c, err = loadConfig(cmd)
		return err
	}, SilenceErrors: true, SilenceUsage: true}
	addSettings(cmd.Flags(), append(serveSettings(), "subjects.replicas"))
	cmd.SetArgs(args)
	cmd.SetErr(&warned)
	err := cmd.Execute()
	return c, warned.String(), err
}

func TestFlagsWinOverTheEnvironmentAndThatOverTheFile(t *testing.T) {
	name := file(t, "c.yaml", `
nats: {url: "nats://file:1"}
redis: {addresses: ["file:1", "file:2"], key_prefix: file}
subjects: {partitions: 1, replicas: 5}
lease_ttl: 1s
`)
	t.Setenv("RUNLEDGER_CONFIG", name)
	t.Setenv("RUNLEDGER_REDIS_KEY_PREFIX", "environment")
	t.Setenv("RUNLEDGER_REDIS_PASSWORD", "secret")
	t.Setenv("RUNLEDGER_LEASE_TTL", "2s")
	t.Setenv("RUNLEDGER_REDIS_ADDRESSES", "environment:1, environment:2")
	c, warned, err := load(t, "--lease-ttl", "5s", "--process", "flag")
	if err != nil || warned != "" {
		t.Fatalf("got %v, warned %q", err, warned)
	}
	want := defaultConfig()
	want.NATS.URL, want.Subjects.Partitions, want.Subjects.Replicas = "nats://file:1", 1, 5
	want.Redis.KeyPrefix, want.Redis.Password = "environment", "secret"
	want.Redis.Addresses = []string{"environment:1", "environment:2"}
	want.LeaseTTL, want.Process = 5*time.Second, "flag"
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, want %+v", c, want)
	}
}

func TestEveryFaultOfAConfigurationFileIsNamedWithItsLine(t *testing.T) {
	name := file(t, "c.yaml", `nats:
  url: http://me:hush@x
natz: 3
redis: {addresses: [a, "b:1"], password: {a: hush}, key_prefix: "a b", colour: red}
subjects:
  partitions: 0
  replicas: 2
lease_ttl: 3
log: loud
policy:
`)
	_, _, err := load(t, "--config", name)
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, line := range []string{
		":2:3: nats.url: want addresses such as nats://127.0.0.1:4222, separated by commas, got something else (not shown",
		":3:1: natz: there is no such setting; want one of nats, subjects, policy, redis, process, lease_ttl, listen, log",
		`:4:9: redis.addresses: want host:port, got "a"`,
		":4:32: redis.password: want a text, got a mapping; a text with a colon stands in quotes",
		`redis.key_prefix: want 1 to 128 of A-Z a-z 0-9 _ -, got "a b"`,
		"redis.colour: there is no such setting; want one of addresses, username, password, password_file, key_prefix",
		`:6:3: subjects.partitions: want a whole number from 1 to 1024, got "0"`,
		`:7:3: subjects.replicas: want 1, 3 or 5, got "2"`,
		`:8:1: lease_ttl: want a duration from 1s to 1m, such as 3s, got "3"`,
		":9:6: log: want settings such as level, format, got one value",
		":10:1: policy: want the name of a file, got nothing",
	} {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("it says\n%v\nwant %q in it", err, line)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n != 11 {
		t.Errorf("it has %d lines below its first, want one for each of 11 faults:\n%v", n, err)
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("it shows a password:\n%v", err)
	}
}

func TestAFileThatIsNoYAMLIsRefusedWithItsLineAndWithoutItsText(t *testing.T) {
	for content, want := range map[string]string{
		"redis: {password: hush}\nnats: {url: [\n": ":2:13: want YAML: ",
		"- hush\n":                  ":1:1: want settings such as nats, ",
		"policy: a\npolicy: hush\n": ":2:1: want YAML: mapping key \"policy\" already defined",
	} {
		_, _, err := load(t, "--config", file(t, "c.yaml", content))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: got %v, want %q, and no text of the file", content, err, want)
		}
	}
	if _, _, err := load(t, "--config", file(t, "c.yaml", "# nothing is set\n")); err != nil {
		t.Errorf("a file that sets nothing: %v", err)
	}
}

func TestFaultsOfEnvironmentAndFlagsAreNamedByVariableAndFlagAllAtOnce(t *testing.T) {
	t.Setenv("RUNLEDGER_LEASE_TTL", "99")
	t.Setenv("RUNLEDGER_SUBJECTS_PARTITIONS", "many")
	_, _, err := load(t, "--log-format", "xml", "--redis-addresses", "a,b:1", "--redis-key-prefix", "", "--subjects-replicas", "4",
		"--subjects-prefix", "a..b", "--listen", "8080", "--process", "a b", "--nats-url", "nats://")
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, line := range []string{
		`RUNLEDGER_LEASE_TTL: want a duration from 1s to 1m, such as 3s, got "99"`,
		`RUNLEDGER_SUBJECTS_PARTITIONS: want a whole number from 1 to 1024, got "many"`,
		`--log-format: want json or text, got "xml"`,
		`--redis-addresses: want host:port, got "a"`,
		`--redis-key-prefix: want 1 to 128 of A-Z a-z 0-9 _ -, got nothing`,
		`--subjects-replicas: want 1, 3 or 5, got "4"`,
		`--subjects-prefix: want tokens of A-Z a-z 0-9 _ - joined by dots, at most 128 bytes, such as harness.v1, got "a..b"`,
		`--listen: want host:port, or nothing, got "8080"`,
		`--process: want 1 to 128 of A-Z a-z 0-9 _ -, got "a b"`,
		`--nats-url: want addresses such as nats://127.0.0.1:4222, separated by commas, got "nats://"`,
	} {
		if !strings.Contains(err.Error(), "\n  "+line) {
			t.Errorf("it says\n%v\nwant a line %q", err, line)
		}
	}
}

func TestVariablesThatAreNoSettingsArePassedOverWithAWarning(t *testing.T) {
	t.Setenv("RUNLEDGER_SERVICE_HOST", "10.0.0.1")
	t.Setenv("RUNLEDGER_PORT", "tcp://10.0.0.1:8222")
	_, warned, err := load(t)
	if want := "processor: passed over, since there are no such settings: RUNLEDGER_PORT, RUNLEDGER_SERVICE_HOST\n"; err != nil || warned != want {
		t.Errorf("got %v, warned %q, want %q", err, warned, want)
	}
}

func TestFilesThatSettingsNameMustBeThere(t *testing.T) {
	_, _, err := load(t, "--nats-credentials", "/nowhere", "--redis-password-file", file(t, "empty", "\n"))
	if err == nil || !strings.Contains(err.Error(), "--nats-credentials: open /nowhere: ") ||
		!strings.Contains(err.Error(), "--redis-password-file: want a password in ") {
		t.Errorf("got %v, want both named", err)
	}
	c, _, err := load(t, "--redis-password-file", file(t, "password", "hush\r\n"))
	if err != nil || c.Redis.Password != "hush" {
		t.Errorf("got %q, %v, want the password without its line end", c.Redis.Password, err)
	}
}

func TestThePasswordHasNoFlag(t *testing.T) {
	if help := try(t, "serve", "--help").out; strings.Contains(help, "--redis-password ") {
		t.Error("serve has a flag for the Redis password, which the list of processes would show")
	}
}

func TestEverySettingIsPartOfTheConfiguration(t *testing.T) {
	_, _, err := load(t) // which makes all settings of defaults
	if err != nil {
		t.Fatal(err)
	}
	fields := 0
	var count func(reflect.Type)
	count = func(of reflect.Type) {
		for i := range of.NumField() {
			if f := of.Field(i); f.Type.Kind() == reflect.Struct {
				count(f.Type)
			} else {
				fields++
			}
		}
	}
	count(reflect.TypeFor[config]())
	if n := len(settings()); n != fields {
		t.Errorf("%d settings for %d fields of the configuration", n, fields)
	}
}

func TestCredentialsAreTakenOutOfAddresses(t *testing.T) {
	got := withoutCredentials("nats://me:p@ss@one:4222, tls://token@two,three:1,me:hush@four")
	if want := "nats://one:4222, tls://two, three:1, nats://four"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
