package testenv

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"runledger/internal/devserver"
)

// Network is what a Proxy does to what passes through it. The zero value passes
// everything on at once.
type Network struct {
	Cut    bool          // no connection is taken, and those that were open are gone
	Silent bool          // nothing passes and nothing is closed: the other side seems to think
	Delay  time.Duration // before each piece of up to 64 KiB, each way
	Rate   int           // bytes a second for each connection and way; 0 is no limit

	// CutReplies closes a connection once it has brought that many bytes from
	// the server, whatever they are in the middle of; 0 is never.
	CutReplies int
}

// Proxy is a network between a client and a server on this machine, one that
// fails on demand. All methods may be called from any goroutine.
type Proxy struct {
	Addr string // host:port that clients connect to

	t        testing.TB
	listener net.Listener
	done     sync.WaitGroup

	mu      sync.Mutex
	target  string
	network Network
	changed chan struct{} // closed when the network changes
	pairs   map[*pair]bool
	closed  bool
}

// pair is a client's connection and the one to the server that goes with it.
type pair struct{ client, server net.Conn }

func (p *pair) close() {
	_ = p.client.Close()
	_ = p.server.Close()
}

// StartProxy starts a proxy to the server at target; it ends with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, changed: make(chan struct{}), pairs: map[*pair]bool{}}
	address, err := devserver.FreeAddress()
	if err == nil {
		p.listener, err = net.Listen("tcp", address)
	}
	if err != nil {
		t.Fatalf("testenv: start a proxy to %s: %v", target, err)
	}
	p.Addr = address
	p.done.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Set changes what happens to everything that passes from now on.
func (p *Proxy) Set(n Network) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.network = n
	close(p.changed)
	p.changed = make(chan struct{})
	if n.Cut {
		p.closePairs()
	}
}

// Lead leads new connections to another server, and closes those to the one
// before.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	p.closePairs()
}

func (p *Proxy) closePairs() {
	for pair := range p.pairs {
		pair.close()
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.closePairs()
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	_ = p.listener.Close()
	p.done.Wait()
}

// now is the network, and what is closed when it changes.
func (p *Proxy) now() (n Network, changed <-chan struct{}, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.network, p.changed, p.closed
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.done.Go(func() { p.connect(client) })
	}
}

// connect leads a client to the server and passes on until one of them is done.
func (p *Proxy) connect(client net.Conn) {
	defer func() { _ = client.Close() }()
	p.mu.Lock()
	target, cut := p.target, p.network.Cut || p.closed
	p.mu.Unlock()
	if cut {
		return
	}
	server, err := net.DialTimeout("tcp", target, 2*time.Second)
	if err != nil {
		return
	}
	both := &pair{client, server}
	defer both.close()
	p.mu.Lock()
	cut = p.closed || p.network.Cut || p.target != target
	if !cut {
		p.pairs[both] = true
	}
	p.mu.Unlock()
	if cut {
		return
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pairs, both)
	}()
	var ways sync.WaitGroup
	ways.Go(func() { defer both.close(); p.pass(server, client, false) })
	ways.Go(func() { defer both.close(); p.pass(client, server, true) })
	ways.Wait()
}

// pass passes bytes on, one way, until an end or a fault.
func (p *Proxy) pass(to io.Writer, from io.Reader, replies bool) {
	buffer := make([]byte, 64<<10)
	brought := 0
	for {
		n, err := from.Read(buffer)
		piece := buffer[:n]
		network, ok := p.hold(n)
		if !ok {
			return
		}
		cut := replies && network.CutReplies > 0 && brought+n >= network.CutReplies
		if cut {
			piece = piece[:max(network.CutReplies-brought, 0)]
		}
		brought += n
		if _, writeErr := to.Write(piece); writeErr != nil || err != nil || cut {
			return
		}
	}
}

// hold waits for as long as the network makes a piece of n bytes wait; ok is
// false where the proxy is closed meanwhile.
func (p *Proxy) hold(n int) (network Network, ok bool) {
	for {
		network, changed, closed := p.now()
		if closed {
			return network, false
		}
		if network.Silent {
			<-changed
			continue
		}
		wait := network.Delay
		if network.Rate > 0 {
			wait += time.Duration(n) * time.Second / time.Duration(network.Rate)
		}
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-changed: // a network that is whole again lets go of what it holds
				timer.Stop()
				continue
			}
		}
		return network, true
	}
}
