// Package antares is a client of Antares: it runs CKB-VM scripts and verifies CKB transactions on a server.
//
// Calls are asked again as the server says. Scripts go by digest, and are uploaded where the server has not got them; so does data
// of large cells. How a script or a transaction ends is an answer, never an error: a *Refused says why there is no verdict.
package antares

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/antares-vm/antares/clients/go/antaresv1"
)

const (
	chunkBytes      = 64 << 10
	attemptsMax     = 8
	messageBytesMax = 64 << 20
	backoffMax      = 3 * time.Second
	// Data of a cell from which on it goes by digest.
	referenceBytesMin = 4 << 10
	// Digests that a server is asked for at once.
	askedMax = 256
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
	again      bool
}

func (refused *Refused) Error() string {
	return refused.Code.String() + " " + refused.Reason + ": " + refused.message
}

func refusedBy(err error) *Refused {
	told := status.Convert(err)
	refused := &Refused{Code: told.Code(), message: told.Message()}
	for _, detail := range told.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			refused.Reason = detail.Reason
		case *errdetails.RetryInfo:
			refused.delay, refused.again = detail.RetryDelay.AsDuration(), true
		case *errdetails.BadRequest:
			refused.Violations = detail.FieldViolations
		}
	}
	// What comes from a server that is gone, or from a proxy or a connection in its stead, has no reason.
	if refused.Reason == "" {
		switch refused.Code {
		case codes.Unavailable, codes.Unknown, codes.Internal, codes.Canceled, codes.ResourceExhausted:
			refused.again = true
		}
	}
	return refused
}

// Client is a connection to a server. Close it.
type Client struct {
	Runner     antaresv1.RunnerServiceClient
	Compiler   antaresv1.CompilerServiceClient
	connection *grpc.ClientConn
	told       []string
}

// New connects to host:port. The options must say how: grpc.WithTransportCredentials.
func New(address string, options ...grpc.DialOption) (*Client, error) {
	limits := grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax), grpc.MaxCallSendMsgSize(messageBytesMax))
	connection, err := grpc.NewClient(address, append(options, limits)...)
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
	other.told = append(append([]string{}, client.told...), pairs...)
	return &other
}

// Verify has a transaction in ckb-debugger's JSON verified. request may be nil, or have everything but the transaction.
func (client *Client) Verify(
	ctx context.Context, json []byte, request *antaresv1.VerifyTransactionRequest,
) (*antaresv1.VerifyTransactionResponse, error) {
	if request == nil {
		request = &antaresv1.VerifyTransactionRequest{}
	}
	blobs := map[string][]byte{}
	fields, err := Fields(json, func(data []byte) string {
		if len(data) < referenceBytesMin {
			return ""
		}
		return named(blobs, data)
	})
	if err != nil {
		return nil, err
	}
	request.Transaction = &antaresv1.VerifyTransactionRequest_Fields{Fields: fields}
	return withBlobs(client, ctx, blobs, func(ctx context.Context) (*antaresv1.VerifyTransactionResponse, error) {
		return client.Runner.VerifyTransaction(ctx, request)
	})
}

// Execute runs an ELF. request may be nil, or have everything but script and arguments.
func (client *Client) Execute(
	ctx context.Context, elf []byte, args []string, request *antaresv1.ExecuteRequest,
) (*antaresv1.ExecuteResponse, error) {
	if request == nil {
		request = &antaresv1.ExecuteRequest{}
	}
	blobs := map[string][]byte{}
	request.Script = &antaresv1.Script{Source: &antaresv1.Script_Sha256{Sha256: named(blobs, elf)}}
	request.TextArgs = args
	return withBlobs(client, ctx, blobs, func(ctx context.Context) (*antaresv1.ExecuteResponse, error) {
		return client.Runner.Execute(ctx, request)
	})
}

// Upload stores a script, or data of a cell, under its digest.
func (client *Client) Upload(ctx context.Context, blob []byte) error {
	sum := sha256.Sum256(blob)
	header := &antaresv1.BlobHeader{Sha256: hex.EncodeToString(sum[:]), SizeBytes: uint64(len(blob))}
	_, err := patiently(client, ctx, func(ctx context.Context) (*antaresv1.UploadResponse, error) {
		stream, err := client.Compiler.Upload(ctx)
		if err != nil {
			return nil, err
		}
		// A send that fails is explained by CloseAndRecv.
		failed := stream.Send(&antaresv1.UploadRequest{Part: &antaresv1.UploadRequest_Header{Header: header}})
		for at := 0; at < len(blob) && failed == nil; at += chunkBytes {
			chunk := blob[at:min(at+chunkBytes, len(blob))]
			failed = stream.Send(&antaresv1.UploadRequest{Part: &antaresv1.UploadRequest_Chunk{Chunk: chunk}})
		}
		return stream.CloseAndRecv()
	})
	return err
}

func named(blobs map[string][]byte, data []byte) string {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	blobs[digest] = data
	return digest
}

// withBlobs asks, and brings what is missing there.
func withBlobs[T any](
	client *Client, ctx context.Context, blobs map[string][]byte, ask func(context.Context) (T, error),
) (T, error) {
	answer, err := patiently(client, ctx, ask)
	var refused *Refused
	if !errors.As(err, &refused) || refused.Reason != "SCRIPT_NOT_FOUND" || len(blobs) == 0 {
		return answer, err
	}
	digests := make([]string, 0, len(blobs))
	for digest := range blobs {
		digests = append(digests, digest)
	}
	for at := 0; at < len(digests); at += askedMax {
		asked := &antaresv1.FindMissingRequest{ScriptSha256: digests[at:min(at+askedMax, len(digests))]}
		missing, err := patiently(client, ctx, func(ctx context.Context) (*antaresv1.FindMissingResponse, error) {
			return client.Compiler.FindMissing(ctx, asked)
		})
		if err != nil {
			return answer, err
		}
		for _, digest := range missing.MissingSha256 {
			if err := client.Upload(ctx, blobs[digest]); err != nil {
				return answer, err
			}
		}
	}
	return patiently(client, ctx, ask)
}

// patiently asks again where the server says so, after its delay.
func patiently[T any](client *Client, ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, client.told...)
	for attempt := 0; ; attempt++ {
		answer, err := call(ctx)
		if err == nil {
			return answer, nil
		}
		refused := refusedBy(err)
		if !refused.again || attempt+1 == attemptsMax {
			return answer, refused
		}
		// Not all clients at the same time.
		wait := refused.delay + rand.N(min(50*time.Millisecond<<attempt, backoffMax))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return answer, refused
		}
	}
}
