package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// process is a server that was started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// start starts a server and waits until it listens.
func start(ctx context.Context, stderr io.Writer, address, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), done: make(chan struct{})}
	p.cmd.Stderr = stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // it is ended from here, and says so
		close(p.done)
	}()
	for range 500 {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return p, conn.Close()
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("%s has ended: %v", name, p.cmd.ProcessState)
		case <-time.After(20 * time.Millisecond):
		}
	}
	p.stop()
	return nil, fmt.Errorf("%s does not listen on %s", name, address)
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill() // an error is that it has ended
	<-p.done
}

// usage is what a process has used.
type usage struct {
	resident int64         // bytes
	cpu      time.Duration // since it began
}

// usage reads /proc, of Linux.
func (p *process) usage() (u usage, err error) {
	dir := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return u, err
			}
			u.resident = kib << 10
		}
	}
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return u, err
	}
	// The name, in brackets, may have spaces: fields count from behind it.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return u, errors.New("odd /proc/*/stat")
	}
	for _, f := range fields[11:13] { // utime and stime
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(ticks) * (time.Second / ticksPerSecond)
	}
	return u, nil
}

// ticksPerSecond is USER_HZ, which is 100 wherever Go runs on Linux.
const ticksPerSecond = 100

// freeAddress is a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// shared lets several processes write to one writer.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
