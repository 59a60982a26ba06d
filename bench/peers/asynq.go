package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
)

// asynqPeer is asynq on a Redis of its own that syncs each write.
type asynqPeer struct {
	redis     *process
	client    *asynq.Client
	server    *asynq.Server
	inspector *asynq.Inspector
}

const (
	asynqPool  = 64
	asynqCheck = time.Millisecond
)

func (*asynqPeer) settings() string {
	return fmt.Sprintf(
		"Redis with appendonly yes, appendfsync always, no snapshots, Unix socket, pool of %d; TaskCheckInterval %s. A run counts as done when its handler returns, a moment before Redis records it; the record is checked at the end", asynqPool, asynqCheck)
}

func redisBinary() (string, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errors.New("redis-server is not in PATH: on Debian, apt-get install redis-server")
	}
	return bin, nil
}

func needsRedis() error {
	_, err := redisBinary()
	return err
}

func (p *asynqPeer) open(ctx context.Context, dir string, slots int, h observer) error {
	bin, err := redisBinary()
	if err != nil {
		return err
	}
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(bin, "--port", "0", "--unixsocket", socket, "--dir", dir, "--appendonly", "yes",
		"--appendfsync", "always", "--save", "", "--daemonize", "no")
	p.redis, err = startProcess(ctx, cmd, func(ctx context.Context) error { return ping(ctx, socket) })
	if err != nil {
		return err
	}
	at := asynq.RedisClientOpt{Network: "unix", Addr: socket, PoolSize: asynqPool}
	p.client, p.inspector = asynq.NewClient(at), asynq.NewInspector(at)
	// The server has its own connection pool, because its blocking calls must not use the producers' connections.
	p.server = asynq.NewServer(at, asynq.Config{
		Concurrency: slots, TaskCheckInterval: asynqCheck, LogLevel: asynq.FatalLevel, ShutdownTimeout: 10 * time.Second,
	})
	return p.server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		var w work
		if err := json.Unmarshal(t.Payload(), &w); err != nil {
			return err
		}
		h.started(w.Number)
		h.done(w.Number)
		return nil
	}))
}

// ping checks that Redis answers.
func ping(ctx context.Context, socket string) (err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, len("+PONG\r\n"))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if string(answer) != "+PONG\r\n" {
		return fmt.Errorf("redis answered %q", answer)
	}
	return nil
}

func (p *asynqPeer) submit(ctx context.Context, w work) error {
	body, err := json.Marshal(w)
	if err != nil {
		return err
	}
	_, err = p.client.EnqueueContext(ctx, asynq.NewTask("work", body))
	return err
}

func (p *asynqPeer) recorded(context.Context) (int64, error) {
	q, err := p.inspector.GetQueueInfo("default")
	if err != nil {
		return 0, err
	}
	return int64(q.ProcessedTotal), nil
}

func (p *asynqPeer) close() (err error) {
	if p.server != nil {
		p.server.Shutdown()
		err = errors.Join(p.client.Close(), p.inspector.Close())
	}
	if p.redis != nil {
		err = errors.Join(err, p.redis.close(syscall.SIGTERM))
	}
	return err
}
