package main

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// module stands before every package in the output of the tests.
const module = "runledger/"

// readOutcomes gives the last outcome of each test: pass, fail or skip.
func readOutcomes(r io.Reader) (map[string]string, error) {
	outcomes := make(map[string]string)
	lines := json.NewDecoder(r)
	for {
		var event struct{ Action, Package, Test string }
		err := lines.Decode(&event)
		if errors.Is(err, io.EOF) {
			return outcomes, nil
		}
		if err != nil {
			return nil, err
		}
		switch event.Action {
		case "pass", "fail", "skip":
			if event.Test != "" {
				outcomes[strings.TrimPrefix(event.Package, module)+"."+event.Test] = event.Action
			}
		}
	}
}
