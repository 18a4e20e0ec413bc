package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"

	"runledger/internal/devserver"
)

const (
	temporalNamespace = "peers"
	temporalCluster   = "active"
	temporalHost      = "127.0.0.1"

	// temporalShards is the number of history shards. One, as the development
	// server has, costs least: more of them still share one store.
	temporalShards = 1
)

// startTemporal starts Temporal's server with all its services and SQLite in
// this process, which is what its development server is, and gives its address.
func startTemporal(dir string) (temporal.Server, string, error) {
	cfg, address, err := temporalConfig(dir)
	if err != nil {
		return nil, "", err
	}
	if err := createTemporalStore(cfg.Persistence.DataStores[sqliteplugin.PluginName].SQL); err != nil {
		return nil, "", err
	}
	hosts := make(map[primitives.ServiceName]static.Hosts, len(temporal.DefaultServices))
	for _, name := range temporal.DefaultServices {
		port := cfg.Services[name].RPC.GRPCPort
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(net.JoinHostPort(temporalHost, strconv.Itoa(port)))
	}
	logger := log.NewNoopLogger()
	server, err := temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithDynamicConfigClient(temporalLimits()),
	)
	if err != nil {
		return nil, "", fmt.Errorf("temporal: make the server: %w", err)
	}
	if err := server.Start(); err != nil {
		return nil, "", errors.Join(fmt.Errorf("temporal: start the server: %w", err), server.Stop())
	}
	return server, address, nil
}

// temporalStore is a file with a write-ahead log that is not synced at each
// commit: what is committed outlives the process but not the machine, as with
// nats-server's default and, for a second, Redis' everysec.
func temporalStore(dir string) *config.SQL {
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: filepath.Join(dir, "temporal.db"),
		ConnectAttributes: map[string]string{
			"mode": "rwc", "journal_mode": "wal", "synchronous": "normal", "busy_timeout": "10000",
		},
	}
}

func createTemporalStore(store *config.SQL) error {
	if err := sqlite.SetupSchema(store); err != nil {
		return fmt.Errorf("temporal: set up its store: %w", err)
	}
	namespace, err := sqlite.NewNamespaceConfig(temporalCluster, temporalNamespace, false, nil)
	if err != nil {
		return fmt.Errorf("temporal: namespace: %w", err)
	}
	if err := sqlite.CreateNamespaces(store, namespace); err != nil {
		return fmt.Errorf("temporal: create its namespace: %w", err)
	}
	return nil
}

func temporalConfig(dir string) (*config.Config, string, error) {
	services := make(map[string]config.Service, len(temporal.DefaultServices))
	for _, name := range temporal.DefaultServices {
		port, err := freePort()
		if err != nil {
			return nil, "", err
		}
		services[name] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: temporalHost}}
	}
	frontend := services[string(primitives.FrontendService)].RPC.GRPCPort
	address := net.JoinHostPort(temporalHost, strconv.Itoa(frontend))
	off := config.ArchivalNamespaceDefaults{
		History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
		Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
	}
	return &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: temporalHost},
		},
		Persistence: config.Persistence{
			DefaultStore: sqliteplugin.PluginName, VisibilityStore: sqliteplugin.PluginName,
			NumHistoryShards: temporalShards,
			DataStores:       map[string]config.DataStore{sqliteplugin.PluginName: {SQL: temporalStore(dir)}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: temporalCluster, CurrentClusterName: temporalCluster,
			ClusterInformation: map[string]cluster.ClusterInformation{
				temporalCluster: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            services,
		PublicClient:        config.PublicClient{HostPort: address},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: off},
	}, address, nil
}

// temporalLimits lifts the rate limits, which protect a shared installation,
// and takes one partition a task queue, which is right for one worker.
func temporalLimits() dynamicconfig.StaticClient {
	const unlimited = math.MaxInt32
	limits := dynamicconfig.StaticClient{
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
	}
	for _, key := range []dynamicconfig.Key{
		dynamicconfig.FrontendRPS.Key(),
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key(),
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(),
		dynamicconfig.FrontendPersistenceMaxQPS.Key(),
		dynamicconfig.HistoryRPS.Key(),
		dynamicconfig.HistoryPersistenceMaxQPS.Key(),
		dynamicconfig.MatchingRPS.Key(),
		dynamicconfig.MatchingPersistenceMaxQPS.Key(),
		dynamicconfig.VisibilityPersistenceMaxReadQPS.Key(),
		dynamicconfig.VisibilityPersistenceMaxWriteQPS.Key(),
	} {
		limits[key] = unlimited
	}
	return limits
}

func freePort() (int, error) {
	address, err := devserver.FreeAddress()
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(port)
}
