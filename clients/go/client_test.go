package antares

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/antares-vm/antares/clients/go/antaresv1"
)

type runner struct {
	antaresv1.UnimplementedRunnerServiceServer
	calls  atomic.Int32
	answer func(context.Context, *antaresv1.VerifyTransactionRequest) (*antaresv1.VerifyTransactionResponse, error)
}

func (runner *runner) VerifyTransaction(
	ctx context.Context, request *antaresv1.VerifyTransactionRequest,
) (*antaresv1.VerifyTransactionResponse, error) {
	runner.calls.Add(1)
	return runner.answer(ctx, request)
}

// serve starts a server and gives a client of it.
func serve(t *testing.T, runner *runner) *Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	antaresv1.RegisterRunnerServiceServer(server, runner)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	client, err := New(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// Verdicts follow from the JSON alone, and each caller needs its own.
func TestCallersThatShareOptions(t *testing.T) {
	runner := &runner{}
	runner.answer = func(_ context.Context, request *antaresv1.VerifyTransactionRequest) (*antaresv1.VerifyTransactionResponse, error) {
		outcome := antaresv1.VerifyOutcome_VERIFY_OUTCOME_OK
		if string(request.GetMockJson()) == "failing" {
			outcome = antaresv1.VerifyOutcome_VERIFY_OUTCOME_FAILED
		}
		return &antaresv1.VerifyTransactionResponse{Outcome: outcome, RequestId: request.RequestId}, nil
	}
	client := serve(t, runner)
	options := &antaresv1.VerifyTransactionRequest{RequestId: "shared"}
	before := proto.Clone(options)
	var all sync.WaitGroup
	for caller := range 64 {
		json, expected := "passing", antaresv1.VerifyOutcome_VERIFY_OUTCOME_OK
		if caller%2 == 1 {
			json, expected = "failing", antaresv1.VerifyOutcome_VERIFY_OUTCOME_FAILED
		}
		all.Go(func() {
			for range 20 {
				answer, err := client.Verify(context.Background(), []byte(json), options)
				if err != nil || answer.Outcome != expected || answer.RequestId != "shared" {
					t.Errorf("%s: %v, %v", json, answer, err)
				}
			}
		})
	}
	all.Wait()
	if !proto.Equal(options, before) {
		t.Error("the options have changed:", options)
	}
}

func TestCallsHaveADeadline(t *testing.T) {
	runner := &runner{}
	runner.answer = func(ctx context.Context, _ *antaresv1.VerifyTransactionRequest) (*antaresv1.VerifyTransactionResponse, error) {
		end, isBounded := ctx.Deadline()
		return &antaresv1.VerifyTransactionResponse{RequestId: fmt.Sprint(isBounded && time.Until(end) <= deadlineDefault)}, nil
	}
	answer, err := serve(t, runner).VerifyBare(context.Background(), []byte("{}"), nil)
	if err != nil || answer.RequestId != "true" {
		t.Error(answer, err)
	}
}

func quota() error {
	refused, _ := status.New(codes.ResourceExhausted, "used up").WithDetails(&errdetails.ErrorInfo{Reason: "QUOTA"})
	return refused.Err()
}

func TestRetries(t *testing.T) {
	for name, each := range map[string]struct {
		first error
		calls int32
	}{"gone": {status.Error(codes.Unavailable, "gone"), 2}, "quota": {quota(), 1}} {
		runner := &runner{}
		runner.answer = func(context.Context, *antaresv1.VerifyTransactionRequest) (*antaresv1.VerifyTransactionResponse, error) {
			if runner.calls.Load() == 1 {
				return nil, each.first
			}
			return &antaresv1.VerifyTransactionResponse{}, nil
		}
		_, err := serve(t, runner).Verify(context.Background(), nil, nil)
		if calls := runner.calls.Load(); calls != each.calls || (err == nil) != (calls == 2) {
			t.Error(name, calls, err)
		}
	}
}

// attempts counts what the client sends.
type attempts struct {
	antaresv1.RunnerServiceClient
	made int
}

func (attempts *attempts) VerifyTransaction(
	ctx context.Context, request *antaresv1.VerifyTransactionRequest, options ...grpc.CallOption,
) (*antaresv1.VerifyTransactionResponse, error) {
	attempts.made++
	return attempts.RunnerServiceClient.VerifyTransaction(ctx, request, options...)
}

func TestAMessageThatIsTooLongIsSentOnce(t *testing.T) {
	client := serve(t, &runner{})
	attempts := &attempts{RunnerServiceClient: client.Runner}
	client.Runner = attempts
	_, err := client.Verify(context.Background(), make([]byte, messageBytesMax+1), nil)
	refused, isRefused := err.(*Refused)
	if !isRefused || refused.Code != codes.ResourceExhausted || attempts.made != 1 {
		t.Error(attempts.made, err)
	}
}

func (runner *runner) VerifySession(stream antaresv1.RunnerService_VerifySessionServer) error {
	part := runner.calls.Add(1)
	if _, err := stream.Recv(); err != nil {
		return err
	}
	for number := 0; ; number++ {
		request, err := stream.Recv()
		if err != nil {
			return nil
		}
		// Of the first parts the third transaction is lost, and all that was in progress.
		if number == 2 && part < 4 {
			return status.Error([]codes.Code{codes.Unavailable, codes.DeadlineExceeded}[part%2], "")
		}
		transaction := request.GetTransaction()
		answer, err := runner.answer(stream.Context(), &antaresv1.VerifyTransactionRequest{
			Transaction: &antaresv1.VerifyTransactionRequest_MockJson{MockJson: transaction.GetMockJson()},
		})
		if err != nil {
			return err
		}
		result := &antaresv1.SharedTransactionResult{
			Id: transaction.Id, Result: &antaresv1.SharedTransactionResult_Response{Response: answer},
		}
		message := &antaresv1.VerifySessionResponse_Result{Result: result}
		if err := stream.Send(&antaresv1.VerifySessionResponse{Message: message}); err != nil {
			return err
		}
	}
}

func TestSessionsGoOnWhereTheyWereLost(t *testing.T) {
	runner := &runner{}
	runner.answer = func(_ context.Context, request *antaresv1.VerifyTransactionRequest) (*antaresv1.VerifyTransactionResponse, error) {
		return &antaresv1.VerifyTransactionResponse{RequestId: string(request.GetMockJson())}, nil
	}
	transactions := make(chan []byte)
	go func() {
		for number := range 1_000 {
			transactions <- []byte(fmt.Sprint(number))
		}
		close(transactions)
	}()
	seen := map[uint64]bool{}
	for result, err := range serve(t, runner).VerifySession(context.Background(), transactions, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[result.Id] || result.GetResponse().GetRequestId() != fmt.Sprint(result.Id) {
			t.Fatalf("%d: %v", result.Id, result)
		}
		seen[result.Id] = true
	}
	if len(seen) != 1_000 {
		t.Fatalf("%d answers", len(seen))
	}
}
