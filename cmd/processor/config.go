package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"runledger/internal/events"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const envPrefix = "RUNLEDGER_"

// config is what serve and streams are told, by a file, by the environment and
// by flags; later ones win. See settings for what each means.
type config struct {
	NATS struct {
		URL         string `koanf:"url"`
		Credentials string `koanf:"credentials"`
	} `koanf:"nats"`
	Redis struct {
		Addresses    []string `koanf:"addresses"`
		Username     string   `koanf:"username"`
		Password     string   `koanf:"password"`
		PasswordFile string   `koanf:"password_file"`
		KeyPrefix    string   `koanf:"key_prefix"`
	} `koanf:"redis"`
	Subjects struct {
		Prefix     string `koanf:"prefix"`
		Partitions int    `koanf:"partitions"`
		Replicas   int    `koanf:"replicas"`
	} `koanf:"subjects"`
	Policy   string        `koanf:"policy"`
	Process  string        `koanf:"process"`
	LeaseTTL time.Duration `koanf:"lease_ttl"`
	Listen   string        `koanf:"listen"`
	Log      struct {
		Level  string `koanf:"level"`
		Format string `koanf:"format"`
	} `koanf:"log"`
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

// addSettings adds --config and a flag for each of the settings.
func addSettings(flags *pflag.FlagSet, keys []string) {
	flags.StringP("config", "c", "", "configuration file, YAML")
	defaults := koanf.New(".")
	_ = defaults.Load(structs.Provider(defaultConfig(), "koanf"), nil) // a struct of ours always loads
	for _, key := range keys {
		s, _ := settingOf(key)
		flags.String(flagName(key), "", s.usage+defaultText(key, defaults))
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
func loadConfig(cmd *cobra.Command) (config, error) {
	l := &loader{merged: koanf.New("."), origin: map[string]string{}}
	if err := l.merged.Load(structs.Provider(defaultConfig(), "koanf"), nil); err != nil {
		return config{}, err
	}
	if err := l.file(configName(cmd.Flags())); err != nil {
		return config{}, err
	}
	if err := l.environment(); err != nil {
		return config{}, err
	}
	if len(l.unknown) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "processor: passed over, since there are no such settings: %s\n", strings.Join(l.unknown, ", "))
	}
	if err := l.flags(cmd.Flags()); err != nil {
		return config{}, err
	}
	if len(l.problems) > 0 {
		return config{}, usageOf(cmd, l.problems)
	}
	var c config
	if err := l.merged.Unmarshal("", &c); err != nil {
		return config{}, fmt.Errorf("configuration: %w", err)
	}
	l.readFiles(&c)
	if len(l.problems) > 0 {
		return config{}, usageOf(cmd, l.problems)
	}
	return c, nil
}

func configName(flags *pflag.FlagSet) string {
	if name, _ := flags.GetString("config"); name != "" {
		return name
	}
	return os.Getenv(envPrefix + "CONFIG")
}

// loader gathers settings from one source after the other, and what is wrong
// with them.
type loader struct {
	merged   *koanf.Koanf
	origin   map[string]string // where a setting was last set, for messages
	unknown  []string          // variables of the environment that are no settings
	problems problems
}

// problems is what is wrong with a configuration, a line each.
type problems []string

// Error implements error.
func (p problems) Error() string {
	if len(p) == 1 {
		return p[0]
	}
	return fmt.Sprintf("%d settings are wrong:\n  %s", len(p), strings.Join(p, "\n  "))
}

func (l *loader) refuse(origin, format string, args ...any) {
	l.problems = append(l.problems, origin+": "+fmt.Sprintf(format, args...))
}

// judge gives the value of a setting as it is merged; ok is false where the
// texts are not what is wanted, which is then noted.
func (l *loader) judge(s setting, origin string, texts []string) (value any, ok bool) {
	l.origin[s.key] = origin
	if s.list && len(texts) == 0 {
		l.refuse(origin, "want %s, one or more, got none", s.want)
		return nil, false
	}
	for _, text := range texts {
		if s.takes(text) {
			continue
		}
		switch {
		case s.secret, s.hidden && strings.Contains(text, "@"):
			l.refuse(origin, "want %s, got something else (not shown: it may hold a password)", s.want)
		case text == "":
			l.refuse(origin, "want %s, got nothing", s.want)
		default:
			l.refuse(origin, "want %s, got %.100q", s.want, text)
		}
		return nil, false
	}
	if s.list {
		return texts, true
	}
	return texts[0], true
}

// texts splits what stands in one text outside of a file.
func (s setting) texts(value string) []string {
	if !s.list {
		return []string{value}
	}
	parts := strings.Split(value, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// environment takes the variables that are settings. Others may share our
// prefix: Kubernetes sets such for every service, under the service's name.
func (l *loader) environment() error {
	byName := make(map[string]setting)
	for _, s := range settings() {
		byName[envName(s.key)] = s
	}
	provider := env.Provider(".", env.Opt{Prefix: envPrefix, TransformFunc: func(name, text string) (string, any) {
		s, known := byName[name]
		if !known {
			if name != envPrefix+"CONFIG" {
				l.unknown = append(l.unknown, name)
			}
			return "", nil // an empty key leaves it out
		}
		value, ok := l.judge(s, name, s.texts(text))
		if !ok {
			return "", nil
		}
		return s.key, value
	}})
	err := l.merged.Load(provider, nil)
	slices.Sort(l.unknown)
	return err
}

func (l *loader) flags(flags *pflag.FlagSet) error {
	values := make(map[string]any)
	for _, s := range settings() {
		f := flags.Lookup(flagName(s.key))
		if f == nil || !f.Changed {
			continue
		}
		if value, ok := l.judge(s, "--"+f.Name, s.texts(f.Value.String())); ok {
			values[s.key] = value
		}
	}
	return l.merged.Load(confmap.Provider(values, "."), nil)
}

// readFiles reads what settings name: the password, and whether the credentials
// are there, which the NATS client would find out late.
func (l *loader) readFiles(c *config) {
	if c.Redis.PasswordFile != "" {
		content, err := os.ReadFile(c.Redis.PasswordFile)
		c.Redis.Password = strings.TrimRight(string(content), "\r\n")
		switch {
		case err != nil:
			l.refuse(l.origin["redis.password_file"], "%v", err)
		case c.Redis.Password == "":
			l.refuse(l.origin["redis.password_file"], "want a password in %s, got an empty file", c.Redis.PasswordFile)
		}
	}
	if c.NATS.Credentials != "" {
		if _, err := os.ReadFile(c.NATS.Credentials); err != nil {
			l.refuse(l.origin["nats.credentials"], "%v", err)
		}
	}
}

// readPolicy reads the policy file that a setting or flag names.
func readPolicy(name string) ([]byte, error) {
	if name == "" {
		return nil, usage(errors.New("policy: want a policy file, got none; set it with --policy FILE, and begin with\n  processor policy example > policy.yaml"))
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, usage(fmt.Errorf("policy: %w", err))
	}
	return content, nil
}
