package projector_test

import (
	"testing"

	"runledger/internal/events"
	"runledger/internal/harness"
	"runledger/internal/projector"
)

// projection is a raw response and what must come of it: a result and its
// evidence, or an error.
type projection struct {
	name     string
	config   projector.Config
	raw      string
	want     string
	evidence events.Evidence
	wantErr  string
}

const (
	found   = events.EvidenceFound
	nothing = events.EvidenceNone
)

func checkProjections(t *testing.T, tests []projection) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := compile(t, test.config).Project([]byte(test.raw))
			if message := text(err); message != test.wantErr {
				t.Fatalf("error\n%s\nwant\n%s\nresult %s %s", message, test.wantErr, got.Result, got.Evidence)
			}
			if test.wantErr == "" && (string(got.Result) != test.want || got.Evidence != test.evidence) {
				t.Errorf("got\n%s %s\nwant\n%s %s", got.Result, got.Evidence, test.want, test.evidence)
			}
		})
	}
}

func compile(t testing.TB, config projector.Config) harness.Projector {
	t.Helper()
	p, err := config.New()
	if err != nil {
		t.Fatalf("config: %v", err)
	}
	return p
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func rows(changes ...func(*projector.RowsConfig)) *projector.RowsConfig {
	return with(projector.DefaultRows(), changes)
}

func logs(changes ...func(*projector.LogConfig)) *projector.LogConfig {
	return with(projector.DefaultLog(), changes)
}

func passages(changes ...func(*projector.PassagesConfig)) *projector.PassagesConfig {
	return with(projector.DefaultPassages(), changes)
}

func mcp(changes ...func(*projector.MCPConfig)) *projector.MCPConfig {
	return with(projector.DefaultMCP(), changes)
}

func texts(changes ...func(*projector.TextConfig)) *projector.TextConfig {
	return with(projector.DefaultText(), changes)
}

func jsons(changes ...func(*projector.JSONConfig)) *projector.JSONConfig {
	return with(projector.DefaultJSON(), changes)
}

func with[C any](config *C, changes []func(*C)) *C {
	for _, change := range changes {
		change(config)
	}
	return config
}
