package devserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// ProcessConfig says which program to start and where it writes.
type ProcessConfig struct {
	Path string   // the program, as exec.Command takes it
	Args []string // its arguments, without the program's name
	Dir  string   // its working directory; "" is that of this program
	Env  []string // its whole environment, "KEY=value"; nil is that of this program
	Log  string   // file that takes its stdout and stderr, appended to
}

// Validate names the first field that cannot be used.
func (c ProcessConfig) Validate() error {
	if c.Path == "" {
		return errors.New(`process: Path is "", want the program to start`)
	}
	if c.Log == "" {
		return fmt.Errorf("process %s: Log is \"\", want a file for its output", c.Path)
	}
	return nil
}

// Process is a running program. All methods may be called from any goroutine,
// and also after it has ended.
type Process struct {
	name string
	log  string
	from int64 // size of the log before this process wrote to it
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; read only after done is closed
}

// StartProcess starts a program in a process group of its own, so that the
// interrupt key of a terminal reaches its parent only and the parent decides
// in which order things stop.
func StartProcess(cfg ProcessConfig) (*Process, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(cfg.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("process %s: open its log: %w", cfg.Path, err)
	}
	info, err := out.Stat()
	if err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("process %s: look at its log: %w", cfg.Path, err)
	}
	cmd := exec.Command(cfg.Path, cfg.Args...)
	cmd.Dir, cmd.Env = cfg.Dir, cfg.Env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = childAttributes()

	p := &Process{name: filepath.Base(cfg.Path), log: cfg.Log, from: info.Size(), cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel ends the child when the *thread* that started it ends,
		// so that thread has to stay for as long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = out.Close() // the child has its own descriptor
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cfg.Path, err)
	}
	return p, nil
}

// PID is the process id, also after the process has ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the process ended: nil for exit status 0 and while it runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Running tells whether the process has not ended yet. A paused one runs.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends the process at once (SIGKILL) and returns when it is gone.
func (p *Process) Kill() error {
	if err := p.signal(os.Kill); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Pause stops the process where it stands (SIGSTOP) until Resume. On Linux it
// returns when the process has come to a halt.
func (p *Process) Pause() error {
	if err := p.signal(pauseSignal); err != nil || !p.Running() {
		return err
	}
	return waitPaused(p.PID())
}

// Resume lets a paused process go on (SIGCONT).
func (p *Process) Resume() error { return p.signal(resumeSignal) }

// Stop asks the process to end (SIGTERM, after a SIGCONT in case it is
// paused), waits for at most grace, and then kills it. It returns an error if
// the process had to be killed.
func (p *Process) Stop(grace time.Duration) error {
	if !p.Running() {
		return nil
	}
	if p.signal(terminateSignal) == nil && p.signal(resumeSignal) == nil {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return nil
		case <-timer.C:
		}
	}
	if err := p.Kill(); err != nil {
		return err
	}
	return fmt.Errorf("stop %s: still running %v after it was asked to end, killed; its last lines:\n%s", p.name, grace, p.LogTail(20))
}

// logTailBytes bounds how much of a log LogTail reads.
const logTailBytes = 64 << 10

// LogTail returns the last n lines that this process has written, from the
// last 64 KiB of them.
func (p *Process) LogTail(n int) string {
	data, err := readTail(p.log, p.from)
	if err != nil {
		return fmt.Sprintf("(its log cannot be read: %v)", err)
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (p *Process) signal(s os.Signal) error {
	err := p.cmd.Process.Signal(s)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return fmt.Errorf("send %v to %s (pid %d): %w", s, p.name, p.PID(), err)
}

// readTail reads the end of a file, from an offset on, at most logTailBytes.
func readTail(path string, from int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from = max(from, info.Size()-logTailBytes)
	return io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
}
