package main

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"runledger/internal/events"
	"runledger/internal/stream"
)

// setting is one thing that can be configured. "nats.url" of the file is
// RUNLEDGER_NATS_URL in the environment and --nats-url on the command line.
type setting struct {
	key, usage string
	want       string            // what a value must be, for messages
	takes      func(string) bool // whether a text is one; of a list each
	list       bool              // a list in the file, separated by commas elsewhere
	secret     bool              // never shown, and no flag: the list of processes would show it
	hidden     bool              // may hold a secret, which is not shown
}

// settings is all of them, in the order in which help lists them.
func settings() []setting {
	return []setting{
		{key: "nats.url", usage: "NATS servers, separated by commas",
			want: "addresses such as nats://127.0.0.1:4222, separated by commas", takes: isNATSURL, hidden: true},
		{key: "nats.credentials", usage: "file with the NATS credentials", want: "the name of a file", takes: anything},
		{key: "subjects.prefix", usage: "what every subject begins with",
			want: "tokens of A-Z a-z 0-9 _ - joined by dots, at most 128 bytes, such as " + events.DefaultPrefix, takes: isPrefix},
		{key: "subjects.partitions", usage: "partitions of the stream IN, fixed when it is made",
			want: "a whole number from 1 to " + strconv.Itoa(stream.MaxPartitions), takes: isWhole(1, stream.MaxPartitions)},
		{key: "subjects.replicas", usage: "replicas of every stream: 1, 3 or 5", want: "1, 3 or 5", takes: isOneOf("1", "3", "5")},
		{key: "policy", usage: `policy file, YAML; "processor policy example" prints one`, want: "the name of a file", takes: anything},
		{key: "redis.addresses", usage: "Redis servers, separated by commas; several are a cluster",
			want: "host:port", takes: isAddress, list: true},
		{key: "redis.username", usage: "Redis user", want: "a text", takes: anything},
		{key: "redis.password", usage: "Redis password", want: "a text", takes: anything, secret: true},
		{key: "redis.password_file", usage: "file with the Redis password", want: "the name of a file", takes: anything},
		{key: "redis.key_prefix", usage: "what every Redis key begins with", want: "1 to 128 of A-Z a-z 0-9 _ -", takes: events.ValidName},
		{key: "process", usage: "name of this process among all that serve; must be unique",
			want: "1 to 128 of A-Z a-z 0-9 _ -", takes: events.ValidName},
		{key: "lease_ttl", usage: "time after which a silent process loses its partitions",
			want: "a duration from 1s to 1m, such as 3s", takes: isDuration(time.Second, time.Minute)},
		{key: "listen", usage: "address of /healthz, /readyz and /metrics; empty for none", want: "host:port, or nothing",
			takes: func(text string) bool { return text == "" || isAddress(text) }},
		{key: "log.level", usage: "debug, info, warn or error", want: "debug, info, warn or error", takes: isOneOf("debug", "info", "warn", "error")},
		{key: "log.format", usage: "json or text", want: "json or text", takes: isOneOf("json", "text")},
	}
}

// streamSettings are the settings that the commands for streams have flags for.
func streamSettings() []string {
	return []string{"nats.url", "nats.credentials", "subjects.prefix", "subjects.partitions", "subjects.replicas", "policy"}
}

// serveSettings are the settings that serve has flags for.
func serveSettings() []string {
	return []string{
		"nats.url", "nats.credentials", "subjects.prefix", "subjects.partitions", "policy",
		"redis.addresses", "redis.username", "redis.password_file", "redis.key_prefix",
		"process", "lease_ttl", "listen", "log.level", "log.format",
	}
}

// settingOf finds a setting by its key.
func settingOf(key string) (setting, bool) {
	all := settings()
	i := slices.IndexFunc(all, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return all[i], true
}

func anything(string) bool { return true }

func isOneOf(texts ...string) func(string) bool {
	return func(text string) bool { return slices.Contains(texts, text) }
}

func isWhole(low, high int) func(string) bool {
	return func(text string) bool {
		n, err := strconv.Atoi(text)
		return err == nil && n >= low && n <= high
	}
}

func isDuration(low, high time.Duration) func(string) bool {
	return func(text string) bool {
		d, err := time.ParseDuration(text)
		return err == nil && d >= low && d <= high
	}
}

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	return err == nil && port != ""
}

func isPrefix(text string) bool {
	_, err := events.NewSubjects(text)
	return err == nil && len(text) <= 128
}

// isNATSURL judges a list of addresses; one without a scheme is nats://.
func isNATSURL(text string) bool {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		u, err := url.Parse(part)
		if err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return false
		}
	}
	return true
}

// withoutCredentials takes user, password and token out of NATS addresses.
func withoutCredentials(urls string) string {
	parts := strings.Split(urls, ",")
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if at := strings.LastIndex(part, "@"); at >= 0 {
			scheme, _, found := strings.Cut(part[:at], "://")
			if !found {
				scheme = "nats"
			}
			part = scheme + "://" + part[at+1:]
		}
		parts[i] = part
	}
	return strings.Join(parts, ", ")
}
