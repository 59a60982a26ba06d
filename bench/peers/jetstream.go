package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetStream is NATS JetStream with its server in this process.
type jetStream struct {
	server   *server.Server
	conns    []*nats.Conn
	streams  []jetstream.JetStream // of conns
	next     atomic.Int64
	consumer jetstream.Consumer
	handling sync.WaitGroup

	mu     sync.Mutex
	failed error // owned by mu: why a handler ended
}

const natsConnections = 8

func (*jetStream) settings() string {
	return fmt.Sprintf(
		"server in the process, file storage, sync_interval always, work queue, explicit acknowledgement that the server confirms (DoubleAck), %d connections; each producer waits for the answer to its publish", natsConnections)
}

func (p *jetStream) open(ctx context.Context, dir string, slots int, h observer) (err error) {
	p.server, err = server.NewServer(&server.Options{
		JetStream: true, StoreDir: dir, SyncAlways: true, Host: "127.0.0.1", Port: server.RANDOM_PORT,
		NoLog: true, NoSigs: true, DisableJetStreamBanner: true,
	})
	if err != nil {
		return err
	}
	p.server.Start()
	if !p.server.ReadyForConnections(10 * time.Second) {
		return errors.New("the NATS server is not ready after 10s")
	}
	for range natsConnections {
		conn, err := nats.Connect(p.server.ClientURL())
		if err != nil {
			return err
		}
		js, err := jetstream.New(conn)
		if err != nil {
			return err
		}
		p.conns, p.streams = append(p.conns, conn), append(p.streams, js)
	}
	stream, err := p.streams[0].CreateStream(ctx, jetstream.StreamConfig{
		Name: "work", Subjects: []string{"work.*"}, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		return err
	}
	p.consumer, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: outstanding,
	})
	if err != nil {
		return err
	}
	messages, err := p.consumer.Messages(jetstream.PullMaxMessages(4 * slots))
	if err != nil {
		return err
	}
	for range slots {
		p.handling.Go(func() { p.handle(ctx, messages, h) })
	}
	return nil
}

// handle handles messages until the connection closes.
func (p *jetStream) handle(ctx context.Context, messages jetstream.MessagesContext, h observer) {
	err := func() error {
		for {
			m, err := messages.Next()
			if errors.Is(err, jetstream.ErrMsgIteratorClosed) || errors.Is(err, nats.ErrConnectionClosed) {
				return nil
			}
			if err != nil {
				return err
			}
			var w work
			if err := json.Unmarshal(m.Data(), &w); err != nil {
				return err
			}
			h.started(w.Number)
			if err := m.DoubleAck(ctx); err != nil {
				return err
			}
			h.done(w.Number)
		}
	}()
	if err != nil && ctx.Err() == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failed = errors.Join(p.failed, err)
	}
}

func (p *jetStream) submit(ctx context.Context, w work) error {
	body, err := json.Marshal(w)
	if err != nil {
		return err
	}
	js := p.streams[p.next.Add(1)%int64(len(p.streams))]
	_, err = js.Publish(ctx, "work."+w.Thread, body)
	return err
}

func (p *jetStream) recorded(ctx context.Context) (int64, error) {
	info, err := p.consumer.Info(ctx)
	if err != nil {
		return 0, err
	}
	if info.NumAckPending > 0 || info.NumPending > 0 {
		return 0, nil
	}
	return int64(info.AckFloor.Consumer), nil // grows with each message, in order
}

func (p *jetStream) close() error {
	for _, conn := range p.conns {
		conn.Close()
	}
	p.handling.Wait()
	if p.server != nil {
		p.server.Shutdown()
		p.server.WaitForShutdown()
	}
	return p.failed
}
