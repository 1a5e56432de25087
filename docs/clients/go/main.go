// Runs a script: uploads it where the server has not got it, and asks again when the server says that it may be asked again.
//
//	docs/clients/make.sh go FOLDER
//	FOLDER/run HOST:PORT SCRIPT ARG...
//
// ANTARES_TLS_CA, ANTARES_TLS_CERT and ANTARES_TLS_KEY name files, ANTARES_TOKEN_FILE one with a token.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	antares "example/antaresv1"
)

const (
	chunkBytes  = 64 << 10
	attemptsMax = 8
	deadline    = 300 * time.Second
)

// transport is encrypted if an authority is named.
func transport() (credentials.TransportCredentials, error) {
	ca := os.Getenv("ANTARES_TLS_CA")
	if ca == "" {
		return insecure.NewCredentials(), nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificates", ca)
	}
	config := &tls.Config{RootCAs: roots}
	if certificate := os.Getenv("ANTARES_TLS_CERT"); certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, os.Getenv("ANTARES_TLS_KEY"))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// withToken adds the token to a call, where there is one.
func withToken(ctx context.Context) (context.Context, error) {
	path := os.Getenv("ANTARES_TOKEN_FILE")
	if path == "" {
		return ctx, nil
	}
	token, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))), nil
}

// details tells the reason of an error, after how long to ask again, and whether that is of any use.
func details(err error) (reason string, delay time.Duration, again bool) {
	told := status.Convert(err)
	for _, detail := range told.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			reason = detail.Reason
		case *errdetails.RetryInfo:
			delay, again = detail.RetryDelay.AsDuration(), true
		}
	}
	// A server that is gone has no details; another one, or the same a little later, may answer.
	return reason, delay, again || (reason == "" && told.Code() == codes.Unavailable)
}

// patiently asks again as the proto files say: only what carries a RetryInfo, after its delay.
func patiently[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	for attempt := 0; ; attempt++ {
		answer, err := call(ctx)
		if err == nil {
			return answer, nil
		}
		_, delay, again := details(err)
		if !again || attempt+1 == attemptsMax {
			return answer, err
		}
		// Not all clients at the same time.
		wait := delay + rand.N(50*time.Millisecond<<attempt)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return answer, err
		}
	}
}

func upload(ctx context.Context, connection *grpc.ClientConn, elf []byte, digest string) error {
	_, err := patiently(ctx, func(ctx context.Context) (*antares.UploadResponse, error) {
		stream, err := antares.NewCompilerServiceClient(connection).Upload(ctx)
		if err != nil {
			return nil, err
		}
		header := &antares.BlobHeader{Sha256: digest, SizeBytes: uint64(len(elf))}
		// A send that fails is explained by CloseAndRecv.
		failed := stream.Send(&antares.UploadRequest{Part: &antares.UploadRequest_Header{Header: header}})
		for at := 0; at < len(elf) && failed == nil; at += chunkBytes {
			chunk := elf[at:min(at+chunkBytes, len(elf))]
			failed = stream.Send(&antares.UploadRequest{Part: &antares.UploadRequest_Chunk{Chunk: chunk}})
		}
		return stream.CloseAndRecv()
	})
	return err
}

func run(ctx context.Context, connection *grpc.ClientConn, elf []byte, args []string) (*antares.Verdict, error) {
	sum := sha256.Sum256(elf)
	digest := hex.EncodeToString(sum[:])
	request := &antares.ExecuteRequest{
		Script:   &antares.Script{Source: &antares.Script_Sha256{Sha256: digest}},
		TextArgs: args,
	}
	execute := func(ctx context.Context) (*antares.ExecuteResponse, error) {
		return antares.NewRunnerServiceClient(connection).Execute(ctx, request)
	}
	answer, err := patiently(ctx, execute)
	if reason, _, _ := details(err); reason == "SCRIPT_NOT_FOUND" {
		if err := upload(ctx, connection, elf, digest); err != nil {
			return nil, err
		}
		answer, err = patiently(ctx, execute)
	}
	return answer.GetVerdict(), err
}

func start(address, path string, args []string) error {
	elf, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	secure, err := transport()
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(secure))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if ctx, err = withToken(ctx); err != nil {
		return err
	}
	verdict, err := run(ctx, connection, elf, args)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"outcome": verdict.Outcome.String(), "exit_code": verdict.GetExitCode(), "cycles": verdict.Cycles,
	})
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: run HOST:PORT SCRIPT ARG...")
		os.Exit(2)
	}
	if err := start(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
