package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"runledger/internal/events"

	"github.com/goccy/go-yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
)

const envPrefix = "RUNLEDGER_"

// config is what serve and streams are told, by a file, by the environment and
// by flags; later ones win. A setting "nats.url" of the file is RUNLEDGER_NATS_URL
// in the environment and --nats-url on the command line.
type config struct {
	NATS struct {
		URL         string `koanf:"url" yaml:"url"`
		Credentials string `koanf:"credentials" yaml:"credentials"`
	} `koanf:"nats" yaml:"nats"`
	Redis struct {
		Addresses    []string `koanf:"addresses" yaml:"addresses"`
		Username     string   `koanf:"username" yaml:"username"`
		Password     string   `koanf:"password" yaml:"password"`
		PasswordFile string   `koanf:"password_file" yaml:"password_file"`
		KeyPrefix    string   `koanf:"key_prefix" yaml:"key_prefix"`
	} `koanf:"redis" yaml:"redis"`
	Subjects struct {
		Prefix     string `koanf:"prefix" yaml:"prefix"`
		Partitions int    `koanf:"partitions" yaml:"partitions"`
		Replicas   int    `koanf:"replicas" yaml:"replicas"`
	} `koanf:"subjects" yaml:"subjects"`
	Policy   string        `koanf:"policy" yaml:"policy"`
	Process  string        `koanf:"process" yaml:"process"`
	LeaseTTL time.Duration `koanf:"lease_ttl" yaml:"lease_ttl"`
	Listen   string        `koanf:"listen" yaml:"listen"`
	Log      struct {
		Level  string `koanf:"level" yaml:"level"`
		Format string `koanf:"format" yaml:"format"`
	} `koanf:"log" yaml:"log"`
}

// setting describes one setting as a flag. The password has none: the list of
// processes would show it.
type setting struct{ key, usage string }

func serverSettings() []setting {
	return []setting{
		{"nats.url", "NATS servers, separated by commas"},
		{"nats.credentials", "file with the NATS credentials"},
		{"subjects.prefix", "what every subject begins with"},
		{"subjects.partitions", "partitions of the stream IN, fixed when it is made"},
		{"policy", "policy file, YAML"},
	}
}

func streamSettings() []setting {
	return []setting{
		{"subjects.replicas", "replicas of every stream: 1, 3 or 5"},
	}
}

func serveSettings() []setting {
	return []setting{
		{"redis.addresses", "Redis servers; several are a cluster"},
		{"redis.username", "Redis user"},
		{"redis.password_file", "file with the Redis password"},
		{"redis.key_prefix", "what every Redis key begins with"},
		{"process", "name of this process among all that serve; must be unique"},
		{"lease_ttl", "time after which a silent process loses its partitions"},
		{"listen", "address of /healthz, /readyz and /metrics; empty for none"},
		{"log.level", "debug, info, warn or error"},
		{"log.format", "json or text"},
	}
}

func defaultConfig() config {
	var c config
	c.NATS.URL = "nats://127.0.0.1:4222"
	c.Redis.Addresses = []string{"127.0.0.1:6379"}
	c.Redis.KeyPrefix = "runledger"
	c.Subjects.Prefix = events.DefaultPrefix
	c.Subjects.Partitions = 16
	c.Subjects.Replicas = 1
	c.Process = processName()
	c.LeaseTTL = 3 * time.Second
	c.Listen = "127.0.0.1:8222"
	c.Log.Level, c.Log.Format = "info", "json"
	return c
}

// processName is unique among processes that live on hosts with distinct names.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	safe := strings.Map(func(r rune) rune {
		if events.ValidName(string(r)) {
			return r
		}
		return '-'
	}, host)
	return fmt.Sprintf("%.100s-%d", safe, os.Getpid())
}

func flagName(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }
func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// addSettings adds --config and a flag for each setting.
func addSettings(flags *pflag.FlagSet, groups ...[]setting) {
	flags.StringP("config", "c", "", "configuration file, YAML")
	defaults := koanf.New(".")
	_ = defaults.Load(structs.Provider(defaultConfig(), "koanf"), nil) // a struct of ours always loads
	for _, s := range slices.Concat(groups...) {
		flags.String(flagName(s.key), "", s.usage+defaultText(s.key, defaults))
	}
}

func defaultText(key string, defaults *koanf.Koanf) string {
	if key == "process" {
		return " (default host name and process id)"
	}
	value := strings.Trim(fmt.Sprint(defaults.Get(key)), "[]")
	if value == "" {
		return ""
	}
	return " (default " + value + ")"
}

// loadConfig merges defaults, file, environment and flags, and refuses what is
// wrong, all of it at once.
func loadConfig(flags *pflag.FlagSet) (config, error) {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(defaultConfig(), "koanf"), nil); err != nil {
		return config{}, err
	}
	keys := make(map[string]string) // by name in the environment, and as a flag
	for _, key := range k.Keys() {
		keys[envName(key)], keys[flagName(key)] = key, key
	}
	if err := loadFile(k, flags); err != nil {
		return config{}, err
	}
	known := env.Provider(".", env.Opt{Prefix: envPrefix, TransformFunc: func(name, value string) (string, any) {
		return keys[name], value // an empty key leaves the variable out: others may share our prefix
	}})
	if err := k.Load(known, nil); err != nil {
		return config{}, err
	}
	changed := make(map[string]any)
	flags.Visit(func(f *pflag.Flag) {
		if key, ok := keys[f.Name]; ok {
			changed[key] = f.Value.String()
		}
	})
	if err := k.Load(confmap.Provider(changed, "."), nil); err != nil {
		return config{}, err
	}
	var c config
	if err := k.Unmarshal("", &c); err != nil {
		return config{}, fmt.Errorf("configuration: %w", err)
	}
	if err := c.readPassword(); err != nil {
		return config{}, err
	}
	if err := c.validate(); err != nil {
		return config{}, err
	}
	return c, nil
}

// loadFile reads the configuration file, strictly: a key that nothing knows is
// refused with its line.
func loadFile(k *koanf.Koanf, flags *pflag.FlagSet) error {
	name, _ := flags.GetString("config")
	if name == "" {
		name = os.Getenv(envPrefix + "CONFIG")
	}
	if name == "" {
		return nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	strict := defaultConfig()
	if err := yaml.UnmarshalWithOptions(content, &strict, yaml.Strict()); err != nil {
		return fmt.Errorf("configuration file %s: %s", name, yaml.FormatError(err, false, true))
	}
	values := make(map[string]any)
	if err := yaml.Unmarshal(content, &values); err != nil {
		return fmt.Errorf("configuration file %s: %w", name, err)
	}
	return k.Load(confmap.Provider(maps.Clone(values), "."), nil)
}

func (c *config) readPassword() error {
	if c.Redis.PasswordFile == "" {
		return nil
	}
	content, err := os.ReadFile(c.Redis.PasswordFile)
	if err != nil {
		return fmt.Errorf("redis.password_file: %w", err)
	}
	c.Redis.Password = strings.TrimRight(string(content), "\r\n")
	return nil
}

func (c *config) validate() error {
	var errs []error
	wrong := func(key, want string, got any) {
		errs = append(errs, fmt.Errorf("%s: want %s, got %q", key, want, fmt.Sprint(got)))
	}
	if c.NATS.URL == "" {
		wrong("nats.url", "the address of a NATS server", c.NATS.URL)
	}
	if len(c.Redis.Addresses) == 0 {
		wrong("redis.addresses", "at least one host:port", "")
	}
	for _, address := range c.Redis.Addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			wrong("redis.addresses", "host:port", address)
		}
	}
	if _, err := events.NewSubjects(c.Subjects.Prefix); err != nil {
		errs = append(errs, fmt.Errorf("subjects.prefix: %w", err))
	}
	if !events.ValidName(c.Process) {
		wrong("process", "1 to 128 of A-Z a-z 0-9 _ -", c.Process)
	}
	if c.LeaseTTL < time.Second || c.LeaseTTL > time.Minute {
		wrong("lease_ttl", "1s to 1m", c.LeaseTTL)
	}
	if _, err := zerolog.ParseLevel(c.Log.Level); err != nil || c.Log.Level == "" {
		wrong("log.level", "debug, info, warn or error", c.Log.Level)
	}
	if c.Log.Format != "json" && c.Log.Format != "text" {
		wrong("log.format", "json or text", c.Log.Format)
	}
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			wrong("listen", "host:port, or nothing", c.Listen)
		}
	}
	return errors.Join(errs...)
}
