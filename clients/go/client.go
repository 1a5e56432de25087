// Package antares is a client of Antares: it runs CKB-VM scripts and verifies CKB transactions on a server.
//
// Failed calls are retried as the server says. How a script or a transaction ends is an answer, never an error: a *Refused says why
// there is no verdict.
package antares

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/antares-vm/antares/clients/go/antaresv1"
)

const (
	attemptsMax     = 8
	messageBytesMax = 64 << 20
	// All attempts of a call, where its context has no deadline.
	deadlineDefault  = 300 * time.Second
	connectTimeMax   = 10 * time.Second
	keepaliveTime    = 20 * time.Second
	keepaliveTimeout = 10 * time.Second
	pauseMin         = 50 * time.Millisecond
	pauseMax         = 3 * time.Second
	serviceConfig    = `{"loadBalancingConfig": [{"round_robin": {}}]}`
)

// Refused says why there is no verdict.
type Refused struct {
	// Code is the status, Reason what the proto files list.
	Code   codes.Code
	Reason string
	// Violations are the fields that are wrong.
	Violations []*errdetails.BadRequest_FieldViolation
	message    string
	delay      time.Duration
	isPassing  bool
}

func (refused *Refused) Error() string {
	return refused.Code.String() + " " + refused.Reason + ": " + refused.message
}

func refusedBy(err error) *Refused {
	received := status.Convert(err)
	refused := &Refused{Code: received.Code(), message: received.Message()}
	for _, detail := range received.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			refused.Reason = detail.Reason
		case *errdetails.RetryInfo:
			refused.delay, refused.isPassing = detail.RetryDelay.AsDuration(), true
		case *errdetails.BadRequest:
			refused.Violations = detail.FieldViolations
		}
	}
	// A status without a reason comes from a proxy, a broken connection or a server that stops.
	if refused.Reason == "" {
		switch refused.Code {
		case codes.Unavailable, codes.Unknown, codes.Internal, codes.Canceled:
			refused.isPassing = true
		}
	}
	return refused
}

// Attempts to connect: less far apart than all pauses of a call together.
var reconnect = backoff.Config{BaseDelay: time.Second, Multiplier: 1, Jitter: backoff.DefaultConfig.Jitter, MaxDelay: time.Second}

// Client is a connection to one or more servers. Close it.
type Client struct {
	Runner     antaresv1.RunnerServiceClient
	Compiler   antaresv1.CompilerServiceClient
	connection *grpc.ClientConn
	metadata   []string
}

// New connects to host:port, or to a list of addresses such as ipv4:10.0.0.1:50051,10.0.0.2:50051. Calls go to all addresses of the
// list or of the name in turn. The options must have grpc.WithTransportCredentials, and override the defaults.
func New(address string, options ...grpc.DialOption) (*Client, error) {
	defaults := []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax), grpc.MaxCallSendMsgSize(messageBytesMax)),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectTimeMax}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
	}
	if scheme, list, _ := strings.Cut(address, ":"); scheme == "ipv4" || scheme == "ipv6" {
		// grpc-go has no such resolver.
		servers, addresses := manual.NewBuilderWithScheme(scheme), []resolver.Address{}
		for _, server := range strings.Split(list, ",") {
			addresses = append(addresses, resolver.Address{Addr: server})
		}
		servers.InitialState(resolver.State{Addresses: addresses})
		defaults = append(defaults, grpc.WithResolvers(servers), grpc.WithAuthority(addresses[0].Addr))
		address = scheme + ":///"
	}
	connection, err := grpc.NewClient(address, append(defaults, options...)...)
	if err != nil {
		return nil, err
	}
	return &Client{
		Runner:     antaresv1.NewRunnerServiceClient(connection),
		Compiler:   antaresv1.NewCompilerServiceClient(connection),
		connection: connection,
	}, nil
}

// Close ends the connection.
func (client *Client) Close() error { return client.connection.Close() }

// WithMetadata is the same client, whose calls carry more pairs of metadata, such as antares-tenant or authorization. A token must go
// over encrypted connections only.
func (client *Client) WithMetadata(pairs ...string) *Client {
	other := *client
	other.metadata = append(append([]string{}, client.metadata...), pairs...)
	return &other
}

// Verify has a transaction in ckb-debugger's JSON verified. options may be nil, or have everything but the transaction.
func (client *Client) Verify(
	ctx context.Context, json []byte, options *antaresv1.VerifyTransactionRequest,
) (*antaresv1.VerifyTransactionResponse, error) {
	request := copied(options)
	request.Transaction = &antaresv1.VerifyTransactionRequest_MockJson{MockJson: json}
	return client.verify(ctx, request)
}

// VerifyBare has a transaction without its cells verified, in molecule encoding or in a node's JSON. The server gets the cells from its
// node. options are those of Verify.
func (client *Client) VerifyBare(
	ctx context.Context, transaction []byte, options *antaresv1.VerifyTransactionRequest,
) (*antaresv1.VerifyTransactionResponse, error) {
	request := copied(options)
	request.Transaction = &antaresv1.VerifyTransactionRequest_Bare{Bare: transaction}
	return client.verify(ctx, request)
}

func (client *Client) verify(
	ctx context.Context, request *antaresv1.VerifyTransactionRequest,
) (*antaresv1.VerifyTransactionResponse, error) {
	return retried(client, ctx, func(ctx context.Context) (*antaresv1.VerifyTransactionResponse, error) {
		return client.Runner.VerifyTransaction(ctx, request)
	})
}

// Execute runs an ELF: by its digest, and with its bytes if the server does not have it. options may be nil, or have everything but
// script and arguments; Script.Options of it are used.
func (client *Client) Execute(
	ctx context.Context, elf []byte, args []string, options *antaresv1.ExecuteRequest,
) (*antaresv1.ExecuteResponse, error) {
	request := &antaresv1.ExecuteRequest{}
	if options != nil {
		request = proto.Clone(options).(*antaresv1.ExecuteRequest)
	}
	if request.Script == nil {
		request.Script = &antaresv1.Script{}
	}
	request.Script.Source = &antaresv1.Script_Sha256{Sha256: digest(elf)}
	request.TextArgs = args
	ctx, cancel := bounded(ctx)
	defer cancel()
	execute := func(ctx context.Context) (*antaresv1.ExecuteResponse, error) {
		return client.Runner.Execute(ctx, request)
	}
	answer, err := retried(client, ctx, execute)
	var refused *Refused
	if errors.As(err, &refused) && (refused.Reason == "SCRIPT_NOT_FOUND" || refused.Reason == "SOURCE_UNAVAILABLE") {
		request.Script.Source = &antaresv1.Script_Elf{Elf: elf}
		return retried(client, ctx, execute)
	}
	return answer, err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// copied is a request that the caller does not share.
func copied(options *antaresv1.VerifyTransactionRequest) *antaresv1.VerifyTransactionRequest {
	if options == nil {
		return &antaresv1.VerifyTransactionRequest{}
	}
	return proto.Clone(options).(*antaresv1.VerifyTransactionRequest)
}

// bounded gives a context a deadline if it has none.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, isBounded := ctx.Deadline(); isBounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, deadlineDefault)
}

// retried repeats a call where the status says so, after its delay.
func retried[T any](client *Client, ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	end, _ := ctx.Deadline()
	ctx = metadata.AppendToOutgoingContext(ctx, client.metadata...)
	for attempt := 0; ; attempt++ {
		answer, err := call(ctx)
		if err == nil {
			return answer, nil
		}
		refused := refusedBy(err)
		// Clients spread their retries.
		wait := refused.delay + spread(attempt)
		if !refused.isPassing || attempt+1 == attemptsMax || time.Until(end) <= wait {
			return answer, refused
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return answer, refused
		}
	}
}
