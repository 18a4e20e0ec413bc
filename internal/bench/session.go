package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"runledger/internal/devserver"

	"github.com/nats-io/nats.go"
)

// subject is what is measured.
type subject string

const (
	subjectProcessor subject = "processor"
	subjectFloor     subject = "floor"
)

// session is one subject on fresh servers, with a load.
type session struct {
	cfg       Config
	setup     Setup
	dir       string
	servers   *servers
	processes []*devserver.Process // processors or the floor
	listens   []string             // their addresses of /metrics
	load      *devserver.Process
	nc        *nats.Conn
}

// startSession starts everything but the load. A floor needs the recipe.
func startSession(ctx context.Context, cfg Config, setup Setup, what subject, recipe *recipe) (s *session, err error) {
	if err := setup.Validate(); err != nil {
		return nil, err
	}
	s = &session{cfg: cfg, setup: setup}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if s.dir, err = os.MkdirTemp(cfg.Dir, string(what)+"-"); err != nil {
		return s, err
	}
	if s.servers, err = startServers(ctx, cfg, setup, s.dir); err != nil {
		return s, err
	}
	if what == subjectFloor {
		err = s.startFloor(recipe)
	} else {
		err = s.startProcessors(ctx)
	}
	return s, err
}

// start starts this program as one more process.
func (s *session) start(name string, args ...string) (*devserver.Process, error) {
	return devserver.StartProcess(devserver.ProcessConfig{
		Path: s.cfg.Program, Args: args, Log: filepath.Join(s.dir, name+".log"),
	})
}

func (s *session) startFloor(recipe *recipe) error {
	file := filepath.Join(s.dir, "recipe.json")
	if err := recipe.writeFile(file); err != nil {
		return err
	}
	p, err := s.start("floor", "bench", CommandFloor,
		"--nats-url", s.servers.url(), "--redis", s.servers.redis.Addr(), "--recipe", file)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return nil
}

func (s *session) startProcessors(ctx context.Context) error {
	policy := filepath.Join(s.dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(policyText), 0o600); err != nil {
		return err
	}
	listens, err := freeAddresses(s.setup.Processors)
	if err != nil {
		return err
	}
	for i, listen := range listens {
		name := fmt.Sprintf("processor-%d", i)
		p, err := s.start(name, "serve", "--nats-url", s.servers.url(), "--redis-addresses", s.servers.redis.Addr(),
			"--policy", policy, "--process", name, "--listen", listen, "--log-level", "warn")
		if err != nil {
			return err
		}
		s.processes, s.listens = append(s.processes, p), append(s.listens, listen)
	}
	return s.waitShared(ctx)
}

// waitShared waits until the processors have taken all partitions, each its
// share.
func (s *session) waitShared(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	lacking := errors.New("none has answered")
	for {
		lacks := s.lacks(ctx)
		if lacks == nil {
			return nil
		}
		if ctx.Err() == nil { // else it says no more than that
			lacking = lacks
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the processors have not taken their partitions (%w): %w%s", ctx.Err(), lacking, s.logs())
		}
		if err := s.alive(); err != nil {
			return err
		}
	}
}

// lacks tells of the first processor that has not taken its share, nil of none.
func (s *session) lacks(ctx context.Context) error {
	share := partitions / len(s.listens)
	for _, listen := range s.listens {
		text, err := fetch(ctx, "http://"+listen+"/metrics")
		if err != nil {
			return err
		}
		owned, err := metric(text, "runledger_partitions_owned")
		if err != nil {
			return fmt.Errorf("metrics of %s: %w", listen, err)
		}
		if int(owned) < share {
			return fmt.Errorf("the one at %s has %.0f, want %d at least", listen, owned, share)
		}
	}
	return nil
}

// record makes a recipe of what the session's processor does.
func (s *session) record(ctx context.Context) (*recipe, error) {
	r, err := record(ctx, s.servers.url(), s.servers.redis.Addr(), s.setup)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, s.logs())
	}
	return &r, nil
}

// startLoad starts the load and waits until it listens.
func (s *session) startLoad(ctx context.Context) error {
	var err error
	s.load, err = s.start("load", "bench", CommandLoad, "--nats-url", s.servers.url(),
		"--argument-bytes", strconv.Itoa(s.setup.ArgumentBytes), "--result-bytes", strconv.Itoa(s.setup.ResultBytes))
	if err != nil {
		return err
	}
	if s.nc, err = nats.Connect(s.servers.url(), nats.Name("bench")); err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	return s.waitLoad(ctx)
}

// waitLoad waits until the load takes orders.
func (s *session) waitLoad(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	poll := time.NewTicker(loadPoll)
	defer poll.Stop()
	for {
		_, err := s.order(ctx, order{})
		if !errors.Is(err, nats.ErrNoResponders) {
			return err
		}
		if err := s.alive(); err != nil {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("the load does not listen (%w): %w", ctx.Err(), err)
		}
	}
}

// loadPoll is how often a load that begins is asked whether it listens.
const loadPoll = 20 * time.Millisecond

// open starts runs until so many are open.
func (s *session) open(ctx context.Context, runs int) error {
	_, err := s.order(ctx, order{Open: &openOrder{Runs: runs}})
	return err
}

// play has the load play, watching all processes.
func (s *session) play(ctx context.Context, o playOrder) (play, error) {
	o.Watch = watch{Redis: []int{s.servers.redis.Process().PID()}, Metrics: s.listens}
	for _, p := range s.processes {
		o.Watch.Processor = append(o.Watch.Processor, p.PID())
	}
	for _, n := range s.servers.nats {
		o.Watch.NATS = append(o.Watch.NATS, n.Process().PID())
	}
	if o.DrainMS == 0 {
		o.DrainMS = (60 * time.Second).Milliseconds()
	}
	return s.order(ctx, order{Play: &o})
}

// prepare gives the first runs their calls, as fast as they go.
func (s *session) prepare(ctx context.Context, calls int) error {
	_, err := s.order(ctx, order{Play: &playOrder{
		Window: activeRuns, ActiveRuns: activeRuns, MaxCalls: calls, Unmeasured: true, DrainMS: 10_000,
		MeasuredMS: (10 * time.Minute).Milliseconds(),
	}})
	return err
}

// order sends an order to the load and waits for its end, or that of any of the
// processes.
func (s *session) order(ctx context.Context, o order) (play, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return play{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.cancelAtEnd(ctx, cancel)
	m, err := s.nc.RequestWithContext(ctx, controlSubject, data)
	if err != nil {
		return play{}, errors.Join(err, s.alive())
	}
	var r report
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return play{}, fmt.Errorf("answer of the load: %w", err)
	}
	if r.Error != "" {
		return play{}, fmt.Errorf("load: %s%s", r.Error, s.logs())
	}
	return r.play, nil
}

// cancelAtEnd cancels when any of the processes ends.
func (s *session) cancelAtEnd(ctx context.Context, cancel context.CancelFunc) {
	for _, p := range s.all() {
		go func() {
			select {
			case <-p.Done():
				cancel()
			case <-ctx.Done():
			}
		}()
	}
}

func (s *session) all() []*devserver.Process {
	all := append([]*devserver.Process(nil), s.processes...)
	if s.load != nil {
		all = append(all, s.load)
	}
	if s.servers != nil && s.servers.redis != nil {
		all = append(all, s.servers.redis.Process())
		for _, n := range s.servers.nats {
			all = append(all, n.Process())
		}
	}
	return all
}

// alive reports a process that has ended by itself.
func (s *session) alive() error {
	for _, p := range s.all() {
		if !p.Running() {
			return fmt.Errorf("process %d has ended (%w); its last lines:\n%s", p.PID(), p.Err(), p.LogTail(20))
		}
	}
	return nil
}

// logs gives what the processes that are measured wrote last.
func (s *session) logs() string {
	text := ""
	for _, p := range s.processes {
		if lines := p.LogTail(10); lines != "" {
			text += fmt.Sprintf("\nlast lines of process %d:\n%s", p.PID(), lines)
		}
	}
	return text
}

const stopGrace = 10 * time.Second

// stop ends everything and removes its files.
func (s *session) stop() error {
	var errs []error
	if s.nc != nil {
		s.nc.Close()
	}
	if s.load != nil {
		errs = append(errs, s.load.Stop(stopGrace))
	}
	for _, p := range s.processes {
		errs = append(errs, p.Stop(stopGrace))
	}
	if s.servers != nil {
		errs = append(errs, s.servers.stop())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
