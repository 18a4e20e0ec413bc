package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// monitor records the commands that change data of a Redis, those of scripts
// included, with the server's MONITOR.
type monitor struct {
	conn   net.Conn
	lines  *bufio.Reader
	client *redis.Client
	write  map[string]bool // names of commands that change data
	marks  int
}

func startMonitor(ctx context.Context, addr string) (*monitor, error) {
	m := &monitor{client: redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1}), write: make(map[string]bool)}
	known, err := m.client.Command(ctx).Result()
	if err != nil {
		m.close()
		return nil, fmt.Errorf("ask Redis for its commands: %w", err)
	}
	for name, info := range known {
		m.write[strings.ToUpper(name)] = slices.Contains(info.Flags, "write")
	}
	if m.conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr); err != nil {
		m.close()
		return nil, err
	}
	if err := m.begin(); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// begin has the server send what it runs from now on.
func (m *monitor) begin() error {
	m.lines = bufio.NewReader(m.conn)
	if _, err := m.conn.Write([]byte("MONITOR\r\n")); err != nil {
		return fmt.Errorf("monitor Redis: %w", err)
	}
	answer, err := m.lines.ReadString('\n')
	if err != nil {
		return fmt.Errorf("monitor Redis: read its answer: %w", err)
	}
	if !strings.HasPrefix(answer, "+OK") {
		return fmt.Errorf("monitor Redis: want +OK, got %.200q", answer)
	}
	return nil
}

func (m *monitor) close() {
	_ = m.client.Close()
	if m.conn != nil {
		_ = m.conn.Close()
	}
}

// commands gives the commands since it was called last that change data, in the
// order in which the server ran them. A mark that the server is sent now shows
// where they end.
func (m *monitor) commands(ctx context.Context) ([]command, error) {
	m.marks++
	mark := "bench-mark-" + strconv.Itoa(m.marks)
	if err := m.client.Echo(ctx, mark).Err(); err != nil {
		return nil, fmt.Errorf("mark a place in Redis: %w", err)
	}
	if err := m.conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	var commands []command
	for {
		line, err := m.lines.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("monitor Redis: %w", err)
		}
		command, err := parseMonitored(line)
		if err != nil {
			return nil, err
		}
		name := strings.ToUpper(string(command[0]))
		if name == "ECHO" && string(command[1]) == mark {
			return commands, nil
		}
		if m.write[name] {
			commands = append(commands, command)
		}
	}
}

// parseMonitored reads a line of MONITOR:
// +1339518083.107412 [0 lua] "HSET" "key" "field" "value".
func parseMonitored(line string) (command, error) {
	_, rest, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "] ")
	if !ok {
		return nil, fmt.Errorf("monitor Redis: a line is %.200q", line)
	}
	var args command
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, fmt.Errorf("monitor Redis: a line has %.200q", rest)
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("monitor Redis: a line has %.200q", quoted)
		}
		args = append(args, []byte(arg))
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("monitor Redis: a line is %.200q", line)
	}
	return args, nil
}
