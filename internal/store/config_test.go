package store_test

import (
	"testing"
	"time"

	"runledger/internal/store"
)

func TestConfigNamesTheFieldWhatItGotAndWhatItWants(t *testing.T) {
	one := []string{"localhost:6379"}
	tests := map[string]store.Config{
		"store: Addrs is empty, want one or more host:port":                           {},
		`store: Addrs has "localhost", want host:port`:                                {Addrs: []string{"localhost"}},
		`store: Addrs has "localhost:", want host:port`:                               {Addrs: []string{"a:1", "localhost:"}},
		`store: Sentinel is "main" and Cluster is true, want one of them`:             {Addrs: one, Sentinel: "main", Cluster: true},
		"store: DialTimeout is -1s, want a positive duration, or 0 for the default":   {Addrs: one, DialTimeout: -time.Second},
		"store: ReadTimeout is -1ns, want a positive duration, or 0 for the default":  {Addrs: one, ReadTimeout: -1},
		"store: WriteTimeout is -1ns, want a positive duration, or 0 for the default": {Addrs: one, WriteTimeout: -1},
		`store: KeyPrefix: key prefix: want 1 to 128 of A-Z a-z 0-9 _ -, got "a.b"`:   {Addrs: one, KeyPrefix: "a.b"},
	}
	for want, cfg := range tests {
		if err := cfg.Validate(); err == nil || err.Error() != want {
			t.Errorf("Validate: %v\nwant %s", err, want)
		}
		if s, err := store.Open(cfg); err == nil {
			_ = s.Close()
			t.Errorf("Open took what Validate refuses: %s", want)
		}
	}
	if err := (store.Config{Addrs: one, KeyPrefix: "a-b_C9", DialTimeout: 1}).Validate(); err != nil {
		t.Errorf("Validate of a good one: %v", err)
	}
}

func TestTheClientDoesNotRetryByItself(t *testing.T) {
	o := store.Config{Addrs: []string{"localhost:6379"}}.Options()
	if o.MaxRetries != -1 || o.DialerRetries != 1 || !o.ContextTimeoutEnabled || !o.DisableIdentity ||
		o.MaintNotificationsConfig == nil || o.MaintNotificationsConfig.Mode != "disabled" {
		t.Errorf("options are %+v", o)
	}
}
